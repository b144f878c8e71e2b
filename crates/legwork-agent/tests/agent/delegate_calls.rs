//! The arguments of `delegate_task`: what is accepted, what is refused and in which words, and that a refused call has no
//! effect.

use crate::fakes::{Bench, FakeDelegator, FakeModel, allowance, json_of, rights};
use legwork_agent::tools::{
    DelegateOptions, DelegateTool, Invocation, Site, TaskAuthor, TaskRules, Tool, ToolOutput, parse_tasks,
};
use legwork_core::batch::{AtCapacity, Completions, NewBatch, Reach, Setting, Task};
use legwork_core::ids::{CallKey, ChildId};
use legwork_core::ports::Refusal;
use serde_json::{Value, json};
use std::sync::Arc;

pub const OPTIONS: DelegateOptions = DelegateOptions {
    reach: Reach::Joined,
    concurrent_max: 10,
    at_capacity: AtCapacity::Queue,
    completions: Completions::Together,
    depth_max: 1,
    goal_bytes_max: 200,
    children_max: None,
    summary_bytes_max: 24_000,
    allowance: legwork_core::budget::Allowance { steps_max: 250 },
    on_crash: legwork_core::batch::OnCrash::Resume,
    ceiling: None,
    children_route: None,
};

const RULES: TaskRules = TaskRules {
    author: TaskAuthor::Model,
    goal_bytes_max: OPTIONS.goal_bytes_max,
    on_crash: OPTIONS.on_crash,
    tasks_max: None,
};

/// The tool, the engine behind it, and the agent that calls.
pub struct Door {
    pub delegator: Arc<FakeDelegator>,
    pub bench: Bench,
    tool: DelegateTool,
}

impl Door {
    pub async fn new(options: DelegateOptions) -> Self {
        Self::to(FakeDelegator::new().await, options)
    }

    pub fn to(delegator: FakeDelegator, options: DelegateOptions) -> Self {
        let delegator = Arc::new(delegator);
        let tool = DelegateTool::new(options);
        tool.connect(Arc::clone(&delegator) as Arc<_>);
        let mut bench = Bench::new(FakeModel::new([]), vec![]);
        bench.rights = rights(&["look", "delegate_task"]);
        Door { delegator, bench, tool }
    }

    pub async fn call(&self, arguments: Value) -> ToolOutput {
        self.call_from(self.bench.site(), arguments).await
    }

    pub async fn call_from(&self, site: Site, arguments: Value) -> ToolOutput {
        let call_id = format!("call_{}", self.delegator.batches().len());
        self.call_as(&call_id, site, arguments).await
    }

    pub async fn call_as(&self, call_id: &str, site: Site, arguments: Value) -> ToolOutput {
        self.tool.call(Invocation { call_id: call_id.to_owned(), arguments, site: Arc::new(site) }).await
    }

    pub fn batch(&self) -> NewBatch {
        self.delegator.batches().pop().expect("something was dispatched")
    }
}

fn task(goal: &str, context: Option<&str>) -> Task {
    Task { goal: goal.to_owned(), context: context.map(str::to_owned), ..Task::default() }
}

/// Proves TASK-10: the same goal may stand twice in one list.
#[tokio::test]
async fn k23_every_shape_that_means_something_is_understood() {
    let long = "read the first file";
    let cases = [
        (json!({"goal": "a"}), vec![task("a", None)]),
        (json!({"goal": "a", "context": "c"}), vec![task("a", Some("c"))]),
        (json!({"goal": "a", "tasks": []}), vec![task("a", None)]),
        (json!({"goal": "a", "tasks": null}), vec![task("a", None)]),
        (json!({"goal": "a", "background": "true"}), vec![task("a", None)]),
        (
            json!({"goal": "a", "action": " Spawn ", "subagent_id": "", "message": null}),
            vec![task("a", None)],
        ),
        (json!({"goal": "a", "output_schema": null, "images": [], "group": ""}), vec![task("a", None)]),
        (json!({"tasks": "[{\"goal\":\"a\"},{\"goal\":\"b\"}]"}), vec![task("a", None), task("b", None)]),
        (json!({"tasks": [{"goal": "a"}]}), vec![task("a", None)]),
        (
            json!({"tasks": [{"goal": long, "context": "c"}, {"goal": long, "context": ""}]}),
            vec![task(long, Some("c")), task(long, None)],
        ),
        (
            json!({"goal": "", "context": "top", "tasks": [{"goal": "a", "role": "leaf"}]}),
            vec![task("a", None)],
        ),
    ];
    for (arguments, tasks) in cases {
        let door = Door::new(OPTIONS).await;
        let output = door.call(arguments.clone()).await;
        assert!(!output.is_error, "{arguments} gave {}", output.content);
        assert_eq!(door.batch().tasks, tasks, "{arguments}");
    }
}

