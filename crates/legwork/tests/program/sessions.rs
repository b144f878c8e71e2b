//! `legwork sessions`: what is stored of conversations is listed, shown, exported, copied, and deleted only by name and only
//! when nothing of it can be lost unseen.

use std::fs;

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use serde_json::{Value, json};

use crate::harness::{Ended, Home, tasks_toml};

/// Says back what it was told; once it was told of a tool, uses it first.
fn echo(talk: &Conversation) -> legwork_testkit::server::Reply {
    match talk.step() {
        0 if talk.first_user_text().contains("tool") => {
            say("I look").call("terminal", json!({"command": "echo '## 9. user'; echo '```'"}))
        }
        _ => say(format!("you said: {}", talk.first_user_text())),
    }
}

fn scripts() -> Scripts {
    Scripts::default()
        .agent("held", Script::new().step(gate("held").say("held is done")))
        .otherwise(Script::from_fn(echo))
}

fn sessions(home: &Home, arguments: &[&str]) -> Ended {
    home.legwork(&[&["sessions", "--json"], arguments].concat()).run()
}

#[track_caller]
fn json(ended: &Ended) -> Value {
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended}");
    ended.json()
}

#[track_caller]
fn list(home: &Home, arguments: &[&str]) -> Vec<Value> {
    json(&sessions(home, arguments))["sessions"].as_array().expect("a list").clone()
}

