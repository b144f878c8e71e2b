//! `delegate_task` of an agent that can be woken: the handle, and looking, steering and stopping.

use crate::delegate_calls::{Door, OPTIONS};
use crate::fakes::{Bench, FakeDelegator, FakeModel, Say, call, json_of};
use legwork_agent::tools::{DelegateOptions, DelegateTool, Effect, Site, Tool};
use legwork_core::batch::{AtCapacity, Completions, Fallback, Reach};
use legwork_core::child::{ChildState, Slot};
use legwork_core::ids::{ChildId, DelegationId, SessionId};
use legwork_core::outcome::{Ending, FailureKind, Force, Outcome, StopReason};
use legwork_core::ports::{ChildView, Runner};
use legwork_core::pulse::Pulse;
use legwork_core::steering::Scope;
use legwork_core::step::Actor;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const PUSH: DelegateOptions = DelegateOptions { reach: Reach::Push, ..OPTIONS };

fn session() -> SessionId {
    SessionId::from_bits(1)
}

/// The agent of a session that can be woken.
pub fn site(door: &Door) -> Site {
    Site { actor: Actor::Session(session()), reach: Reach::Push, ..door.bench.site() }
}

async fn ask(door: &Door, arguments: Value) -> Value {
    json_of(&door.call_from(site(door), arguments).await)
}

/// The child with this number, below another one if there is one.
fn view(number: u32, parent: Option<u32>) -> ChildView {
    ChildView {
        delegation: DelegationId::from_bits(number),
        session: session(),
        parent: parent.map(|parent| ChildId::from_bits(0, parent)),
        child: ChildId::from_bits(0, number),
        task_index: 0,
        task_count: 1,
        goal: format!("goal {number}"),
        model: "fake/model".to_owned(),
        transcript: Some(format!("/live/{number}.log")),
        state: ChildState::Running { attempt: 1 },
        runner: Runner::Here,
        pulse: Pulse::default(),
        elapsed: Duration::from_millis(1260),
        quiet: Duration::from_millis(310),
    }
}

/// Two children of the session, one below the other, one that has ended, and one of another session.
pub fn own_and_foreign() -> Vec<ChildView> {
    let ended = ChildView { state: ChildState::Settled(Outcome::Succeeded), ..view(9, None) };
    let foreign = ChildView { session: SessionId::from_bits(2), ..view(3, None) };
    vec![view(1, None), foreign, view(2, Some(1)), ended]
}

fn ids(answer: &Value) -> Vec<&str> {
    let items = answer["subagents"].as_array().expect("a list");
    items.iter().map(|item| item["subagent_id"].as_str().expect("an id")).collect()
}

/// Proves OUT-5, OUT-8.
#[tokio::test]
async fn out_03_to_08_a_call_of_a_session_that_can_be_woken_comes_back_at_once_with_a_handle() {
    let door = Door::new(PUSH).await;
    let output = door.call_from(site(&door), json!({"tasks": "[{\"goal\":\"a\"},{\"goal\":\"b\"}]"})).await;
    assert_eq!((output.acknowledge.len(), door.batch().reach), (0, Reach::Push));
    assert_eq!(door.bench.line.words(), Vec::<String>::new(), "it does not wait");
    let handle = json_of(&output);
    assert_eq!(
        (&handle["status"], &handle["mode"], &handle["count"], &handle["delegation_id"], &handle["goals"]),
        (&json!("dispatched"), &json!("background"), &json!(2), &json!("deleg_00000001"), &json!(["a", "b"]))
    );
    assert_eq!(handle["subagent_ids"], json!(["sa-0-00000001", "sa-1-00000001"]));
    assert_eq!(
        (handle.get("units"), handle.get("results"), handle.get("live_transcripts")),
        (None, None, None)
    );
    let note = handle["note"].as_str().expect("a note");
    for words in ["no result yet", "do not state or guess", "do not wait or poll", "one-line status"] {
        assert!(note.contains(words), "{words} is missing in {note}");
    }
    assert!(
        handle["control_hint"].as_str().is_some_and(|hint| hint.contains("steer") && hint.contains("stop"))
    );
}

