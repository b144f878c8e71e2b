//! The tool `delegate_task`: the engine's front door for models. A call is parsed once into a [`NewBatch`]; every refusal
//! is a sentence that the model can act on, and nothing exists then.
//!
//! It does not run children and does not decide who may start when; the engine does, behind [`Delegator`].

mod answer;
mod budget;
mod schema;
pub(super) mod tasks;

use super::{Effect, Invocation, Site, Tool, ToolOutput};
use crate::models::ToolSpec;
use budget::Budget;
use legwork_core::batch::{NewBatch, Reach, Setting, Task};
use legwork_core::budget::Allowance;
use legwork_core::ids::CallKey;
use legwork_core::ports::{Delegator, Pending};
use serde_json::{Map, Value, json};
use std::sync::{Arc, OnceLock};
use tasks::{TaskAuthor, TaskRules, parse_tasks};

/// The tool's name.
pub const DELEGATE_TASK: &str = "delegate_task";

/// The limits that hold for calls, and that the model is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegateOptions {
    /// Children that run at once (`delegation.max_concurrent_children`).
    pub concurrent_max: usize,
    /// The depth at which agents may no longer delegate: `delegation.max_spawn_depth`, or 0 when orchestrators are
    /// switched off; children at or below it do not get this tool (BUILD-3).
    pub depth_max: u32,
    /// Bytes of one goal, and of one context (`delegation.goal_max_bytes`).
    pub goal_bytes_max: usize,
    /// Children that all calls together may start; `None` for no such limit. In one-shot sessions it is
    /// `delegation.oneshot_max_children` (TASK-14).
    pub children_max: Option<u32>,
    /// Bytes of one child's answer that the caller is shown (`delegation.max_summary_chars`).
    pub summary_bytes_max: usize,
    /// What each child may use up.
    pub allowance: Allowance,
}

/// `delegate_task`. The calls of one conversation go to one of these, since it counts their children; agents without
/// such a limit may share one.
pub struct DelegateTool {
    options: DelegateOptions,
    budget: Budget,
    /// Set once the engine runs; the engine's worker has this tool before that.
    delegator: OnceLock<Arc<dyn Delegator>>,
}

impl DelegateTool {
    /// The tool before there is an engine. Calls are refused until [`DelegateTool::connect`].
    pub fn new(options: DelegateOptions) -> Self {
        DelegateTool { budget: Budget::new(options.children_max), options, delegator: OnceLock::new() }
    }

    /// Connects the tool to the engine. A second connection is ignored: the first one stays.
    pub fn connect(&self, delegator: Arc<dyn Delegator>) {
        if self.delegator.set(delegator).is_err() {
            tracing::debug!("delegate_task is connected already");
        }
    }

    async fn delegate(&self, invocation: &Invocation) -> Result<ToolOutput, String> {
        let delegator =
            self.delegator.get().ok_or("nothing can be delegated in this process; do the work yourself")?;
        let Invocation { call_id, arguments, site } = invocation;
        let tasks = self.tasks(arguments)?;
        let reserved = self.budget.reserve(tasks.len())?;
        let batch = self.batch(site, call_id, tasks);
        let ticket = delegator.dispatch(batch).await.map_err(|error| error.to_string())?;
        reserved.keep();
        site.line.park().await;
        let joined = delegator.join(&ticket.delegation).await;
        if let Err(notice) = site.line.unpark().await {
            return Err(format!("stopped ({:?}) while waiting for {}", notice.reason, ticket.delegation));
        }
        let joined = joined.map_err(|error| error.to_string())?;
        let unused = tasks::without_effect(arguments);
        Ok(answer::output(joined, self.options.summary_bytes_max, &unused))
    }

    fn tasks(&self, arguments: &Value) -> Result<Vec<Task>, String> {
        let Value::Object(fields) = arguments else {
            return Err("the arguments must be an object".to_owned());
        };
        let mut fields = fields.clone();
        take_action(&mut fields)?;
        let rules = TaskRules { author: TaskAuthor::Model, goal_bytes_max: self.options.goal_bytes_max };
        parse_tasks(&Value::Object(fields), &rules).map_err(|error| error.to_string())
    }

    fn batch(&self, site: &Site, call_id: &str, tasks: Vec<Task>) -> NewBatch {
        NewBatch {
            lineage: site.lineage.clone(),
            call_key: Some(CallKey { caller: site.actor.as_str().to_owned(), call: call_id.to_owned() }),
            reach: Reach::Joined,
            tasks,
            setting: self.child_setting(site),
        }
    }

    /// The caller's setting with the children's allowance, and with the right to delegate only where their depth has
    /// room for it. Nothing is added to the caller's rights (invariant 18).
    fn child_setting(&self, site: &Site) -> Setting {
        let mut setting = Setting { allowance: self.options.allowance, ..site.setting.clone() };
        if site.lineage.depth.saturating_add(1) >= self.options.depth_max {
            setting.rights.tools.remove(DELEGATE_TASK);
        }
        setting
    }
}

impl Tool for DelegateTool {
    fn spec(&self) -> ToolSpec {
        schema::spec(&self.options)
    }

    fn effect(&self) -> Effect {
        Effect::Rejoins
    }

    fn call(&self, invocation: Invocation) -> Pending<'_, ToolOutput> {
        Box::pin(async move {
            let answered = self.delegate(&invocation).await;
            answered.unwrap_or_else(|error| ToolOutput::error(json!({ "error": error }).to_string()))
        })
    }
}

/// Takes `action` and what belongs to it out of the arguments; only spawning goes on (TOOL-15).
fn take_action(fields: &mut Map<String, Value>) -> Result<(), String> {
    let action = match fields.remove("action") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(action)) => action.trim().to_lowercase(),
        Some(other) => other.to_string(),
    };
    match action.as_str() {
        "" | "spawn" => {}
        "list" | "steer" | "stop" => {
            return Err(format!(
                "the action `{action}` is not built yet; only `spawn` is, which needs no action"
            ));
        }
        unknown => {
            return Err(format!("unknown action `{unknown}`; the actions are spawn, list, steer and stop"));
        }
    }
    for key in ["subagent_id", "message"] {
        let value = fields.remove(key).unwrap_or_default();
        if !(value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())) {
            return Err(format!(
                "`{key}` belongs to the actions steer and stop, which are not built yet; leave it out"
            ));
        }
    }
    Ok(())
}
