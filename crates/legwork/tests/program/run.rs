//! `legwork run`: one prompt, one answer; what the agent delegates is joined, and the exit code tells the truth about all of
//! it.

use legwork_testkit::server::{
    Alternation, Conversation, Reply, Script, ScriptedServer, Scripts, Usage, call, gate, say, unauthorized,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, RELEASE_MAX, STOP_MAX, until};

const SLEEPS: &str = "sleep 996 & setsid sleep 996 & sleep 996";

/// A call for two pieces of work.
fn two_pieces() -> Value {
    json!({"tasks": [{"goal": "the first piece of work"}, {"goal": "the second piece of work", "context": "its own context"}]})
}

/// Delegates `arguments` first, then says what came back.
fn orchestrator(arguments: Value) -> Script {
    Script::from_fn(move |talk| match talk.step() {
        0 => say("I hand it out").call("delegate_task", arguments.clone()),
        _ => say(format!("came back: {}", talk.last_text())),
    })
}

fn pieces() -> Scripts {
    Scripts::default()
        .agent(
            "first piece",
            Script::new().step(call("terminal", json!({"command": "echo one"}))).step(say("one is done")),
        )
        .agent("second piece", Script::new().step(say("two is done")))
        .alternation(Alternation::Strict)
}

/// Proves DLV-15.
#[test]
fn k04_what_is_delegated_is_joined_and_comes_back_to_the_model_and_to_the_caller() {
    let server = ScriptedServer::start(pieces().agent("the prompt", orchestrator(two_pieces())));
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "this is the prompt", "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let document = ended.json();
    let mut keys: Vec<&String> = document.as_object().expect("an object").keys().collect();
    keys.sort();
    assert_eq!(keys, ["answer", "delegations", "session_id", "totals"]);
    let answer = document["answer"].as_str().expect("an answer");
    assert!(answer.contains("one is done") && answer.contains("two is done"), "{answer}");
    let [delegation] = document["delegations"].as_array().expect("a list").as_slice() else {
        panic!("{ended}")
    };
    let said: Vec<&Value> =
        delegation["results"].as_array().expect("results").iter().map(|entry| &entry["summary"]).collect();
    assert_eq!(said, [&json!("one is done"), &json!("two is done")]);
    assert!(delegation["delegation_id"].is_string() && delegation["total_duration_seconds"].is_number());
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    let session = document["session_id"].as_str().expect("an id");
    assert!(session.starts_with("ses_") && session.len() == 20, "{session}");
    let shown = home.legwork(&["show", session, "--json"]).run().json();
    assert_eq!((&shown["kind"], &shown["messages"]), (&json!("session"), &json!(5)), "{shown}");
    let id = delegation["delegation_id"].as_str().expect("an id");
    let shown = home.legwork(&["show", id, "--json"]).run().json();
    assert_eq!(shown["units"][0]["delivery"], json!("delivered"), "{shown}");
    assert!(home.ps().is_empty());
}

/// It waits for those that it has sent out, however long they take, and says one thing, at the end.
#[test]
fn k04_inv_04_a_prompt_does_not_end_before_its_subagents_and_its_code_tells_how_they_ended() {
    for (second, code) in [(say("two is done"), 0), (unauthorized(), 1)] {
        let held = |word: Reply| Script::new().step(gate("held").then(word));
        let scripts = Scripts::default()
            .agent("the prompt", orchestrator(two_pieces()))
            .agent("first piece", held(say("one is done")))
            .agent("second piece", held(second));
        let server = ScriptedServer::start(scripts.alternation(Alternation::Strict));
        let home = Home::with(&server);
        let order = home.legwork(&["run", "this is the prompt", "--json"]).set("lease_seconds", 1);
        let mut running = order.start();
        server.gate("held").wait_waiting(2);
        // It has nothing else to do: its renewed lease says that time has gone by in which it could have ended.
        let renewed = |least: i64| {
            until("its lease to be renewed", || (home.renewals() >= least).then(|| home.renewals()))
        };
        renewed(renewed(0) + 1);
        assert!(!running.has_ended() && running.stdout().is_empty(), "{}", running.stdout());
        assert_eq!(server.gate("held").waiting(), 2);
        assert_eq!(server.log().of("the prompt").len(), 1, "its model is not asked before they have ended");
        server.gate("held").open();
        let ended = running.wait();
        assert_eq!(ended.code, code, "{ended}");
        let document = ended.json();
        let answer = document["answer"].as_str().expect("an answer");
        assert!(answer.contains("came back") && answer.contains("one is done"), "{answer}");
        assert_eq!(answer.contains("two is done"), code == 0, "{answer}");
        let log = server.log();
        let asked = log.of("the prompt");
        assert_eq!(asked.len(), 2, "{}", log.summary());
        let statuses: Vec<&Value> = document["delegations"][0]["results"]
            .as_array()
            .expect("results")
            .iter()
            .map(|entry| &entry["status"])
            .collect();
        assert_eq!(statuses, [&json!("completed"), &json!(if code == 0 { "completed" } else { "failed" })]);
        assert!(home.ps().is_empty());
        home.assert_nothing_runs();
    }
}

