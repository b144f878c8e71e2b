//! A delegation before and when it is accepted: tasks, who asked, under which setting.

use crate::budget::Allowance;
use crate::ids::{CallKey, ChildId, DelegationId, SessionId, UnitId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

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
    /// With which other tasks of the call it comes back, where a call may come back in parts; never empty (TASK-11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What becomes of its child when the process dies.
    #[serde(default, skip_serializing_if = "OnCrash::is_resume")]
    pub on_crash: OnCrash,
}

impl Task {
    /// A task that is nothing but its goal.
    pub fn of(goal: impl Into<String>) -> Self {
        Task { goal: goal.into(), ..Task::default() }
    }

    /// Whether it asks for the same as `other`. Its route and what becomes of it after a crash follow from settings
    /// too, which may be others by now; they do not tell one call from another.
    pub fn asks_the_same(&self, other: &Task) -> bool {
        let Task { goal, context, output_schema, images, group, route: _, on_crash: _ } = self;
        (goal, context, output_schema, images, group)
            == (&other.goal, &other.context, &other.output_schema, &other.images, &other.group)
    }

    /// The route of its child in a call with this setting.
    pub fn route_within<'a>(&'a self, setting: &'a Setting) -> &'a Route {
        self.route.as_ref().unwrap_or(&setting.route)
    }
}

/// What becomes of a child whose process died.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnCrash {
    /// Whoever takes it over goes on from its last finished step.
    #[default]
    Resume,
    /// It is reported as it stands.
    Report,
}

impl OnCrash {
    /// The words by which it is asked for, in the order of the values.
    pub const WORDS: [&str; 2] = ["resume", "report"];

    /// The value of a word.
    pub fn of_word(word: &str) -> Option<OnCrash> {
        match word {
            "resume" => Some(OnCrash::Resume),
            "report" => Some(OnCrash::Report),
            _ => None,
        }
    }

    fn is_resume(&self) -> bool {
        *self == OnCrash::Resume
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

impl Reach {
    /// Whether the results come to the session by themselves, so that it must be there for them.
    pub fn needs_session(self) -> bool {
        match self {
            Reach::Push | Reach::History => true,
            Reach::Joined => false,
        }
    }
}

/// What happens to a call when all slots are taken (`delegation.at_capacity`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtCapacity {
    /// It waits in the queue.
    Queue,
    /// Its caller waits for it; slots count calls instead of children.
    Sync,
    /// It is refused unless it can start whole.
    Reject,
}

/// Why a call is answered otherwise than its session could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// All slots were taken, so its caller waits (CAP-6).
    AtCapacity,
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
    /// For whom the conversation works. A call of a child has that of the call that it works for, whatever stands here.
    #[serde(default, skip_serializing_if = "Tenant::is_unknown")]
    pub tenant: Tenant,
}

impl Lineage {
    /// A conversation's own agent, for nobody in particular.
    pub fn of_session(session: SessionId) -> Lineage {
        Lineage { session, parent: None, depth: 0, tenant: Tenant::default() }
    }
}

/// For whom a conversation works, as its front door knows it: the keys travel from the call to whoever takes its results, also
/// after a restart (ROUTE-5). legwork itself decides nothing by them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tenant {
    /// The place that the conversation belongs to, such as a workspace of a chat platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope_id: Option<String>,
    /// Who speaks there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    /// How people call them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_name: Option<String>,
}

impl Tenant {
    /// Those of the keys that say something.
    pub fn new(scope_id: &str, user_id: &str, user_name: &str) -> Tenant {
        let known = |key: &str| (!key.trim().is_empty()).then(|| key.to_owned());
        Tenant { scope_id: known(scope_id), user_id: known(user_id), user_name: known(user_name) }
    }

    /// The place that the conversation belongs to.
    pub fn scope_id(&self) -> Option<&str> {
        self.scope_id.as_deref()
    }

    /// Who speaks there.
    pub fn user_id(&self) -> Option<&str> {
        self.user_id.as_deref()
    }

    /// How people call them.
    pub fn user_name(&self) -> Option<&str> {
        self.user_name.as_deref()
    }

    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Tenant::default()
    }
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
    /// Whether they share the folder. In rows of earlier versions they do.
    #[serde(default)]
    pub isolation: Isolation,
}

/// Whether children work side by side in one folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// They do.
    #[default]
    Shared,
    /// Each has a git worktree of its own (`delegation.worktree_isolation`).
    Worktree,
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
    /// A digest of what else it is asked with: effort, fields of its requests, window, and where its fallbacks are. It only
    /// tells alike from unlike. None in rows of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<String>,
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
    /// What the call says about all of them. It stands where people and the caller read of a task without a context of its
    /// own; no child is told it (TASK-6).
    pub context: Option<String>,
    /// What the children run with.
    pub setting: Setting,
}

impl NewBatch {
    /// What is shown as the context of one task.
    pub fn context_of(&self, task_index: usize) -> Option<&str> {
        shown_context(&self.tasks, &self.context, task_index)
    }
}

pub(crate) fn shown_context<'a>(
    tasks: &'a [Task],
    of_call: &'a Option<String>,
    task_index: usize,
) -> Option<&'a str> {
    tasks.get(task_index)?.context.as_deref().or(of_call.as_deref())
}

/// A set of tasks that come back as one completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Its id.
    pub id: UnitId,
    /// The positions of its tasks in the call.
    pub task_indexes: Vec<usize>,
    /// What its tasks have in common; `None` for a task without group, and for a call that comes back whole.
    #[serde(default)]
    pub group: Option<String>,
    /// Whether the caller waits for it although the call comes back later (CAP-9).
    #[serde(default)]
    pub inline: bool,
}

