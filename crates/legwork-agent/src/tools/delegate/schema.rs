//! How `delegate_task` is described to a model. The text is made from the limits as they are (TOOL-6, TOOL-7).

use super::{DELEGATE_TASK, DelegateOptions};
use crate::models::ToolSpec;
use serde_json::{Value, json};

/// The tool's description and the schema of its arguments.
pub(super) fn spec(options: &DelegateOptions) -> ToolSpec {
    ToolSpec {
        name: DELEGATE_TASK.to_owned(),
        description: description(options),
        parameters: parameters(options),
    }
}

fn description(options: &DelegateOptions) -> String {
    let nesting = if options.depth_max > 1 {
        format!("It may delegate in turn, down to depth {}.", options.depth_max)
    } else {
        "It cannot delegate in turn.".to_owned()
    };
    format!(
        "Hand independent pieces of work to subagents that work side by side in the same folder. The call comes back when \
         all of them have ended, with one result a task in the order of the tasks.\n\
         - A subagent knows nothing of this conversation. Write everything it needs into goal and context: paths, facts, \
         limits, and what to give back.\n\
         - It cannot ask you or the user anything. {nesting}\n\
         - Up to {} run at once; the others wait their turn.\n\
         - The work is durable: each result is stored as soon as it exists and outlives this process.\n\
         - What a subagent says about effects outside is its own report; verify what matters.\n\
         - Do not delegate a single tool call or mechanical work; do that yourself.",
        options.concurrent_max,
    )
}

fn parameters(options: &DelegateOptions) -> Value {
    let tasks = match options.children_max {
        None => "One subagent each.".to_owned(),
        Some(max) => format!("One subagent each; at most {max} in this whole session."),
    };
    json!({
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
                        }
                    },
                    "required": ["goal"]
                }
            }
        }
    })
}