/// Proves OUT-6, OUT-8.
#[tokio::test]
async fn out_06_the_handle_of_one_task_names_its_transcript_and_says_how_to_read_it() {
    let mut delegator = FakeDelegator::new().await;
    delegator.transcripts = vec!["/live/task-0.log".to_owned()];
    let door = Door::to(delegator, PUSH);
    let handle = ask(&door, json!({"goal": "a"})).await;
    assert_eq!(handle["live_transcripts"], json!(["/live/task-0.log"]));
    for (key, words) in [
        ("live_transcripts_hint", &["One file a task", "they only grow", "read at any time"][..]),
        ("control_hint", &["action list", "action steer", "action stop", "still comes back"]),
        (
            "note",
            &[
                "The subagent works in the background",
                "as a message of its own after you have ended your turn",
                "do not wait or poll",
                "Finish what does not depend on it, then end your turn with a one-line status",
            ],
        ),
    ] {
        let text = handle[key].as_str().unwrap_or_else(|| panic!("{key} is missing in {handle}"));
        assert!(words.iter().all(|part| text.contains(part)), "{key}: {text}");
    }
}

/// A door where calls come back by their groups.
async fn independent(options: DelegateOptions) -> Door {
    let mut delegator = FakeDelegator::new().await;
    delegator.completions = Completions::ByUnit;
    Door::to(delegator, DelegateOptions { completions: Completions::ByUnit, ..options })
}

/// Two tasks of one group and one without.
fn grouped() -> Value {
    json!({"tasks": [
        {"goal": "look at the first half", "group": 7},
        {"goal": "look at the whole thing", "group": ""},
        {"goal": "look at the second half", "group": "7"},
    ]})
}

/// Proves TASK-11, OUT-4, OUT-8, DISP-19.
#[tokio::test]
async fn out_04_a_call_in_several_units_lists_them_in_the_order_of_their_ids() {
    let door = independent(PUSH).await;
    let handle = ask(&door, grouped()).await;
    assert_eq!(
        handle["units"],
        json!([
            {"delegation_id": "deleg_00000001-1", "group": "7", "task_indexes": [0, 2]},
            {"delegation_id": "deleg_00000001-2", "group": null, "task_indexes": [1]},
        ])
    );
    assert_eq!((handle["goals"].as_array().map(Vec::len), &handle["count"]), (Some(3), &json!(3)));
    let note = handle["note"].as_str().expect("a note");
    assert!(
        note.contains("3 subagents") && note.contains("in 2 units") && note.contains("Each unit reports")
    );
}

#[tokio::test]
async fn task_11_a_group_has_no_effect_where_calls_come_back_whole_and_that_is_said() {
    let door = Door::new(PUSH).await;
    let handle = ask(&door, grouped()).await;
    assert_eq!(handle.get("units"), None);
    assert!(handle["note"].as_str().is_some_and(|note| note.contains("`group`")), "{handle}");
}

#[tokio::test]
async fn out_02_a_joined_call_in_several_units_brings_all_of_them_and_their_claims() {
    let door = independent(OPTIONS).await;
    let output = door.call(grouped()).await;
    let answer = json_of(&output);
    assert_eq!(answer["results"].as_array().map(Vec::len), Some(3), "{answer}");
    assert_eq!(answer["units"].as_array().map(Vec::len), Some(2), "{answer}");
    assert_eq!(answer["units"][0]["task_indexes"], json!([0, 2]));
    assert_eq!(output.acknowledge.len(), 2);
}

/// Proves CAP-6, OUT-9.
#[tokio::test]
async fn cap_06_a_call_without_a_slot_is_waited_for_and_says_so_every_time() {
    let mut delegator = FakeDelegator::new().await;
    delegator.fallback = Some(Fallback::AtCapacity);
    let door = Door::to(delegator, PUSH);
    for _ in 0..2 {
        let output = door.call_from(site(&door), json!({"goal": "a", "background": true})).await;
        let answer = json_of(&output);
        assert_eq!((answer["results"][0]["summary"].as_str(), output.acknowledge.len()), (Some("did: a"), 1));
        let note = answer["note"].as_str().expect("a note");
        for words in ["at_capacity", "delegation.max_concurrent_children", "inline", "holds the outcome"] {
            assert!(note.contains(words), "{words} is missing in {note}");
        }
        assert!(!note.contains("no_async") && answer.get("status").is_none(), "{answer}");
    }
}