/// One prompt in a session of its own; gives the session's id.
#[track_caller]
fn talk(home: &Home, prompt: &str) -> String {
    let ended = home.legwork(&["run", prompt, "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    ended.json()["session_id"].as_str().expect("an id").to_owned()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn sessions_are_listed_newest_first_and_by_folder() {
    let home = Home::without_model();
    assert_eq!(json(&sessions(&home, &[])), json!({"sessions": [], "unreadable": [], "more": 0}));
    assert!(home.legwork(&["sessions"]).run().stdout.contains("no session is stored"));
    assert!(!home.state().exists(), "looking makes nothing");
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let first = talk(&home, "the first question");
    let second = talk(&home, "the second\nquestion");
    home.legwork(&["delegate", "--goal", "any"]).run();
    fs::create_dir(home.project().join("elsewhere")).expect("the folder is made");
    let far = home.legwork(&["run", "far away", "--json", "--cwd", "elsewhere"]).run().json();
    let ids =
        |list: &[Value]| list.iter().map(|known| text(&known["session_id"]).to_owned()).collect::<Vec<_>>();
    let here = list(&home, &[]);
    assert_eq!(ids(&here), [second.clone(), first.clone()]);
    assert_eq!(
        (&here[0]["opening"], &here[0]["kind"], &here[0]["undelivered"], &here[0]["open_in_pid"]),
        (&json!("the second question"), &json!("run"), &json!(0), &Value::Null)
    );
    assert!(here[0]["messages"].as_u64() > Some(1) && here[0]["touched_at"].is_number(), "{here:?}");
    assert_eq!(ids(&list(&home, &["list", "--all"]))[0], text(&far["session_id"]));
    assert_eq!(list(&home, &["list", "--all"]).len(), 3);
    assert_eq!(list(&home, &["--shell"]).len(), 3, "those of `delegate` only when they are asked for");
    let cut = json(&sessions(&home, &["list", "--limit", "1"]));
    assert_eq!((cut["sessions"].as_array().map(Vec::len), &cut["more"]), (Some(1), &json!(1)));
    sessions(&home, &["--all", "show", &first]).assert_refused(2, "usage", &["--all", "sessions list"]);
    let told = home.legwork(&["sessions"]).run();
    let lines: Vec<&str> = told.stdout.lines().collect();
    assert!(lines[0].starts_with("SESSION") && lines[1].starts_with(&second), "{told}");
    assert!(lines[2].contains("the first question") && lines.len() == 3, "{told}");
}

#[test]
fn a_conversation_is_shown_cut_and_exported_whole() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let long = format!("use a tool {}", "and think ".repeat(1000));
    let id = talk(&home, &long);
    let shown = home.legwork(&["sessions", "show", &id[..12]]).run();
    assert_eq!(shown.code, 0, "{shown}");
    for part in [id.as_str(), "[2] user", "more characters", "→ terminal {\"command\"", "← ", "I look"] {
        assert!(shown.stdout.contains(part), "{part:?}: {shown}");
    }
    assert!(shown.stdout.len() < 8000, "{shown}");
    let document = json(&sessions(&home, &["show", &id]));
    let authors: Vec<&str> = document["history"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|message| text(&message["author"]))
        .collect();
    assert_eq!(authors, ["system", "user", "assistant", "tool", "assistant"]);
    let exported = json(&sessions(&home, &["export", &id]));
    assert_eq!(exported["history"][1]["parts"][0]["text"], json!(long), "all of it");
    let markdown = home.legwork(&["sessions", "export", &id]).run();
    assert_eq!(markdown.code, 0, "{markdown}");
    assert!(markdown.stdout.starts_with(&format!("# Session {id}\n")), "{markdown}");
    assert!(markdown.stdout.contains(long.trim_end()), "all of it");
    let headings: Vec<&str> =
        outside_of_fences(&markdown.stdout).filter(|line| line.starts_with('#')).collect();
    assert_eq!(
        headings[1..],
        ["## 1. system", "## 2. user", "## 3. assistant", "## 4. tool", "## 5. assistant"]
    );
    let as_json = home.legwork(&["sessions", "export", &id, "--format", "json"]).run();
    assert_eq!(as_json.json(), exported);
    sessions(&home, &["export", &id, "--format", "md"]).assert_refused(
        2,
        "usage",
        &["--json", "--format md"],
    );
}

/// The lines of a page that are not between fences.
fn outside_of_fences(page: &str) -> impl Iterator<Item = &str> {
    let mut fence: Option<&str> = None;
    page.lines().filter(move |line| match fence {
        Some(open) if *line == open => {
            fence = None;
            false
        }
        Some(_) => false,
        None if line.starts_with("```") => {
            fence = Some(line);
            false
        }
        None => true,
    })
}

/// Proves SESS-1, SESS-2.
#[test]
fn what_a_session_delegated_is_shown_with_it() {
    let prompt = Script::from_fn(|talk| match talk.step() {
        0 => call("delegate_task", json!({"goal": "a piece of work to be done"})),
        _ => say("it came back"),
    });
    let server = ScriptedServer::start(scripts().agent("the prompt", prompt));
    let home = Home::with(&server);
    let id = talk(&home, "the prompt");
    let shown = json(&sessions(&home, &["show", &id]));
    let delegation = home.only_delegation();
    assert_eq!(shown["delegations"][0]["delegation_id"], json!(delegation), "{shown}");
    assert_eq!(shown["delegations"][0]["units"][0]["delivery"], json!("delivered"), "{shown}");
    let told = home.legwork(&["sessions", "show", &id]).run();
    assert!(told.stdout.contains(&format!("{delegation}  1/1 settled  result delivered")), "{told}");
    let listed = list(&home, &["list", "--all", "--shell"]);
    assert_eq!(listed.len(), 1, "a subagent's conversation is in no list: {listed:?}");
}

/// Proves SEC-8.
#[test]
fn route_07_a_copy_has_the_history_and_owns_nothing() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let id = talk(&home, "the question");
    let forked = json(&sessions(&home, &["fork", &id, "--name", "second try"]));
    let copy = text(&forked["session_id"]).to_owned();
    assert_eq!((&forked["forked_from"], &forked["name"]), (&json!(id), &json!("second try")), "{forked}");
    let history = |id: &str| json(&sessions(&home, &["export", id]))["history"].clone();
    assert_eq!(history(&copy), history(&id));
    let by_name = json(&sessions(&home, &["show", "second try"]));
    assert_eq!((&by_name["session_id"], &by_name["opening"]), (&json!(copy), &json!("the question")));
    assert_eq!(json(&sessions(&home, &["show", "second"]))["session_id"], json!(copy), "a beginning will do");
    assert_eq!(home.legwork(&["show", "second try", "--json"]).run().json()["session_id"], json!(copy));
    assert_eq!(by_name["open_in_pid"], Value::Null, "nobody has it open");
    let taken = sessions(&home, &["fork", &id, "--name", "second try"]);
    taken.assert_refused(
        2,
        "usage",
        &["\"second try\" is taken", &copy, "`--name \"second try-2\"` is free"],
    );
    assert_eq!(list(&home, &[]).len(), 2, "nothing is left of what was refused");
    for wrong in ["", "ses_1", " x", "a\nb"] {
        sessions(&home, &["fork", &id, "--name", wrong]).assert_refused(2, "usage", &["name"]);
    }
    home.legwork(&["delegate", "--goal", "any"]).run();
    let empty = list(&home, &["--shell"]);
    let empty = empty.iter().find(|known| known["kind"] == "shell").expect("the one of `delegate`");
    sessions(&home, &["fork", text(&empty["session_id"])]).assert_refused(1, "refused", &["nothing"]);
}