/// Proves TASK-1, TASK-2, TASK-4, TASK-5, TOOL-12.
#[tokio::test]
async fn k23_every_other_shape_is_refused_in_words_and_without_effect() {
    let deep = (0..64).fold(json!(1), |inner, _| json!([inner]));
    let cases = [
        (json!({}), "there is no task"),
        (json!([]), "must be an object"),
        (json!({"goal": ""}), "there is no task"),
        (json!({"goal": "  "}), "there is no task"),
        (json!({"goal": ["a"]}), "`goal` must be text, found a list"),
        (json!({"goal": 7}), "`goal` must be text, found a number"),
        (json!({"goal": "a", "context": {}}), "`context` must be text, found an object"),
        (json!({"tasks": []}), "there is no task"),
        (json!({"tasks": {}}), "`tasks` must be a list, found an object"),
        (json!({"tasks": 3}), "`tasks` must be a list, found a number"),
        (json!({"tasks": " "}), "`tasks` is blank text"),
        (
            json!({"tasks": "[{]"}),
            "`tasks` is text that is not valid JSON: key must be a string at line 1 column 3",
        ),
        (json!({"tasks": "{\"goal\":\"a\"}"}), "found text that holds an object"),
        (
            json!({"tasks": ["[{\"goal\":\"a\"}]"]}),
            "tasks[0]: a task must be an object with a `goal`, found text",
        ),
        (json!({"tasks": [{}]}), "tasks[0]: `goal` is missing or blank"),
        (
            json!({"tasks": [{"goal": "read the first file"}, "b", null]}),
            "tasks[1]: a task must be an object",
        ),
        (
            json!({"tasks": [{"goal": "read the first file"}, null]}),
            "tasks[1]: a task must be an object with a `goal`, found null",
        ),
        (
            json!({"tasks": [{"goal": "read the first file"}, {"goal": "\n"}]}),
            "tasks[1]: `goal` is missing or blank",
        ),
        (json!({"tasks": [{"goal": true}]}), "tasks[0]: `goal` must be text, found a truth value"),
        (json!({"tasks": deep.clone()}), "tasks[0]: a task must be an object"),
        (json!({"goal": "a", "tasks": [{"goal": "b"}]}), "either `goal` for one task or `tasks`"),
        (json!({"goal": "a", "toolsets": ["all"]}), "unknown key `toolsets`"),
        (json!({"goal": "a", "model": "x/y"}), "unknown key `model`"),
        (
            json!({"tasks": [{"goal": "a", "priority": 1}]}),
            "tasks[0]: unknown key `priority`; the keys here are `goal`, `context`",
        ),
        (
            json!({"tasks": [{"goal": "a", "group": "x".repeat(300)}]}),
            "`group` has 300 bytes and at most 256",
        ),
        (json!({"goal": "a", "route": "cheap"}), "there is no route \"cheap\"; no routes are configured"),
        (json!({"goal": "x".repeat(201)}), "`goal` has 201 bytes and delegation.goal_max_bytes is 200"),
        (json!({"goal": "a", "context": "é".repeat(101)}), "`context` has 202 bytes"),
    ];
    for (arguments, words) in cases {
        refused(&arguments, words).await;
    }
}