/// Proves CAP-9, OUT-7.
#[tokio::test]
async fn cap_09_units_without_room_come_back_in_the_handle_and_the_others_later() {
    let mut delegator = FakeDelegator::new().await;
    (delegator.completions, delegator.later_inline) = (Completions::ByUnit, true);
    let door = Door::to(delegator, DelegateOptions { completions: Completions::ByUnit, ..PUSH });
    let output = door.call_from(site(&door), grouped()).await;
    let handle = json_of(&output);
    assert_eq!(
        (&handle["status"], handle["units"].as_array().map(Vec::len)),
        (&json!("dispatched"), Some(2))
    );
    let inline = handle["inline_results"].as_array().expect("results");
    assert_eq!((inline.len(), &inline[0]["task_index"]), (1, &json!(1)), "{handle}");
    assert_eq!(inline[0]["summary"], json!("did: look at the whole thing"));
    assert!(handle["note"].as_str().is_some_and(|note| note.contains("at_capacity")), "{handle}");
    assert_eq!(output.acknowledge.len(), 1, "the others are not delivered by this");
}

/// Proves CAP-9: each of its tasks has an entry, beside those of the units that could be read.
#[tokio::test]
async fn cap_09_a_unit_whose_results_cannot_be_had_says_so_in_an_entry_of_each_task() {
    let mut delegator = FakeDelegator::new().await;
    (delegator.completions, delegator.later_inline) = (Completions::ByUnit, true);
    delegator.unread_unit = Some(1);
    let door = Door::to(delegator, DelegateOptions { completions: Completions::ByUnit, ..PUSH });
    let task = |group: &str| json!({"goal": "look at one of the parts", "group": group});
    let tasks: Vec<Value> = ["a", "b", "c", "b"].map(task).into();
    let output = door.call_from(site(&door), json!({ "tasks": tasks })).await;
    let handle = json_of(&output);
    let inline = handle["inline_results"].as_array().expect("results");
    let shown: Vec<(&Value, &Value)> =
        inline.iter().map(|entry| (&entry["task_index"], &entry["status"])).collect();
    let (unknown, completed) = (json!("unknown"), json!("completed"));
    assert_eq!(shown, [(&json!(1), &unknown), (&json!(3), &unknown), (&json!(2), &completed)], "{handle}");
    for entry in &inline[..2] {
        assert_eq!((&entry["summary"], &entry["api_calls"]), (&Value::Null, &json!(0)));
        assert!(entry["error"].as_str().is_some_and(|error| error.contains("no room")), "{entry}");
    }
    assert_eq!(output.acknowledge.len(), 1);
}

#[test]
fn tool_03_groups_are_offered_only_where_calls_come_back_by_them() {
    let described = |options| {
        let spec = DelegateTool::new(options).spec();
        let offered = spec.parameters["properties"]["tasks"]["items"]["properties"].get("group").is_some();
        (offered, spec.description)
    };
    let (offered, text) = described(PUSH);
    assert!(!offered && text.contains("results of a call come together"), "{text}");
    let (offered, text) = described(DelegateOptions { completions: Completions::ByUnit, ..PUSH });
    assert!(offered && text.contains("tasks of one `group` come back together"), "{text}");
    assert!(!text.contains("results of a call come together"), "{text}");
}

/// Proves TOOL-6, CAP-1.
#[test]
fn tool_06_what_is_said_of_slots_is_what_the_policy_does() {
    for (at_capacity, words) in [
        (AtCapacity::Queue, "Up to 10 run at once; the others wait their turn"),
        (AtCapacity::Reject, "a call that does not fit is refused"),
        (AtCapacity::Sync, "A call takes up to 10 tasks, and up to 10 calls work in the background"),
    ] {
        let text = DelegateTool::new(DelegateOptions { at_capacity, ..PUSH }).spec().description;
        assert!(text.contains(words), "{words} is missing in {text}");
    }
}

/// Proves MODE-2, MODE-3, MODE-5: what a front door declares counts, and the least of it.
#[tokio::test]
async fn mode_03_a_call_comes_back_later_only_where_its_front_door_says_so() {
    for (promised, declared, expected) in [
        (Reach::Push, Reach::History, Reach::History),
        (Reach::History, Reach::History, Reach::History),
        (Reach::Push, Reach::Joined, Reach::Joined),
        (Reach::History, Reach::Joined, Reach::Joined),
        (Reach::Joined, Reach::History, Reach::Joined),
    ] {
        let door = Door::new(DelegateOptions { reach: promised, ..PUSH }).await;
        let site = Site { reach: declared, ..site(&door) };
        let answer = json_of(&door.call_from(site, json!({"goal": "a"})).await);
        assert_eq!(door.batch().reach, expected, "promised {promised:?}, declared {declared:?}");
        assert_eq!(answer.get("results").is_some(), expected == Reach::Joined, "{answer}");
        let note = answer["note"].as_str().expect("a note");
        assert_eq!(note.starts_with("no_async: "), expected == Reach::Joined, "{note}");
    }
}