/// Proves FIN-2.
#[test]
fn fin_02_equal_answers_are_shown_alike_however_much_the_caller_has_used_up() {
    let answer = format!("{}That was the last line.", "one line of the answer\n".repeat(900));
    for prompt_tokens in [100, 30_000] {
        let said = answer.clone();
        let call_it = move || call("delegate_task", json!({"goal": "the long piece of work"}));
        let main = Script::from_fn(move |talk| match talk.step() {
            0 => call_it().usage(Usage::new(prompt_tokens, 20)),
            _ => say("done"),
        });
        let scripts = Scripts::default()
            .agent("the prompt", main)
            .agent("the long piece", Script::new().step(say(said)))
            .otherwise(Script::always(say("a summary")));
        let server = ScriptedServer::start(scripts);
        let home = Home::with(&server);
        // Half of what is left of the window would be 5,000 tokens, or a little less than the answer needs.
        let ended =
            home.legwork(&["run", "this is the prompt"]).env("LEGWORK_MODEL_WINDOW_TOKENS", "40000").run();
        assert_eq!(ended.code, 0, "{ended}");
        let log = server.log();
        let whole = serde_json::to_string(&answer).expect("it is text");
        let shown = log.of("the prompt").iter().any(|entry| {
            let messages = entry.body["messages"].as_array().expect("messages").clone();
            let results = messages.iter().filter(|message| message["role"] == "tool");
            results.into_iter().any(|result| {
                result["content"].as_str().is_some_and(|content| content.contains(whole.trim_matches('"')))
            })
        });
        assert!(shown, "with {prompt_tokens} tokens used up: {}", log.summary());
    }
}

/// The sorted keys of an object.
fn keys_of(value: &Value) -> Vec<&String> {
    let mut keys: Vec<&String> = value.as_object().expect("an object").keys().collect();
    keys.sort();
    keys
}

/// Proves OUT-1, OUT-12: for the same tasks the tool and `delegate` give entries of the same keys, and nothing of the
/// bookkeeping.
#[test]
fn out_01_the_tool_and_delegate_agree_on_the_keys_of_their_answers() {
    let schema = json!({"type": "object"});
    let mut tasks = two_pieces();
    let list = tasks["tasks"].as_array_mut().expect("a list");
    list.push(json!({"goal": "the third piece of work", "output_schema": schema}));
    list.push(json!({"goal": "refused by the provider"}));
    let arguments = tasks.clone();
    let caller = Script::from_fn(move |talk| match talk.step() {
        0 => call("delegate_task", arguments.clone()),
        _ => say(talk.last_text()),
    });
    let scripts = || {
        pieces()
            .agent("third piece", Script::new().step(say("{\"a\": 1}")))
            .agent("refused by", Script::new().step(unauthorized()))
    };
    let server = ScriptedServer::start(scripts().agent("the prompt", caller));
    let asked =
        Home::with(&server).legwork(&["run", "the prompt", "--json"]).set("oneshot_max_children", 4).run();
    let text = asked.json()["answer"].as_str().expect("an answer").to_owned();
    let of_tool: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {asked}"));
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    home.write("tasks.json", tasks.to_string());
    let of_delegate = home.legwork(&["delegate", "tasks.json", "--json"]).run().json();
    let mut expected: Vec<String> = keys_of(&of_tool).into_iter().cloned().collect();
    assert!(!expected.contains(&"delegation_id".to_owned()), "{expected:?}");
    // A model is told why its call was waited for; whoever types `delegate` waits anyhow.
    let note = of_tool["note"].as_str().expect("a note");
    assert!(note.starts_with("no_async: "), "{note}");
    expected.retain(|key| key != "note");
    expected.insert(0, "delegation_id".to_owned());
    assert_eq!(keys_of(&of_delegate), expected.iter().collect::<Vec<_>>());
    let entries = |document: &Value| document["results"].as_array().expect("results").clone();
    let (tools, delegates) = (entries(&of_tool), entries(&of_delegate));
    assert_eq!((tools.len(), delegates.len()), (4, 4));
    for (tool, delegate) in tools.iter().zip(&delegates) {
        assert_eq!(keys_of(tool), keys_of(delegate));
        assert_eq!((&tool["status"], &tool["summary"]), (&delegate["status"], &delegate["summary"]));
    }
    for document in [&of_tool, &of_delegate] {
        assert!(!document.to_string().contains("\"_"), "bookkeeping shows: {document}");
    }
}