/// How the tasks of a call come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completions {
    /// All of them together.
    Together,
    /// Those of a group together, and each without group by itself.
    ByUnit,
}

impl Unit {
    /// The units of an accepted call, in the order of their ids: the whole call, or by unit one for each group in the order in
    /// which the groups appear, and one for each task without group (DISP-16, DISP-18).
    pub fn of_call(delegation: &DelegationId, tasks: &[Task], completions: Completions) -> Vec<Unit> {
        let parts = match completions {
            Completions::Together => vec![(None, (0..tasks.len()).collect())],
            Completions::ByUnit => by_group(tasks),
        };
        let several = parts.len() > 1;
        let units = (1..).zip(parts).map(|(k, (group, task_indexes))| Unit {
            id: if several { UnitId::part(delegation, k) } else { UnitId::whole(delegation) },
            task_indexes,
            group: group.map(str::to_owned),
            inline: false,
        });
        units.collect()
    }
}

/// The positions of the tasks of each group, and of each task without group, in the order in which they appear.
fn by_group(tasks: &[Task]) -> Vec<(Option<&str>, Vec<usize>)> {
    let mut parts: Vec<(Option<&str>, Vec<usize>)> = Vec::new();
    let mut place_of_group: HashMap<&str, usize> = HashMap::new();
    for (index, task) in tasks.iter().enumerate() {
        let group = task.group.as_deref();
        let known = group.and_then(|group| place_of_group.get(group));
        match known {
            Some(place) => parts[*place].1.push(index),
            None => {
                place_of_group.extend(group.map(|group| (group, parts.len())));
                parts.push((group, vec![index]));
            }
        }
    }
    parts
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
    /// How its results come back, which may be less than what was asked for.
    pub reach: Reach,
    /// Why that is less, where the caller could not know.
    pub fallback: Option<Fallback>,
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
        let setting = Setting {
            folder: "/".into(),
            route,
            rights,
            allowance: Allowance { steps_max: 1 },
            isolation: Isolation::Shared,
        };
        assert_eq!(task.route_within(&setting), &setting.route);
        let mut own = Task { route: Some(setting.route.clone()), ..task.clone() };
        own.route.as_mut().expect("it has one").model = "p/other".into();
        assert_eq!(own.route_within(&setting).model, "p/other");
        assert_eq!(task.route_within(&setting).model, "p/m", "the sibling's is not touched");
        assert!(!serde_json::to_string(&task).expect("it is written").contains("route"));
    }

    #[test]
    fn route_05_a_lineage_from_before_there_were_tenants_is_read_and_written_alike() {
        let old = r#"{"session":"ses_1","parent":null,"depth":0}"#;
        let lineage: Lineage = serde_json::from_str(old).expect("an older row");
        assert!(lineage.tenant.is_unknown());
        assert_eq!(serde_json::to_string(&lineage).expect("it is written"), old);
        let known = Lineage { tenant: Tenant::new("", "U7", ""), ..lineage };
        let text = serde_json::to_string(&known).expect("it is written");
        assert!(text.ends_with(r#""tenant":{"user_id":"U7"}}"#), "{text}");
    }

    fn units(groups: &[Option<&str>], completions: Completions) -> Vec<(String, Vec<usize>, Option<String>)> {
        let task = |group: &Option<&str>| Task { group: group.map(str::to_owned), ..Task::of("look") };
        let tasks: Vec<Task> = groups.iter().map(task).collect();
        let units = Unit::of_call(&DelegationId::from_bits(1), &tasks, completions);
        units
            .into_iter()
            .map(|unit| (unit.id.as_str()[14..].to_owned(), unit.task_indexes, unit.group))
            .collect()
    }

    #[test]
    fn disp_16_a_call_is_one_unit_unless_its_completions_are_independent() {
        let groups = [Some("a"), None, Some("a")];
        assert_eq!(units(&groups, Completions::Together), [(String::new(), vec![0, 1, 2], None)]);
    }

    #[test]
    fn disp_16_disp_18_groups_make_units_in_the_order_in_which_they_appear() {
        let groups = [Some("b"), None, Some("a"), None, Some("b"), Some("A")];
        let named = |k: &str, indexes: &[usize], group: Option<&str>| {
            (k.to_owned(), indexes.to_vec(), group.map(str::to_owned))
        };
        let expected = [
            named("-1", &[0, 4], Some("b")),
            named("-2", &[1], None),
            named("-3", &[2], Some("a")),
            named("-4", &[3], None),
            named("-5", &[5], Some("A")),
        ];
        assert_eq!(units(&groups, Completions::ByUnit), expected);
    }

    #[test]
    fn disp_18_a_unit_that_is_alone_has_the_id_of_the_call() {
        assert_eq!(units(&[None], Completions::ByUnit), [(String::new(), vec![0], None)]);
        let alone = (String::new(), vec![0, 1], Some("a".to_owned()));
        assert_eq!(units(&[Some("a"), Some("a")], Completions::ByUnit), [alone]);
    }

    #[test]
    fn a_task_and_a_unit_from_before_there_were_groups_are_read() {
        let task: Task = serde_json::from_str(r#"{"goal": "g", "context": null}"#).expect("an older task");
        assert_eq!(task, Task::of("g"));
        let unit: Unit =
            serde_json::from_str(r#"{"id": "deleg_1", "task_indexes": [0]}"#).expect("an older unit");
        assert_eq!((unit.group, unit.inline), (None, false));
    }
}
