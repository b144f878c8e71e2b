//! A delegation before and when it is accepted: tasks, who asked, under which setting.

use crate::budget::Allowance;
use crate::ids::{CallKey, ChildId, DelegationId, SessionId, UnitId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// One item of the call. What came in later is left out of the stored form where it says nothing, so tasks that were stored
/// before can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// What the child is to do; it becomes its first user message.
    pub goal: String,
    /// What it needs to know, since it knows nothing of the conversation.
    pub context: Option<String>,
    /// The JSON Schema that its answer must meet; checked to be one when the task was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Pictures that it is shown: paths, addresses, or `data:image/` addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// The route of its child, where that is not the route of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
}

impl Task {
    /// A task that is nothing but its goal.
    pub fn of(goal: impl Into<String>) -> Self {
        Task { goal: goal.into(), ..Task::default() }
    }

    /// The route of its child in a call with this setting.
    pub fn route_within<'a>(&'a self, setting: &'a Setting) -> &'a Route {
        self.route.as_ref().unwrap_or(&setting.route)
    }
}

/// How results can reach the session, declared by its front door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// It can be woken with a turn of its own.
    Push,
    /// A stored row that its next turn reads.
    History,
    /// It has no later turn: the call waits for the results.
    Joined,
}

/// Who asked for a delegation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The conversation that owns the results.
    pub session: SessionId,
    /// The child whose model made the call, when it was not the session's own.
    pub parent: Option<ChildId>,
    /// The depth of the caller: 0 for a session.
    pub depth: u32,
}

/// What the children of a delegation run with. It is stored; keys are not, only the name of a key's source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The folder they work in, as an absolute path.
    pub folder: String,
    /// The model they ask.
    pub route: Route,
    /// What they may do.
    pub rights: Rights,
    /// What they may use up.
    pub allowance: Allowance,
}

/// Which model, where.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Route {
    /// `provider/name`.
    pub model: String,
    /// The address, when it is not the provider's usual one.
    pub base_url: Option<String>,
    /// The wire protocol, as in `LEGWORK_API_MODE`.
    pub api_mode: String,
    /// Where the key comes from, such as the name of an environment variable. Never the key.
    pub key_source: Option<String>,
    /// The table of the configuration that it was made from, such as `delegation.routes.fast`; none for the
    /// conversation's own. What else belongs to the route is found there again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The models that answer in its place when it fails, in order, each as `provider/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<String>,
}

/// The tools that an agent may call. Down the tree the set only shrinks (invariant 18).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Names of tools.
    pub tools: BTreeSet<String>,
}

impl Rights {
    /// Whether `tool` may be called.
    pub fn allow(&self, tool: &str) -> bool {
        self.tools.contains(tool)
    }

    /// Those of `wanted` that this set has too.
    pub fn shrunk_to(&self, wanted: &Rights) -> Rights {
        Rights { tools: self.tools.intersection(&wanted.tools).cloned().collect() }
    }
}

/// A call that was parsed and found sound; nothing exists yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewBatch {
    /// Who asks.
    pub lineage: Lineage,
    /// Makes the dispatch idempotent; absent for a call that cannot be repeated, such as one from the shell.
    pub call_key: Option<CallKey>,
    /// How results can reach the session.
    pub reach: Reach,
    /// The tasks, in order; never empty.
    pub tasks: Vec<Task>,
    /// What the children run with.
    pub setting: Setting,
}

/// A set of tasks that come back as one completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Its id.
    pub id: UnitId,
    /// The positions of its tasks in the call.
    pub task_indexes: Vec<usize>,
}

/// The durable handle of an accepted delegation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The delegation.
    pub delegation: DelegationId,
    /// Its units.
    pub units: Vec<Unit>,
    /// Its children by task index.
    pub children: Vec<ChildId>,
    /// The paths of the live transcripts by task index; empty where there is none.
    pub transcripts: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cred_24_a_task_has_its_route_or_that_of_the_call_and_older_rows_are_read() {
        let old = r#"{"model":"p/m","base_url":null,"api_mode":"responses","key_source":"K"}"#;
        let route: Route = serde_json::from_str(old).expect("a row without the newer fields");
        assert_eq!((&route.table, route.fallbacks.len()), (&None, 0));
        let task: Task = serde_json::from_str(r#"{"goal":"g","context":null}"#).expect("an older task");
        let rights = Rights::default();
        let setting = Setting { folder: "/".into(), route, rights, allowance: Allowance { steps_max: 1 } };
        assert_eq!(task.route_within(&setting), &setting.route);
        let mut own = Task { route: Some(setting.route.clone()), ..task.clone() };
        own.route.as_mut().expect("it has one").model = "p/other".into();
        assert_eq!(own.route_within(&setting).model, "p/other");
        assert_eq!(task.route_within(&setting).model, "p/m", "the sibling's is not touched");
        assert!(!serde_json::to_string(&task).expect("it is written").contains("route"));
    }
}