#[test]
fn k42_a_child_sees_its_own_task_and_nothing_of_the_conversation() {
    let server = ScriptedServer::start(pieces().agent("the prompt", orchestrator(two_pieces())));
    let home = Home::with(&server);
    home.legwork(&["run", "this is the prompt with a nonce 5f3a"]).run();
    let log = server.log();
    for (marker, own, other) in [("first piece", "first", "second"), ("second piece", "second", "first")] {
        let request = &log.of(marker)[0].body;
        let messages = request["messages"].as_array().expect("messages");
        let roles: Vec<&Value> = messages.iter().map(|message| &message["role"]).collect();
        assert_eq!(roles, [&json!("system"), &json!("user")]);
        let text = request["messages"].to_string();
        assert!(text.contains(&format!("the {own} piece of work")), "{text}");
        for foreign in ["nonce 5f3a", "I hand it out", &format!("the {other} piece of work")] {
            assert!(!text.contains(foreign), "{foreign:?} in {text}");
        }
        assert_eq!(text.contains("its own context"), own == "second");
        let tools = request["tools"].to_string();
        assert!(tools.contains("terminal") && !tools.contains("delegate_task"), "{tools}");
    }
}

#[test]
fn fin_07_what_all_subagents_took_is_in_the_totals_of_the_prompt() {
    let nested = |goal: &'static str, usage: Usage| {
        Script::from_fn(move |talk| match talk.step() {
            0 => call("delegate_task", json!({"goal": goal})).usage(usage),
            _ => say("done").usage(usage),
        })
    };
    let scripts = Scripts::default()
        .agent("the prompt", nested("middle work to be done", Usage::new(100, 1)))
        .agent("middle work", nested("leaf work to be done", Usage::new(1000, 10)))
        .agent("leaf work", Script::new().step(say("done").usage(Usage::new(10_000, 100))));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "the prompt", "--json"]).set("max_spawn_depth", 2).run();
    assert_eq!(ended.json()["totals"]["tokens"], json!({"input": 12_200, "output": 122}), "{ended}");
    assert_eq!(ended.json()["totals"]["cost_status"], json!("unknown"), "{ended}");
    let entry = ended.json()["delegations"][0]["results"][0].clone();
    let whole = json!({"input": 12_000, "output": 120});
    assert_eq!(
        (&entry["tokens"], &entry["subtree"]["tokens"]),
        (&json!({"input": 2000, "output": 20}), &whole)
    );
}