/// Proves TOOL-15, CTRL-3.
#[tokio::test]
async fn k23_every_action_that_is_no_whole_action_is_refused_in_words() {
    let cases = [
        (json!({"action": "STEER", "message": "x"}), "the action steer needs `subagent_id`"),
        (json!({"action": "steer", "subagent_id": "sa-0-1", "message": " "}), "the message is empty"),
        (
            json!({"action": "steer", "subagent_id": "sa-0-1", "message": ["x"]}),
            "`message` must be text, found a list",
        ),
        (json!({"action": "stop", "subagent_id": 7}), "`subagent_id` must be text, found a number"),
        (json!({"action": "stop"}), "the action stop needs `subagent_id`"),
        (json!({"action": "pause"}), "unknown action `pause`; the actions are spawn, list, steer and stop"),
        (json!({"action": 5, "goal": "a"}), "unknown action `5`"),
        (json!({"goal": "a", "message": "hurry"}), "`message` belongs to the actions steer and stop"),
    ];
    for (arguments, words) in cases {
        refused(&arguments, words).await;
    }
}

async fn refused(arguments: &Value, words: &str) {
    let door = Door::new(OPTIONS).await;
    let output = door.call(arguments.clone()).await;
    assert!(
        output.is_error && output.content.contains(&words.replace('"', "\\\"")),
        "{arguments}: {}",
        output.content
    );
    let keys: Vec<String> = json_of(&output).as_object().expect("an object").keys().cloned().collect();
    assert_eq!(keys, ["error"], "TOOL-12");
    assert_eq!(door.delegator.batches().len(), 0, "{arguments} had an effect");
}

/// Proves TASK-8, TASK-9.
#[tokio::test]
async fn task_07_to_09_the_gates_bind_lists_of_models_only() {
    let refused = [
        json!([{"goal": "todo"}]),
        json!([{"goal": "Task 2"}]),
        json!([{"goal": "read <file name> and sum it up"}]),
        json!([{"goal": "read the first file"}, {"goal": "short"}]),
    ];
    for tasks in refused {
        let door = Door::new(OPTIONS).await;
        let output = door.call(json!({"tasks": tasks.clone()})).await;
        assert!(output.is_error && output.content.contains("tasks["), "{tasks}: {}", output.content);
        assert_eq!(door.delegator.batches().len(), 0);
        let rules = TaskRules { author: TaskAuthor::Person, ..RULES };
        assert!(parse_tasks(&json!({"tasks": tasks.clone()}), &rules).is_ok(), "{tasks}");
    }
}

/// Proves TASK-9: characters are counted, not bytes.
#[tokio::test]
async fn task_09_a_goal_of_nine_characters_is_too_short_beside_another_and_one_of_ten_is_not() {
    for (goal, goes) in [("é".repeat(9), false), ("é".repeat(10), true), ("123456789".to_owned(), false)] {
        let door = Door::new(OPTIONS).await;
        let output = door.call(json!({"tasks": [{"goal": "read the first file"}, {"goal": goal}]})).await;
        assert_eq!(!output.is_error, goes, "{goal}: {}", output.content);
        assert!(goes || output.content.contains("tasks[1]"), "{}", output.content);
        let alone = door.call(json!({"tasks": [{"goal": goal}]})).await;
        assert!(!alone.is_error, "alone it is taken: {}", alone.content);
    }
}

#[test]
fn a_person_shares_one_context_among_the_tasks_that_have_none() {
    let rules = TaskRules { author: TaskAuthor::Person, ..RULES };
    let source = json!({"context": "all", "tasks": [{"goal": "a"}, {"goal": "b", "context": "own"}]});
    assert_eq!(parse_tasks(&source, &rules), Ok(vec![task("a", Some("all")), task("b", Some("own"))]));
    let error = parse_tasks(&json!({"goal": "a", "background": true}), &rules).expect_err("people are told");
    assert_eq!((error.index, error.to_string().contains("unknown key `background`")), (None, true));
    let error =
        parse_tasks(&json!({"tasks": [{"goal": "a"}, {"gaol": "b"}]}), &rules).expect_err("it is wrong");
    assert_eq!(error.index, Some(1));
}