/// Proves SESS-3.
#[test]
fn a_session_is_deleted_by_name_and_with_a_yes() {
    let prompt = Script::from_fn(|talk| match talk.step() {
        0 => call("delegate_task", json!({"goal": "a piece of work to be done"})),
        _ => say("it came back"),
    });
    let server = ScriptedServer::start(scripts().agent("the prompt", prompt));
    let home = Home::with(&server);
    let id = talk(&home, "the prompt");
    let kept = talk(&home, "another question");
    let delegation = home.only_delegation();
    let transcripts = home.state().join("live").join(&delegation);
    assert!(transcripts.exists());
    let asked = sessions(&home, &["delete", &id]);
    asked.assert_refused(2, "usage", &[&id, "messages", "1 delegations", "the prompt", "--yes"]);
    assert!(transcripts.exists(), "nothing was touched");
    let told = home.legwork(&["sessions", "delete", &id, "--yes"]).run();
    assert!(told.code == 0 && told.stdout.starts_with("deleted: "), "{told}");
    sessions(&home, &["show", &id]).assert_refused(4, "not_found", &[&id]);
    home.legwork(&["show", &delegation, "--json"]).run().assert_refused(4, "not_found", &[&delegation]);
    assert!(!transcripts.exists(), "its files went with it");
    assert_eq!(list(&home, &[]).len(), 1);
    assert_eq!(json(&sessions(&home, &["show", &kept]))["session_id"], json!(kept));
    sessions(&home, &["delete", &delegation, "--yes"]).assert_refused(4, "not_found", &[&delegation]);
}

/// Copies of copies are conversations by themselves: they go one by one, in any order, and take nothing along.
/// Proves SESS-4, SESS-5.
#[test]
fn a_copy_stays_with_all_that_was_said_when_the_conversation_it_came_from_is_deleted() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let first = talk(&home, "the question");
    let fork = |id: &str| text(&json(&sessions(&home, &["fork", id]))["session_id"]).to_owned();
    let second = fork(&first);
    let third = fork(&second);
    let history = |id: &str| json(&sessions(&home, &["export", id]))["history"].clone();
    let whole = history(&first);
    for (deleted, left) in [(&first, vec![&second, &third]), (&third, vec![&second])] {
        assert_eq!(sessions(&home, &["delete", deleted, "--yes"]).code, 0);
        assert_eq!(list(&home, &[]).len(), left.len());
        assert!(left.into_iter().all(|id| history(id) == whole));
    }
}

/// Proves DLV-11.
#[test]
fn k05_a_session_with_undelivered_results_or_work_is_not_deleted() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "held"]).start();
    let at_work = running.delegation();
    server.gate("held").wait_reached();
    let session =
        |id: &str| text(&home.legwork(&["show", id, "--json"]).run().json()["session_id"]).to_owned();
    let busy = session(&at_work);
    let refused = sessions(&home, &["delete", &busy, "--yes"]);
    assert_ne!(refused.code, 0, "{refused}");
    server.gate("held").open();
    assert_eq!(running.wait().code, 0);
    home.write("tasks.toml", tasks_toml(&["any"]));
    let (running, reader) = home.legwork(&["delegate", "tasks.toml"]).start_with_stdout();
    drop(reader);
    assert_eq!(running.wait().code, 1);
    let waiting =
        home.list().iter().map(|known| text(&known["delegation_id"]).to_owned()).find(|id| *id != at_work);
    let waiting = waiting.expect("the second delegation");
    let owner = session(&waiting);
    assert_eq!(list(&home, &["--shell"])[0]["undelivered"], json!(1));
    let refused = sessions(&home, &["delete", &owner, "--yes"]);
    let dismiss = format!("legwork dismiss {waiting}");
    refused.assert_refused(1, "refused", &[&waiting, "have not arrived", &dismiss, "nothing was deleted"]);
    assert_eq!(home.legwork(&["dismiss", &waiting]).run().code, 0);
    assert_eq!(sessions(&home, &["delete", &owner, "--yes"]).code, 0);
    assert_eq!(sessions(&home, &["delete", &busy, "--yes"]).code, 0);
    assert!(home.list().is_empty());
}

#[test]
fn a_session_that_is_open_elsewhere_is_shown_and_copied_but_not_deleted() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let running = home.legwork(&["run", "held at a gate"]).start();
    server.gate("held").wait_reached();
    let open = list(&home, &[]);
    let (id, pid) = (text(&open[0]["session_id"]), running.pid());
    assert_eq!(open[0]["open_in_pid"], json!(pid), "{open:?}");
    let refused = sessions(&home, &["delete", id, "--yes"]);
    refused.assert_refused(3, "open_elsewhere", &[id, &format!("process {pid}")]);
    let told = home.legwork(&["sessions", "show", id]).run();
    assert!(told.stdout.contains(&format!("open in: process {pid}")), "{told}");
    assert_eq!(sessions(&home, &["fork", id]).code, 0);
    running.kill();
    let left = list(&home, &[]);
    assert!(left.iter().all(|known| known["open_in_pid"].is_null()), "the dead hold nothing: {left:?}");
    assert_eq!(sessions(&home, &["delete", id, "--yes"]).code, 0);
}