/// Each response is counted once, at every level, and the sums are the same when they are read again.
#[test]
fn fin_07_inv_28_an_entry_says_what_its_subagents_took_with_all_below_them() {
    let boss = |goals: [&'static str; 2], usage: Usage| {
        Script::from_fn(move |talk: &Conversation| match talk.step() {
            0 => {
                call("delegate_task", json!({"tasks": goals.map(|goal| json!({"goal": goal}))})).usage(usage)
            }
            1 => gate("done").say(format!("heard: {}", talk.last_text())).usage(usage),
            _ => say("done").usage(usage),
        })
    };
    let scripts = Scripts::default()
        .agent("top work", boss(["middle work to be done", "leaf work to be done"], Usage::new(100, 1)))
        .agent("middle work", boss(["leaf work to be done", "leaf work to be done"], Usage::new(1000, 10)))
        .agent("leaf work", Script::always(say("done").usage(Usage::new(10_000, 100))));
    let server = ScriptedServer::start(scripts);
    server.gate("done").open();
    let home = Home::with(&server);
    let order = home.legwork(&["delegate", "--goal", "top work", "--goal", "leaf work alone", "--json"]);
    let ended = order.set("max_spawn_depth", 3).run();
    assert_eq!(ended.code, 0, "{ended}");
    let entries = ended.results();
    let tokens = |input: u64, output: u64| json!({"input": input, "output": output});
    assert_eq!(entries[0]["tokens"], tokens(200, 2), "its own: {}", entries[0]);
    let whole = &entries[0]["subtree"];
    assert_eq!((&whole["subagents"], &whole["tokens"]), (&json!(5), &tokens(32_200, 322)), "{}", entries[0]);
    assert!(entries[1].get("subtree").is_none(), "it sent out nobody: {}", entries[1]);
    let heard = entries[0]["summary"].as_str().expect("text");
    assert!(
        heard.contains("\"subtree\":{\"subagents\":3,\"tokens\":{\"input\":22000,\"output\":220}"),
        "{heard}"
    );
    let id = ended.json()["delegation_id"].as_str().expect("an id").to_owned();
    let again = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!(again.results()[0]["subtree"], *whole, "{again}");
}

#[test]
fn the_answer_alone_is_on_stdout_and_the_prompt_may_come_from_stdin() {
    let echo = Script::from_fn(|talk: &Conversation| say(format!("you said: {}", talk.first_user_text())));
    let server = ScriptedServer::start(Scripts::default().otherwise(echo));
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "hello there"]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "you said: hello there\n"), "{ended}");
    let piped = home.legwork(&["run", "-"]).stdin("from\na pipe\n").run();
    assert_eq!((piped.code, piped.stdout.trim_end()), (0, "you said: from\na pipe"), "{piped}");
    let quiet = home.legwork(&["run", "-q", "hello"]).run();
    assert_eq!(quiet.stderr, "", "{quiet}");
}

#[test]
fn k16_a_tree_of_depth_two_with_a_single_slot_completes() {
    let nested = |name: &'static str, goal: &'static str| {
        Script::from_fn(move |talk| match talk.step() {
            0 => call("delegate_task", json!({"goal": goal})),
            _ => say(format!("{name} heard: {}", talk.last_text())),
        })
    };
    let scripts = Scripts::default()
        .agent("the prompt", nested("top", "middle work to be done"))
        .agent("middle work", nested("middle", "leaf work to be done"))
        .agent("leaf work", Script::new().step(say("the leaf is green")));
    let server = ScriptedServer::start(scripts.alternation(Alternation::Strict));
    let home = Home::with(&server);
    let order = home.legwork(&["run", "the prompt", "--json"]);
    let ended = order.set("max_spawn_depth", 2).set("max_concurrent_children", 1).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert!(ended.json()["answer"].as_str().expect("text").contains("the leaf is green"), "{ended}");
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    assert!(!log.of("leaf work")[0].body["tools"].to_string().contains("delegate_task"), "depth is hard");
    let all = home.legwork(&["ps", "--all", "--json"]).run().json();
    assert_eq!(all["delegations"].as_array().map(Vec::len), Some(2), "{all}");
}

#[test]
fn task_14_a_third_subagent_of_a_one_shot_is_refused_in_words_for_the_model() {
    let three = json!({"tasks": [{"goal": "piece number one"}, {"goal": "piece number two"}, {"goal": "piece number three"}]});
    let server = ScriptedServer::start(Scripts::default().agent("the prompt", orchestrator(three)));
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "the prompt", "--json"]).run();
    assert_eq!((ended.code, &ended.json()["delegations"]), (0, &json!([])), "{ended}");
    let answer = ended.json()["answer"].as_str().expect("text").to_owned();
    assert!(answer.contains("oneshot_max_children") && answer.contains("Nothing was started"), "{answer}");
    assert_eq!(server.log().entries().len(), 2, "no child asked: {}", server.log().summary());
    let allowed = home.legwork(&["run", "the prompt", "--json"]).set("oneshot_max_children", 3).run();
    assert_eq!(allowed.json()["delegations"][0]["results"].as_array().map(Vec::len), Some(3), "{allowed}");
}