#[tokio::test]
async fn task_14_the_one_shot_budget_is_reserved_per_call_and_given_back_when_refused() {
    let door = Door::new(DelegateOptions { children_max: Some(2), ..OPTIONS }).await;
    let one = json!({"goal": "a"});
    let three = json!({"tasks": "[{\"goal\":\"a\"},{\"goal\":\"b\"},{\"goal\":\"c\"}]"});
    let output = door.call(three).await;
    assert!(output.content.contains("may start 2 subagents in all (delegation.oneshot_max_children); 0 were started and this call asks for 3"), "{}", output.content);
    door.delegator.refuse_next(Refusal::Paused);
    assert!(door.call(one.clone()).await.content.contains("delegation is paused"));
    assert!(!door.call(one.clone()).await.is_error);
    assert!(!door.call(one.clone()).await.is_error);
    assert!(door.call(one).await.content.contains("2 were started and this call asks for 1 more"));
}

/// Proves DISP-1, DISP-3, DISP-4.
#[tokio::test]
async fn a_call_becomes_a_batch_that_is_keyed_by_its_caller_and_id() {
    let door = Door::new(OPTIONS).await;
    door.call(json!({"goal": "a"})).await;
    let batch = door.batch();
    let key = CallKey { caller: Bench::actor().as_str().to_owned(), call: "call_0".to_owned() };
    assert_eq!((batch.call_key, batch.reach), (Some(key), Reach::Joined));
    assert_eq!(batch.lineage, door.bench.site().lineage);
    assert_eq!(batch.setting.folder, "/");
    assert_eq!(batch.setting.allowance, allowance(250));
}

#[tokio::test]
async fn inv_18_children_get_no_more_than_the_caller_has_and_delegate_only_above_the_depth_limit() {
    for (depth, depth_max, may_delegate) in
        [(0, 1, false), (0, 2, true), (1, 2, false), (1, 3, true), (0, 0, false)]
    {
        let door = Door::new(DelegateOptions { depth_max, ..OPTIONS }).await;
        let mut site = door.bench.site();
        site.lineage.depth = depth;
        site.lineage.parent = (depth > 0).then(|| ChildId::from_bits(0, 7));
        door.call_from(site, json!({"goal": "a"})).await;
        let given = door.batch().setting.rights;
        let expected: &[&str] = if may_delegate { &["look", "delegate_task"] } else { &["look"] };
        assert_eq!(given, rights(expected), "depth {depth} of {depth_max}");
    }
}

/// Proves BUILD-9, BUILD-29.
#[tokio::test]
async fn build_05_a_child_has_the_callers_folder_route_and_tools() {
    let door = Door::new(DelegateOptions { depth_max: 3, ..OPTIONS }).await;
    let mut site = door.bench.site();
    site.setting.folder = "/where/the/caller/is".to_owned();
    site.setting.route.model = "callers/model".to_owned();
    let callers = site.setting.clone();
    door.call_from(site, json!({"goal": "a", "toolsets": null})).await;
    assert!(door.delegator.batches().is_empty(), "a model cannot choose tools");
    let mut site = door.bench.site();
    site.setting = callers.clone();
    door.call_from(site, json!({"goal": "a"})).await;
    assert_eq!(door.batch().setting, Setting { allowance: OPTIONS.allowance, ..callers });
}

#[tokio::test]
async fn sec_04_transport_and_keys_from_a_model_have_no_effect() {
    let door = Door::new(OPTIONS).await;
    for key in
        ["api_key", "base_url", "provider", "model", "api_mode", "command", "args", "request_overrides"]
    {
        let output = door.call(json!({"tasks": [{"goal": "read the first file", key: "x"}]})).await;
        assert!(
            output.is_error && output.content.contains(&format!("unknown key `{key}`")),
            "{}",
            output.content
        );
    }
    assert!(door.delegator.batches().is_empty());
    door.call(json!({"goal": "a", "acp_command": "claude", "acp_args": ["-p"]})).await;
    assert_eq!(door.batch().setting.route, door.bench.site().setting.route);
}

