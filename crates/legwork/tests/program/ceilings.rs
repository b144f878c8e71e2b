//! What children may be given at most: tools and the size of their history.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use legwork_testkit::server::{Entry, Script, ScriptedServer, Scripts, Usage, call, say};
use serde_json::json;

use crate::harness::Home;

/// The names of the tools that a request offers, sorted.
fn offered(entry: &Entry) -> Vec<String> {
    let tools = entry.body["tools"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<String> =
        tools.iter().filter_map(|tool| Some(tool["function"]["name"].as_str()?.to_owned())).collect();
    names.sort();
    names
}

const FILES: [&str; 5] = ["list_files", "patch", "read_file", "search_files", "write_file"];

/// Proves SEC-2, SEC-3, CFG-14, BUILD-2.
#[test]
fn build_10_build_13_a_ceiling_holds_for_children_at_the_offer_and_at_the_call() {
    let delegates = Script::new()
        .step(call("delegate_task", json!({"goal": "a piece of work to be done"})))
        .step(say("all is done"));
    let tries = Script::new()
        .step(call("terminal", json!({"command": "echo reached > reached.txt"})))
        .step(call("delegate_task", json!({"goal": "more of it"})))
        .step(say("done"));
    let server = ScriptedServer::start(
        Scripts::default().agent("the prompt", delegates).agent("piece of work", tries),
    );
    let home = Home::with(&server);
    let order = home.legwork(&["run", "this is the prompt"]).set("max_spawn_depth", 3);
    let ended = order.env("LEGWORK_DELEGATION_DEFAULT_TOOLSETS", "file").run();
    assert_eq!(ended.code, 0, "{ended}");
    let log = server.log();
    let own = offered(log.of("the prompt")[0]);
    assert!(own.contains(&"terminal".to_owned()) && own.contains(&"delegate_task".to_owned()), "{own:?}");
    assert_eq!(offered(log.of("the prompt")[1]), own, "making a child leaves the caller's tools alone");
    let child = log.of("piece of work");
    assert_eq!(offered(child[0]), FILES, "no child has more than the ceiling, nor may it delegate");
    let said = child[2].body["messages"].to_string();
    assert_eq!(said.matches("not allowed").count(), 2, "{said}");
    assert!(!home.project().join("reached.txt").exists());
}

#[test]
fn kill_02_without_orchestrators_every_child_is_a_leaf() {
    let levels_below = |orchestrators: &str| {
        let delegates =
            |goal: &str| Script::new().step(call("delegate_task", json!({"goal": goal}))).step(say("done"));
        let scripts = Scripts::default()
            .agent("the prompt", delegates("a piece of work to be done"))
            .agent("piece of work", delegates("the leaf"));
        let server = ScriptedServer::start(scripts);
        let home = Home::with(&server);
        let order = home.legwork(&["run", "this is the prompt"]).set("max_spawn_depth", 3);
        let ended = order.env("LEGWORK_DELEGATION_ORCHESTRATOR_ENABLED", orchestrators).run();
        assert_eq!(ended.code, 0, "{ended}");
        let log = server.log();
        assert!(offered(log.of("the prompt")[0]).contains(&"delegate_task".to_owned()), "a session may");
        let may = offered(log.of("piece of work")[0]).contains(&"delegate_task".to_owned());
        (may, home.legwork(&["ps", "--all", "--json"]).run().json()["delegations"].as_array().map(Vec::len))
    };
    assert_eq!(levels_below("true"), (true, Some(2)));
    assert_eq!(levels_below("false"), (false, Some(1)), "neither offered nor done");
}

#[test]
fn build_10_cfg_14_an_empty_ceiling_leaves_no_tools_and_none_leaves_the_callers() {
    for way in [&[][..], &["--detach"]] {
        let request = |toolsets: Option<&str>| {
            let server = ScriptedServer::start(Scripts::default());
            let home = Home::with(&server);
            let file = toolsets.map(|list| format!("[delegation]\ndefault_toolsets = {list}\n"));
            home.write("config.toml", file.unwrap_or_default());
            let order = [&["--config", "config.toml", "delegate", "--goal", "any"], way].concat();
            let ended = home.legwork(&order).run();
            assert_eq!(ended.code, 0, "{ended}");
            home.wait_until_nothing_runs();
            offered(&server.log().entries()[0])
        };
        assert_eq!(request(Some("[]")), [""; 0], "{way:?}");
        assert_eq!(request(Some("['web', 'read_file']")), ["read_file", "web_fetch"], "{way:?}");
        let all = request(None);
        assert!(
            all.contains(&"terminal".to_owned()) && !all.contains(&"delegate_task".to_owned()),
            "{all:?}"
        );
    }
}

#[test]
fn build_07_cfg_12_a_child_summarises_from_the_configured_size_on() {
    let summaries = |threshold: u64| {
        let calls = Arc::new(AtomicUsize::new(0));
        let script = Script::from_fn(move |talk| {
            if talk.tools.is_empty() {
                return say("what was said so far");
            }
            match calls.fetch_add(1, Ordering::Relaxed) {
                0..4 => call("terminal", json!({"command": "echo one more"})).usage(Usage::new(18_000, 20)),
                _ => say("done"),
            }
        });
        let server = ScriptedServer::start(Scripts::default().otherwise(script));
        let home = Home::with(&server);
        let order = home.legwork(&["delegate", "--goal", "any"]);
        let ended = order.set("compression_threshold_tokens", threshold).run();
        assert_eq!(ended.code, 0, "{ended}");
        let log = server.log();
        log.entries().iter().filter(|entry| offered(entry).is_empty()).count()
    };
    assert_eq!(summaries(0), 0);
    assert!(summaries(16_000) > 0);
}

/// Proves BUILD-3.
#[test]
fn k16_a_tree_of_depth_three_ends_with_one_slot_for_all_of_it() {
    let passes_on = |next: &'static str| {
        Script::from_fn(move |talk| match talk.step() {
            0 => call("delegate_task", json!({"goal": format!("do the work of level {next}")})),
            _ => say(format!("heard: {}", talk.last_text())),
        })
    };
    let scripts = Scripts::default()
        .agent("the prompt", passes_on("one"))
        .agent("level one", passes_on("two"))
        .agent("level two", passes_on("three"))
        .agent("level three", Script::new().step(say("the bottom is reached")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let order = home.legwork(&["run", "this is the prompt"]).set("max_spawn_depth", 3);
    let ended = order.set("max_concurrent_children", 1).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert!(ended.stdout.contains("the bottom is reached"), "{ended}");
    assert_eq!(home.list().len(), 3, "one delegation a level");
    assert!(server.log().violations().is_empty(), "{}", server.log().summary());
}