#[test]
fn the_exit_code_tells_of_a_failed_child_and_of_a_failed_answer() {
    let scripts = pieces().agent(
        "the prompt",
        orchestrator(
            json!({"tasks": [{"goal": "the second piece of work"}, {"goal": "refused by the provider"}]}),
        ),
    );
    let scripts = scripts
        .agent("refused by", Script::new().step(unauthorized()))
        .agent("alone", Script::new().step(unauthorized()));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "the prompt"]).run();
    assert_eq!(ended.code, 1, "{ended}");
    assert!(ended.stdout.contains("two is done") && ended.stdout.contains("Incorrect API key"), "{ended}");
    let alone = home.legwork(&["run", "alone", "--json"]).run();
    assert_eq!((alone.code, &alone.json()["answer"]), (1, &Value::Null), "{alone}");
    assert!(alone.stderr.contains("Incorrect API key provided."), "{alone}");
    let plain = home.legwork(&["run", "alone"]).run();
    assert_eq!((plain.code, plain.stdout.as_str()), (1, ""), "{plain}");
}

#[test]
fn k12_ctrl_c_in_run_ends_the_agent_and_all_its_subagents() {
    let scripts = Scripts::default()
        .agent("the prompt", orchestrator(two_pieces()))
        .agent("first piece", Script::new().step(call("terminal", json!({"command": SLEEPS}))))
        .agent("second piece", Script::new().step(say("half of it").gate("held")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let running = home.legwork(&["run", "the prompt", "--json"]).start();
    server.gate("held").wait_reached();
    home.wait_for_processes("sleep 996", 3);
    running.signal(Signal::SIGINT);
    let ended = running.wait();
    assert_eq!(ended.code, 130, "{ended}");
    assert!(ended.took < STOP_MAX, "{ended}");
    home.assert_nothing_runs();
    let document = ended.json();
    let statuses: Vec<&Value> = document["delegations"][0]["results"]
        .as_array()
        .expect("results")
        .iter()
        .map(|entry| &entry["status"])
        .collect();
    assert_eq!(statuses, [&json!("interrupted"), &json!("interrupted")], "{ended}");
    assert!(home.ps().is_empty());
    assert_eq!(server.log().entries().len(), 3, "{}", server.log().summary());
}

#[test]
fn sigterm_in_run_releases_the_work_and_results_tells_what_is_known() {
    let scripts = Scripts::default()
        .agent("the prompt", orchestrator(two_pieces()))
        .agent("first piece", Script::new().step(say("one is done")))
        .agent("second piece", Script::new().step(call("terminal", json!({"command": SLEEPS}))));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let running = home.legwork(&["run", "the prompt"]).env("LEGWORK_DELEGATION_ON_CRASH", "report").start();
    home.wait_for_processes("sleep 996", 3);
    home.wait_for_states(&["completed", "running"]);
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!((ended.code, ended.stdout.as_str()), (143, ""), "{ended}");
    assert!(ended.took < RELEASE_MAX, "{ended}");
    home.assert_nothing_runs();
    let stored = home.legwork(&["results", &home.only_delegation(), "--json"]).run();
    assert_eq!(stored.statuses(), ["completed", "unknown"], "{stored}");
}

#[test]
fn k02_a_killed_run_leaves_its_conversation_whole_and_its_results_findable() {
    let scripts = Scripts::default()
        .agent("the prompt", orchestrator(two_pieces()))
        .agent("first piece", Script::new().step(say("one is done")))
        .agent("second piece", Script::new().step(gate("held")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let running = home.legwork(&["run", "the prompt"]).env("LEGWORK_DELEGATION_ON_CRASH", "report").start();
    server.gate("held").wait_reached();
    home.wait_for_states(&["completed", "running"]);
    running.kill();
    let id = home.only_delegation();
    let stored = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((stored.code, stored.statuses()), (1, vec!["completed".into(), "unknown".into()]), "{stored}");
    assert_eq!(stored.results()[0]["summary"], json!("one is done"));
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    let session =
        home.legwork(&["show", shown["session_id"].as_str().expect("an id"), "--json"]).run().json();
    assert_eq!(session["messages"], json!(2), "a reply without its results is not part of it: {session}");
    assert!(home.ps().is_empty());
}