/// Proves TOOL-9.
#[tokio::test]
async fn mode_01_only_the_session_itself_is_answered_at_once() {
    for (depth, reach, expected) in
        [(0, Reach::Push, Reach::Push), (0, Reach::Joined, Reach::Joined), (1, Reach::Push, Reach::Joined)]
    {
        for said in [Value::Null, json!(false), json!(true), json!("true")] {
            let door = Door::new(DelegateOptions { depth_max: 3, ..PUSH }).await;
            let mut site = Site { reach, ..site(&door) };
            site.lineage.depth = depth;
            door.call_from(site, json!({"goal": "a", "background": said.clone()})).await;
            assert_eq!(door.batch().reach, expected, "depth {depth}, {reach:?}, {said}");
        }
    }
    let door = Door::new(OPTIONS).await;
    door.call_from(site(&door), json!({"goal": "a", "background": true})).await;
    assert_eq!(door.batch().reach, Reach::Joined, "what was not promised does not happen");
}

#[test]
fn tool_07_what_is_promised_is_what_happens() {
    let spec = |options| DelegateTool::new(options).spec();
    let push = spec(PUSH);
    for words in [
        "comes back at once with a handle",
        "after you have ended your turn",
        "Do not poll",
        "survives the end of this process",
        "knows nothing of this conversation",
        "cannot ask you or the user",
        "is its own report; verify",
        "Do not delegate a single tool call or mechanical work",
        "It cannot delegate in turn",
    ] {
        assert!(push.description.contains(words), "{words} is missing in {}", push.description);
    }
    assert_eq!(push.parameters["properties"]["action"]["enum"], json!(["spawn", "list", "steer", "stop"]));
    assert_eq!(push.parameters.get("required"), None);
    let joined = spec(OPTIONS);
    assert!(joined.description.contains("comes back when all of them have ended"));
    assert!(!joined.description.contains("handle"), "{}", joined.description);
}

/// A call that is waited for may take a day: no deadline of tools in general cuts it off.
#[tokio::test(start_paused = true)]
async fn tool_11_a_nested_call_that_takes_a_day_still_brings_its_results() {
    let mut delegator = FakeDelegator::new().await;
    delegator.takes = Some(Duration::from_secs(24 * 3600));
    let tool = DelegateTool::new(DelegateOptions { depth_max: 2, ..OPTIONS });
    tool.connect(Arc::new(delegator));
    let nested = call("c1", "delegate_task", json!({"goal": "a"}));
    let model = FakeModel::new([Say::Calls("", vec![nested]), Say::Text("done")]);
    let mut bench = Bench::new(Arc::clone(&model), vec![Arc::new(tool) as Arc<dyn Tool>]);
    bench.depth = 1;
    let report = bench.run().await;
    assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some("done")));
    let heard = format!("{:?}", model.requests()[1].messages.last());
    assert!(heard.contains("did: a"), "{heard}");
}

#[tokio::test]
async fn ctrl_01_a_list_shows_what_runs_and_says_when_looking_again_is_in_vain() {
    let door = Door::new(PUSH).await;
    let look = json!({"action": " List "});
    let empty = ask(&door, look.clone()).await;
    assert_eq!((&empty["count"], empty["subagents"].as_array().map(Vec::len)), (&json!(0), Some(0)));
    assert!(empty["note"].as_str().is_some_and(|note| note.contains("no subagent of yours")));
    let stopping = ChildView { state: ChildState::Settled(Outcome::Succeeded), ..view(9, None) };
    door.delegator.show(vec![view(1, None), view(2, Some(1)), stopping]);
    let first = ask(&door, look.clone()).await;
    assert_eq!(ids(&first), ["sa-0-00000001", "sa-0-00000002"], "{first}");
    assert_eq!(
        first["subagents"][1],
        json!({
            "subagent_id": "sa-0-00000002", "parent_id": "sa-0-00000001",
            "goal": "goal 2", "model": "fake/model", "status": "running", "running_seconds": 1.3,
            "accepting_steer": true, "live_transcript": "/live/2.log",
        })
    );
    assert_eq!(first.get("note"), None);
    let again = ask(&door, look.clone()).await;
    assert!(again["note"].as_str().is_some_and(|note| note.contains("nothing has changed")), "{again}");
    door.delegator.show(vec![view(1, None)]);
    assert_eq!(ask(&door, look).await.get("note"), None);
}

