//! How `delegate_task` is described to a model. The text is made from the limits and the reach as they are, so that what
//! is promised is what happens (TOOL-6, TOOL-7).

use super::routes::{self, NamedRoutes};
use super::tasks::GROUP;
use super::{DELEGATE_TASK, DelegateOptions};
use crate::models::ToolSpec;
use legwork_core::batch::{AtCapacity, Completions, Reach};
use serde_json::{Value, json};

/// The tool's description and the schema of its arguments.
pub(super) fn spec(options: &DelegateOptions, routes: &dyn NamedRoutes) -> ToolSpec {
    ToolSpec {
        name: DELEGATE_TASK.to_owned(),
        description: description(options),
        parameters: parameters(options, routes),
    }
}

fn description(options: &DelegateOptions) -> String {
    let nesting = if options.depth_max > 1 {
        format!("It may delegate in turn, down to depth {}.", options.depth_max)
    } else {
        "It cannot delegate in turn.".to_owned()
    };
    format!(
        "Hand independent pieces of work to subagents that work side by side in the same folder. {}\n\
         - A subagent knows nothing of this conversation. Write everything it needs into goal and context: paths, facts, \
         limits, and what to give back.\n\
         - It cannot ask you or the user anything. {nesting}\n\
         - {}\n\
         - {}\n\
         - What a subagent says about effects outside is its own report; verify what matters.\n\
         - Do not delegate a single tool call or mechanical work; do that yourself.",
        when(options.reach, options.completions),
        room(options),
        lasting(options.reach),
    )
}

fn room(options: &DelegateOptions) -> String {
    let max = options.concurrent_max;
    match (options.at_capacity, options.reach) {
        (AtCapacity::Queue, _) => format!("Up to {max} run at once; the others wait their turn."),
        (AtCapacity::Reject, _) => format!("Up to {max} run at once; a call that does not fit is refused."),
        (AtCapacity::Sync, Reach::Joined) => format!("A call takes up to {max} tasks."),
        (AtCapacity::Sync, Reach::Push | Reach::History) => format!(
            "A call takes up to {max} tasks, and up to {max} calls work in the background; one more comes back only when \
             it is done, with its results."
        ),
    }
}

fn when(reach: Reach, completions: Completions) -> String {
    let comes = match (reach, completions) {
        (Reach::Joined, _) => {
            return "The call comes back when all of them have ended, with one result a task in the order of the tasks."
                .to_owned();
        }
        (Reach::Push, Completions::Together) => {
            "The results of a call come together, as one message of its own, after you have ended your turn and all its \
             subagents have ended"
        }
        (Reach::Push, Completions::ByUnit) => {
            "The tasks of one `group` come back together, and a task without group by itself: each time as one message of \
             its own, after you have ended your turn and those subagents have ended, without waiting for the others"
        }
        (Reach::History, Completions::Together) => {
            "The results of a call come together, as one message of its own that you read in a later turn"
        }
        (Reach::History, Completions::ByUnit) => {
            "The tasks of one `group` come back together, and a task without group by itself: each time as one message of \
             its own that you read in a later turn"
        }
    };
    format!(
        "They work in the background: the call comes back at once with a handle and no result.\n\
         - {comes}. Until then nothing of them is known: do not state or guess results.\n\
         - Do not poll or wait. Finish what does not depend on the results, then end your turn with a one-line status."
    )
}

fn lasting(reach: Reach) -> &'static str {
    match reach {
        Reach::Joined => {
            "The work is durable: each result is stored as soon as it exists and outlives this process."
        }
        Reach::Push | Reach::History => {
            "The work is durable: it survives the end of this process, and each result is stored as soon as it exists and \
             comes to this conversation, also after a restart."
        }
    }
}

fn parameters(options: &DelegateOptions, named: &dyn NamedRoutes) -> Value {
    let tasks = match options.children_max {
        None => "One subagent each.".to_owned(),
        Some(max) => format!("One subagent each; at most {max} in this whole session."),
    };
    let mut parameters = json!({
        "type": "object",
        "properties": {
            "tasks": {
                "type": "array",
                "minItems": 1,
                "description": tasks,
                "items": {
                    "type": "object",
                    "properties": {
                        "goal": {
                            "type": "string",
                            "description": "What to do and what to give back, complete in itself."
                        },
                        "context": {
                            "type": "string",
                            "description": "Background that the subagent needs and cannot find by itself."
                        },
                        "output_schema": {
                            "type": "object",
                            "description": "JSON Schema that its answer must meet; one that does not is asked once for a \
                                 correction, and comes back with schema_valid: false if that fails."
                        },
                        "images": {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": "Pictures to show it, at most 8: paths, http(s) or data:image/ addresses."
                        }
                    },
                    "required": ["goal"]
                }
            }
        }
    });
    if options.completions == Completions::ByUnit {
        parameters["properties"]["tasks"]["items"]["properties"][GROUP] = json!({
            "type": "string",
            "description": "Tasks with the same group come back together."
        });
    }
    if let Some(route) = routes::schema(named) {
        parameters["properties"]["tasks"]["items"]["properties"]["route"] = route;
    }
    add_control(&mut parameters["properties"]);
    parameters
}

fn add_control(properties: &mut Value) {
    properties["action"] = json!({
        "type": "string",
        "enum": ["spawn", "list", "steer", "stop"],
        "description": "spawn, which is meant without it, starts the tasks. list shows your running subagents, steer says \
             `message` to one, stop ends one or a whole delegation."
    });
    properties["subagent_id"] = json!({
        "type": "string",
        "description": "For steer and stop: which subagent; for stop also a delegation_id."
    });
    properties["message"] = json!({
        "type": "string",
        "description": "For steer: what the subagent should know or do differently."
    });
}
