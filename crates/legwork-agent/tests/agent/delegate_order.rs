//! What `delegate_task` advertises, what it takes besides, and in which order it looks at a call: who is told of two things
//! that are wrong is told of the earlier one (TOOL-13).

use crate::delegate_calls::{Door, OPTIONS};
use crate::fakes::{FakeDelegator, allowance, json_of};
use legwork_agent::tools::{DelegateOptions, DelegateTool, Site, Tool};
use legwork_core::batch::{AtCapacity, Reach};
use legwork_core::ports::Refusal;
use serde_json::{Value, json};

const LONG: &str = "read the first file";

/// Proves TOOL-1, TOOL-2: whatever the reach, the same four optional arguments.
#[test]
fn tool_02_the_schema_has_four_optional_properties_in_every_session() {
    for reach in [Reach::Joined, Reach::Push, Reach::History] {
        let spec = DelegateTool::new(DelegateOptions { reach, ..OPTIONS }).spec();
        assert_eq!(spec.name, "delegate_task");
        let properties = spec.parameters["properties"].as_object().expect("an object");
        let mut names: Vec<&str> = properties.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["action", "message", "subagent_id", "tasks"], "{reach:?}");
        assert_eq!(properties["action"]["enum"], json!(["spawn", "list", "steer", "stop"]));
        assert_eq!(
            (&properties["tasks"]["minItems"], properties["tasks"].get("maxItems")),
            (&json!(1), None)
        );
        for (name, kind) in
            [("tasks", "array"), ("action", "string"), ("subagent_id", "string"), ("message", "string")]
        {
            assert_eq!(properties[name]["type"], json!(kind), "{name}");
        }
        assert_eq!(spec.parameters.get("required"), None);
    }
}

/// Proves TOOL-4, TOOL-8, TOOL-18: what is taken without being advertised, and what of it decides something.
#[tokio::test]
async fn tool_04_what_is_not_advertised_is_taken_and_max_iterations_and_role_decide_nothing() {
    let door = Door::new(DelegateOptions { depth_max: 2, ..OPTIONS }).await;
    let schema = json!({"type": "object"});
    let beside = json!({
        "goal": "a", "context": "c", "output_schema": schema, "images": ["a.png"], "background": true,
        "max_iterations": 3, "role": "no such role",
    });
    let output = door.call(beside).await;
    assert!(!output.is_error, "{}", output.content);
    let note = json_of(&output)["note"].as_str().expect("it says what had no effect").to_owned();
    assert!(note.contains("`max_iterations`") && note.contains("`role`"), "{note}");
    let batch = door.batch();
    let task = &batch.tasks[0];
    assert_eq!((task.goal.as_str(), task.context.as_deref()), ("a", Some("c")));
    assert_eq!((task.output_schema.as_ref(), task.images.len()), (Some(&schema), 1));
    assert_eq!(batch.setting.allowance, allowance(250), "the configured number of steps rules");
    let rights = batch.setting.rights;
    for role in ["leaf", "ORCHESTRATOR", "", "anything"] {
        let output = door.call(json!({"tasks": [{"goal": LONG, "role": role}]})).await;
        assert!(!output.is_error, "{role}: {}", output.content);
        assert_eq!(door.batch().setting.rights, rights, "{role}");
    }
}