/// Proves TOOL-14.
#[tokio::test]
async fn an_agent_without_an_engine_is_told_so() {
    let tool = DelegateTool::new(OPTIONS);
    let site = Arc::new(Bench::new(FakeModel::new([]), vec![]).site());
    let output =
        tool.call(Invocation { call_id: "a".to_owned(), arguments: json!({"goal": "a"}), site }).await;
    assert!(output.is_error && output.content.contains("do the work yourself"));
}

#[test]
fn tool_06_the_description_states_the_limits_as_they_are() {
    let described = |options| {
        let spec = DelegateTool::new(options).spec();
        (spec.description, spec.parameters.to_string())
    };
    let (text, schema) = described(OPTIONS);
    assert!(text.contains("Up to 10 run at once") && text.contains("It cannot delegate in turn"), "{text}");
    assert!(text.contains("durable") && !schema.contains("required\":[\"tasks"), "{schema}");
    let (text, schema) =
        described(DelegateOptions { concurrent_max: 3, depth_max: 2, children_max: Some(4), ..OPTIONS });
    assert!(text.contains("Up to 3 run at once") && text.contains("down to depth 2"), "{text}");
    assert!(schema.contains("at most 4 in this whole session"), "{schema}");
}

/// Proves TASK-12: each way in which a schema can be wrong is refused with its task, before anything exists.
#[tokio::test]
async fn task_12_a_schema_is_an_object_or_text_that_holds_one_and_must_be_one() {
    let long = "read the first file";
    let cases = [
        (json!({"goal": "a", "output_schema": 3}), "tasks[0]: `output_schema` must be a JSON Schema"),
        (json!({"goal": "a", "output_schema": "[1]"}), "`output_schema` must be a JSON Schema"),
        (json!({"goal": "a", "output_schema": "{"}), "`output_schema` is text that is not valid JSON"),
        (
            json!({"tasks": [{"goal": long}, {"goal": long, "output_schema": {"type": "objekt"}}]}),
            "tasks[1]: `output_schema` is not a valid JSON Schema",
        ),
        (
            json!({"goal": "a", "output_schema": {"description": "x".repeat(200)}}),
            "delegation.goal_max_bytes is 200",
        ),
        (
            json!({"tasks": [{"goal": long}, {"goal": long}], "output_schema": {"type": "object"}}),
            "`output_schema` stands beside 2 tasks",
        ),
    ];
    for (arguments, words) in cases {
        refused(&arguments, words).await;
    }
    let schema = json!({"type": "object"});
    let taken = [
        json!({"goal": "a", "output_schema": schema}),
        json!({"goal": "a", "output_schema": schema.to_string()}),
        json!({"tasks": [{"goal": "a", "output_schema": schema}]}),
        json!({"tasks": [{"goal": "a"}], "output_schema": schema}),
        json!({"tasks": [{"goal": "a", "output_schema": schema}], "output_schema": {"type": "array"}}),
    ];
    for arguments in taken {
        let door = Door::new(OPTIONS).await;
        assert!(!door.call(arguments.clone()).await.is_error, "{arguments}");
        assert_eq!(door.batch().tasks[0].output_schema.as_ref(), Some(&schema), "{arguments}");
    }
}

#[tokio::test]
async fn task_13_pictures_are_at_most_eight_texts_of_three_kinds() {
    let long = "look at the pictures";
    let cases = [
        (json!({"goal": "a", "images": 3}), "tasks[0]: `images` must be a list of texts, found a number"),
        (json!({"goal": "a", "images": ["a.png", " "]}), "`images` entry 1 is blank"),
        (json!({"goal": "a", "images": ["a.png", 7]}), "`images` entry 1 must be text, found a number"),
        (json!({"goal": "a", "images": ["ftp://x/a.png"]}), "`images` entry 0 has the unknown scheme ftp"),
        (json!({"goal": "a", "images": ["data:text/plain,x"]}), "`images` entry 0 is data, but no picture"),
        (
            json!({"tasks": [{"goal": long}, {"goal": long, "images": vec!["a.png"; 9]}]}),
            "tasks[1]: `images` has 9 entries and a task takes at most 8",
        ),
        (
            json!({"tasks": [{"goal": long}, {"goal": long}], "images": "a.png"}),
            "`images` stands beside 2 tasks",
        ),
    ];
    for (arguments, words) in cases {
        refused(&arguments, words).await;
    }
    let door = Door::new(OPTIONS).await;
    let kinds =
        ["a.png", "/b c.jpg", "https://x/y", "HTTP://x/y", "data:image/png;base64,AA==", "C:odd", "d", "e"];
    assert!(!door.call(json!({"goal": "a", "images": kinds})).await.is_error);
    assert_eq!(door.batch().tasks[0].images, kinds);
    assert!(!door.call(json!({"tasks": [{"goal": "a"}], "images": "one.png"})).await.is_error);
    assert_eq!(door.batch().tasks[0].images, ["one.png"], "a bare text counts as a list of one");
}