/// Proves SEC-8.
#[tokio::test]
async fn ctrl_04_unknown_ended_and_foreign_children_are_not_there_in_the_same_words() {
    let door = Door::new(PUSH).await;
    let foreign = ChildView { session: SessionId::from_bits(2), ..view(3, None) };
    let ended =
        ChildView { state: ChildState::Settled(Outcome::Failed(FailureKind::Model)), ..view(4, None) };
    door.delegator.show(vec![view(1, None), foreign, ended]);
    for action in ["steer", "stop"] {
        let mut answers = Vec::new();
        for id in ["sa-0-00000003", "sa-0-00000004", "sa-0-00000005", "deleg_00000003"] {
            let answer = ask(&door, json!({"action": action, "subagent_id": id, "message": "hurry"})).await;
            let error = answer["error"].as_str().expect("an error").to_owned();
            assert!(error.contains("sa-0-00000001"), "it names those there are: {error}");
            answers.push(error.replace(id, "ID"));
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
    }
    assert_eq!((door.delegator.steers().len(), door.delegator.stops().len()), (0, 0));
}

#[tokio::test]
async fn ctrl_02_what_other_processes_run_is_told_apart_and_what_cannot_be_seen_is_not_denied() {
    let mut delegator = FakeDelegator::new().await;
    delegator.unreadable = Some("the disk is gone".to_owned());
    let door = Door::to(delegator, PUSH);
    let elsewhere = |number: u32, runner: Runner| ChildView { runner, ..view(number, None) };
    door.delegator.show(vec![elsewhere(1, Runner::Elsewhere { pid: 4711 }), elsewhere(2, Runner::Nobody)]);
    let list = ask(&door, json!({"action": "list"})).await;
    let statuses: Vec<&Value> =
        list["subagents"].as_array().expect("a list").iter().map(|item| &item["status"]).collect();
    assert_eq!(statuses, ["running", "orphaned"], "{list}");
    assert!(list["note"].as_str().is_some_and(|note| note.contains("the disk is gone")), "{list}");
    for action in ["steer", "stop"] {
        let asked =
            |id: &'static str| json!({"action": action, "subagent_id": id, "message": "look at the tests"});
        let answer = ask(&door, asked("sa-0-00000009")).await;
        let error = answer["error"].as_str().expect("an error");
        assert!(error.contains("the disk is gone") && !error.contains("Do not ask again"), "{error}");
        let living = ask(&door, asked("sa-0-00000001")).await;
        assert!(!living.to_string().contains("has died"), "{living}");
        let orphan = ask(&door, asked("sa-0-00000002")).await;
        assert!(orphan["note"].as_str().is_some_and(|note| note.contains("has died")), "{orphan}");
    }
}

#[tokio::test]
async fn ctrl_07_what_ends_or_has_just_ended_is_told_apart_and_its_result_is_still_to_come() {
    let mut delegator = FakeDelegator::new().await;
    delegator.too_late = true;
    let door = Door::to(delegator, PUSH);
    let stopping = ChildState::Stopping {
        attempt: 1,
        cause: StopReason::Cancelled,
        force: Force::Ask,
        slot: Slot::Held,
    };
    door.delegator.show(vec![view(1, None), ChildView { state: stopping, ..view(2, None) }]);
    for (action, id, words) in [
        ("steer", "sa-0-00000001", "has ended in the same moment"),
        ("stop", "sa-0-00000001", "has ended in the same moment"),
        ("steer", "sa-0-00000002", "is ending and reads no more messages"),
    ] {
        let answer = ask(&door, json!({"action": action, "subagent_id": id, "message": "hurry"})).await;
        let error = answer["error"].as_str().expect("an error");
        assert!(error.contains(words) && error.contains("its result comes"), "{action} {id}: {error}");
    }
    let told: Vec<ChildId> = door.delegator.steers().into_iter().map(|(child, ..)| child).collect();
    assert_eq!(told, [ChildId::from_bits(0, 1)], "one that is ending is not asked");
}

#[tokio::test]
async fn ctrl_05_and_06_what_the_session_owns_is_steered_and_stopped() {
    let door = Door::new(PUSH).await;
    door.delegator.show(vec![view(1, None), view(2, Some(1))]);
    let steer = json!({"action": "steer", "subagent_id": "sa-0-00000002", "message": "hurry"});
    let steered = ask(&door, steer).await;
    assert_eq!((&steered["status"], &steered["subagent_id"]), (&json!("queued"), &json!("sa-0-00000002")));
    let said = (ChildId::from_bits(0, 2), "hurry".to_owned(), Some(session()));
    assert_eq!(door.delegator.steers(), [said]);
    let stopped = ask(&door, json!({"action": "stop", "subagent_id": "sa-0-00000001"})).await;
    assert_eq!(
        (&stopped["status"], &stopped["subagent_id"]),
        (&json!("interrupt_requested"), &json!("sa-0-00000001"))
    );
    let stopped = ask(&door, json!({"action": "stop", "subagent_id": "deleg_00000002"})).await;
    assert_eq!(stopped["subagent_id"], json!("deleg_00000002"));
    let scopes = [Scope::Child(ChildId::from_bits(0, 1)), Scope::Delegation(DelegationId::from_bits(2))];
    assert_eq!(door.delegator.stops(), scopes);
}

/// Proves SEC-12.
#[tokio::test]
async fn ctrl_09_a_subagent_owns_only_what_stands_below_itself() {
    let door = Door::new(PUSH).await;
    door.delegator.show(vec![view(1, None), view(2, Some(1)), view(3, Some(2)), view(4, None)]);
    let child = Site { actor: Actor::Child(ChildId::from_bits(0, 1)), ..site(&door) };
    let list = json_of(&door.call_from(child.clone(), json!({"action": "list"})).await);
    assert_eq!(ids(&list), ["sa-0-00000002", "sa-0-00000003"]);
    let output = door.call_from(child, json!({"action": "stop", "subagent_id": "sa-0-00000001"})).await;
    assert!(output.is_error, "not itself: {}", output.content);
    assert_eq!(door.delegator.stops(), []);
}

#[tokio::test]
async fn tool_21_a_control_action_that_is_not_whole_takes_no_spawns_place() {
    let door = Door::new(PUSH).await;
    let tool = DelegateTool::new(PUSH);
    tool.connect(Arc::clone(&door.delegator) as Arc<_>);
    let calls = vec![
        call("c1", "delegate_task", json!({"action": "steer", "subagent_id": "x"})),
        call("c2", "delegate_task", json!({"action": "fly"})),
        call("c3", "delegate_task", json!({"goal": "look"})),
        call("c4", "delegate_task", json!({"goal": "look again"})),
    ];
    let model = FakeModel::new([Say::Calls("", calls), Say::Text("done")]);
    let mut bench = Bench::new(Arc::clone(&model), vec![Arc::new(tool) as Arc<dyn Tool>]);
    bench.limits.spawns_per_reply_max = 1;
    assert_eq!(bench.run().await.ending, Ending::Answered);
    let goals: Vec<String> =
        door.delegator.batches().into_iter().map(|batch| batch.tasks[0].goal.clone()).collect();
    assert_eq!(goals, ["look"], "the first that starts something, and no other");
}

#[test]
fn tool_21_control_actions_do_not_count_as_calls_that_start_work() {
    let tool = DelegateTool::new(PUSH);
    for spawn in [json!({"goal": "a"}), json!({"action": " SPAWN "}), json!({}), json!({"tasks": 3})] {
        assert_eq!(tool.effect_of(&spawn), Effect::Rejoins, "{spawn}");
    }
    assert_eq!(tool.effect_of(&json!({"action": "stop"})), Effect::ReadOnly);
    for action in ["list", "steer", "stop"] {
        let arguments = json!({"action": action, "subagent_id": "x", "message": "y"});
        assert_eq!(tool.effect_of(&arguments), Effect::ReadOnly, "{action}");
    }
}

#[tokio::test]
async fn k21_a_model_that_steers_a_child_that_ended_for_ever_is_cut_off() {
    let door = Door::new(PUSH).await;
    let steer = |n: usize| {
        call(
            &format!("c{n}"),
            "delegate_task",
            json!({"action": "steer", "subagent_id": "sa-0-00000009", "message": "go on"}),
        )
    };
    let model = FakeModel::new((0..20).map(|n| Say::Calls("", vec![steer(n)])));
    let tool = DelegateTool::new(PUSH);
    tool.connect(Arc::clone(&door.delegator) as Arc<_>);
    let bench = Bench::new(Arc::clone(&model), vec![Arc::new(tool) as Arc<dyn Tool>]);
    let report = bench.run().await;
    assert_eq!(report.ending, Ending::Failed(FailureKind::Tool));
    assert_eq!(model.calls(), 3);
}