/// A call, and words of its refusal. Where the caller may not delegate at all, it hears that.
fn wrong() -> [(Value, &'static str); 7] {
    [
        (json!({"action": "fly"}), "unknown action"),
        (json!({"tasks": [{"goal": LONG, "route": "fast"}, {}]}), "there is no route"),
        (json!({"tasks": [{"goal": LONG}, {"output_schema": 3}]}), "tasks[1]: `goal` is missing"),
        (
            json!({"tasks": [{"goal": "todo"}, {"goal": LONG, "output_schema": 3}]}),
            r#"tasks[0]: the goal \"todo\""#,
        ),
        (
            json!({"tasks": [{"goal": LONG, "images": [7]}, {"goal": LONG, "output_schema": 3}]}),
            "tasks[1]: `output_schema`",
        ),
        (
            json!({"tasks": [{"goal": LONG}, {"goal": LONG}, {"goal": LONG, "images": [7]}]}),
            "tasks[2]: `images`",
        ),
        (
            json!({"tasks": [{"goal": LONG}, {"goal": LONG}, {"goal": LONG}]}),
            "delegation.oneshot_max_children",
        ),
    ]
}

/// Each call is wrong in two ways that stand next to each other in the order, or in one and the last.
#[tokio::test]
async fn tool_13_of_two_things_that_are_wrong_the_earlier_one_is_said() {
    let options = DelegateOptions { children_max: Some(2), ..OPTIONS };
    let too_deep = Refusal::TooDeep { depth: 1, depth_max: 1 };
    let objections = [
        (None, ""),
        (Some(Refusal::Paused), "delegation is paused"),
        (Some(too_deep), "depth limit reached: this agent is at depth 1"),
    ];
    for (objection, first) in objections {
        for (arguments, words) in wrong() {
            let mut delegator = FakeDelegator::new().await;
            delegator.objection = objection.clone();
            let door = Door::to(delegator, options.clone());
            let output = door.call(arguments.clone()).await;
            let expected = if first.is_empty() || words == "unknown action" { words } else { first };
            assert!(output.is_error && output.content.contains(expected), "{arguments}: {}", output.content);
            assert!(door.delegator.batches().is_empty(), "{arguments}");
        }
    }
    let door = Door::new(options.clone()).await;
    let two = json!({"tasks": [{"goal": LONG}, {"goal": LONG}]});
    assert!(!door.call(two.clone()).await.is_error, "what was refused took no room");
    // Under `sync` a call has as many tasks as there are slots, which is said before anything of them but their goals.
    let options = DelegateOptions { at_capacity: AtCapacity::Sync, concurrent_max: 1, ..options };
    for (arguments, words) in [
        (two, "delegation.max_concurrent_children is 1"),
        (json!({"tasks": [{"goal": LONG}, {}]}), "tasks[1]: `goal` is missing"),
        (
            json!({"tasks": [{"goal": LONG}, {"goal": LONG, "output_schema": 3}]}),
            "the call has 2 tasks and delegation.max_concurrent_children is 1",
        ),
        (json!({"tasks": [{"goal": LONG}, {"goal": LONG, "images": [7]}]}), "max_concurrent_children is 1"),
        (json!({"tasks": [{"goal": LONG}, {"goal": LONG}, {"goal": LONG}]}), "max_concurrent_children is 1"),
    ] {
        let door = Door::new(options.clone()).await;
        let output = door.call(arguments.clone()).await;
        assert!(output.is_error && output.content.contains(words), "{arguments}: {}", output.content);
    }
}

/// Proves CTRL-2.
#[tokio::test]
async fn tool_16_control_actions_work_during_a_pause_at_any_depth_and_in_any_session() {
    let refusals = [None, Some(Refusal::Paused), Some(Refusal::TooDeep { depth: 0, depth_max: 0 })];
    for (objection, reach) in refusals.into_iter().zip([Reach::History, Reach::Push, Reach::Joined]) {
        let mut delegator = FakeDelegator::new().await;
        delegator.objection = objection;
        let door = Door::to(delegator, DelegateOptions { reach, depth_max: 0, ..OPTIONS });
        door.delegator.show(crate::delegate_background::own_and_foreign());
        let site = Site { reach, ..crate::delegate_background::site(&door) };
        let list = json_of(&door.call_from(site.clone(), json!({"action": "list"})).await);
        let shown: Vec<&str> = list["subagents"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|item| item["subagent_id"].as_str())
            .collect();
        assert_eq!(shown, ["sa-0-00000001", "sa-0-00000002"], "{reach:?}");
        for action in ["steer", "stop"] {
            let arguments = json!({"action": action, "subagent_id": "sa-0-00000002", "message": "hurry"});
            let output = door.call_from(site.clone(), arguments).await;
            assert!(!output.is_error, "{reach:?}: {}", output.content);
        }
    }
}

/// Proves TOOL-20: one route that cannot be used, and nothing of the call exists.
#[tokio::test]
async fn tool_20_a_task_without_its_route_refuses_the_whole_call() {
    let door = Door::new(OPTIONS).await;
    let output = door.call(json!({"tasks": [{"goal": LONG}, {"goal": LONG, "route": "fast"}]})).await;
    assert!(output.is_error && output.content.contains("tasks[1]"), "{}", output.content);
    assert!(door.delegator.batches().is_empty());
}