/// A value whose shape the numbers decide: the keys and the texts are those that mean something somewhere.
fn value(numbers: &mut impl FnMut(usize) -> usize, depth: usize) -> Value {
    const KEYS: [&str; 9] =
        ["tasks", "goal", "context", "action", "message", "images", "background", "group", "x"];
    const TEXTS: [&str; 6] =
        ["", "spawn", "[{\"goal\":\"a\"}]", "read the first file", "{a b}", "\u{0}é\u{202e}"];
    match numbers(if depth == 0 { 5 } else { 8 }) {
        0 => Value::Null,
        1 => json!(numbers(2) == 0),
        2 => json!(numbers(100)),
        3 | 4 => json!(TEXTS[numbers(TEXTS.len())]),
        5 => (0..numbers(4)).map(|_| value(numbers, depth - 1)).collect(),
        _ => {
            let fields =
                (0..numbers(5)).map(|_| (KEYS[numbers(KEYS.len())].to_owned(), value(numbers, depth - 1)));
            Value::Object(fields.collect())
        }
    }
}

#[test]
fn k23_a_hundred_thousand_shapes_are_each_understood_or_refused_in_words() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut numbers = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits fit") % below
    };
    let mut understood = 0;
    for _ in 0..100_000 {
        let source = value(&mut numbers, 4);
        let author = [TaskAuthor::Model, TaskAuthor::Person][numbers(2)];
        match parse_tasks(&source, &TaskRules { author, goal_bytes_max: 10, ..RULES }) {
            Ok(tasks) => {
                understood += 1;
                assert!(
                    tasks.iter().all(|task| !task.goal.trim().is_empty()) && !tasks.is_empty(),
                    "{source}"
                );
            }
            Err(error) => assert!(error.message.len() > 10, "{source}: {error}"),
        }
    }
    assert!(understood > 100, "{understood} shapes were understood");
}

/// A call that is asked again rejoins what it began, whatever of it today's limits would refuse; one that only has its
/// id is told both.
#[tokio::test]
async fn k06_inv_06_a_call_with_the_id_of_another_one_is_told_what_both_ask_for() {
    let door = Door::new(DelegateOptions { reach: Reach::Push, ..OPTIONS }).await;
    let site = || Site { reach: Reach::Push, ..door.bench.site() };
    let call = |arguments: Value| door.call_as("call_1", site(), arguments);
    let first = call(json!({"goal": "look at the red folder"})).await;
    assert!(!first.is_error, "{first:?}");
    let again = call(json!({"tasks": [{"goal": "look at the red folder"}]})).await;
    assert_eq!((again.is_error, door.delegator.batches().len()), (false, 1), "{again:?}");
    for other in [
        json!({"goal": "look at the blue folder"}),
        json!({"tasks": [{"goal": "look at the red folder"}, {"goal": "look at the blue folder"}]}),
    ] {
        let refused = call(other).await;
        let text = refused.content.as_str();
        for word in ["call_1", "deleg_00000001", "red folder", "Nothing was started"] {
            assert!(refused.is_error && text.contains(word), "{word:?} is missing: {text}");
        }
    }
    assert_eq!(door.delegator.batches().len(), 1);
}
