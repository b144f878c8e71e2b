//! The key goes to the provider's address and nowhere else: not to disk, not to a command, not to an output, whatever a
//! provider or a model echoes (K29, K31).

use std::fs;
use std::path::{Path, PathBuf};

use legwork_testkit::server::{ProviderError, Script, ScriptedServer, Scripts, call, gate, say, status_with};
use serde_json::json;

use crate::harness::{Ended, Home, KEY, tasks_toml};

/// A key that has no shape by which it could be known.
const SHAPELESS: &str = "blue-horse-seven-kitchen-lamp";

/// Providers that say the key back, in every place where they say anything.
fn echoing(key: &str) -> Scripts {
    let error =
        |message: String| ProviderError::new("invalid_request_error", message).code("invalid_api_key");
    let refused = status_with(401, error(format!("Incorrect API key provided: {key}.")));
    let trouble = status_with(500, error(format!("Trouble with {key}.")));
    Scripts::default()
        .agent("refused", Script::new().step(refused))
        .agent("trouble", Script::new().step(trouble.on_retry(say("after the trouble"))))
        .agent("chunk", Script::new().step(say("so far").error_chunk(error(format!("Overloaded for {key}")))))
        .agent(
            "looks",
            Script::from_fn(|talk| match talk.step() {
                0 => call(
                    "terminal",
                    json!({"command": "env; cat /proc/self/environ /proc/$PPID/environ; cat /proc/self/cmdline"}),
                ),
                _ => say("I looked"),
            }),
        )
}

#[test]
fn k29_the_key_is_found_nowhere_but_in_requests() {
    for key in [KEY, SHAPELESS] {
        let server = ScriptedServer::start(echoing(key));
        let home = Home::with(&server);
        home.write("tasks.toml", tasks_toml(&["refused", "trouble", "chunk", "looks"]));
        let legwork = |arguments: &[&str]| home.legwork(arguments).env("LEGWORK_API_KEY", key).run();
        let mut outputs = vec![legwork(&["-vv", "delegate", "tasks.toml"])];
        let id = home.only_delegation();
        outputs.push(legwork(&["run", "refused", "--json"]));
        outputs.push(legwork(&["-vv", "doctor"]));
        for verb in [
            &["results", &id, "--json"][..],
            &["show", &id],
            &["tail", &id],
            &["ps", "--all"],
            &["config", "show"],
        ] {
            outputs.push(legwork(verb));
        }
        for ended in &outputs {
            assert_unspoken(ended, key);
        }
        let log = server.log();
        let header = format!("Bearer {key}");
        assert!(log.entries().iter().all(|entry| entry.authorization.as_deref() == Some(header.as_str())));
        assert!(log.entries().iter().all(|entry| !entry.body.to_string().contains(key)), "{}", log.summary());
        assert_not_written(&home.state(), key);
    }
}

#[track_caller]
fn assert_unspoken(ended: &Ended, key: &str) {
    assert!(!ended.stdout.contains(key) && !ended.stderr.contains(key), "{ended}");
}

#[track_caller]
fn assert_not_written(folder: &Path, key: &str) {
    let files = files_below(folder);
    assert!(files.len() > 4, "{files:?}");
    for file in files {
        let content = fs::read(&file).expect("it can be read");
        let found = content.windows(key.len()).any(|part| part == key.as_bytes());
        assert!(!found, "the key stands in {}", file.display());
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("it can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found
}

#[test]
fn k31_no_command_and_no_command_line_carries_the_key() {
    let scripts = Scripts::default()
        .agent("held", Script::new().step(gate("held").say("done")))
        .agent("sleeps", Script::new().step(call("terminal", json!({"command": "sleep 995"}))));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    home.write("tasks.toml", tasks_toml(&["held", "sleeps"]));
    let running = home.legwork(&["delegate", "tasks.toml"]).start();
    server.gate("held").wait_reached();
    home.wait_for_processes("sleep 995", 1);
    for seen in home.processes() {
        assert!(!seen.command.contains(KEY), "{seen:?}");
        let own = seen.pid == running.pid();
        let carries = seen.environment.iter().any(|entry| entry.contains(KEY));
        assert_eq!(carries, own, "only the program itself has it: {seen:?}");
        let names_ours = seen
            .environment
            .iter()
            .any(|entry| entry.starts_with("LEGWORK_API") || entry.starts_with("LEGWORK_BASE"));
        assert_eq!(names_ours, own, "{seen:?}");
    }
    running.kill();
}

/// Keys also stand in the configuration itself, and in variables that it calls as it likes. Whatever reads files finds them there.
#[test]
fn k29_a_key_that_a_subagent_reads_in_the_configuration_is_shown_to_nobody() {
    let literal = ["copper-lantern-in-the-attic", "three-quiet-herons-at-noon", "a-bicycle-under-the-ivy"];
    let named = "seven-marbles-in-a-drawer";
    let reads = |talk: &legwork_testkit::server::Conversation| match talk.step() {
        0 => call("read_file", json!({"path": "config.toml"})),
        1 => call("terminal", json!({"command": "cat config.toml other; echo end of files"})),
        _ => say("I read them"),
    };
    let server = ScriptedServer::start(Scripts::default().agent("reads", Script::from_fn(reads)));
    let home = Home::with(&server);
    let [own, route, stand_in] = literal;
    home.write(
        "config.toml",
        format!(
            "[delegation]\nmodel = 'm'\nbase_url = '{url}'\napi_key = '{own}'\n\
             [delegation.routes.far]\nmodel = 'far'\nbase_url = '{url}'\napi_key_env = 'FAR_AUTH'\n\
             [delegation.routes.near]\nmodel = 'near'\nbase_url = '{url}'\napi_key = '{route}'\n\
             [[delegation.routes.near.fallback_providers]]\nmodel = 'n'\nbase_url = '{url}'\napi_key = '{stand_in}'\n",
            url = server.base_url()
        ),
    );
    home.write("other", format!("FAR_AUTH={named}\nMONKEY_DIR=/in/the/jungle\n"));
    home.write("tasks.toml", tasks_toml(&["reads"]));
    let order = home.legwork(&["--config", "config.toml", "delegate", "tasks.toml"]);
    let ended = order.env("FAR_AUTH", named).env("MONKEY_DIR", "/in/the/jungle").run();
    assert_eq!(ended.code, 0, "{ended}");
    let log = server.log();
    let sent: String = log.entries().iter().map(|entry| entry.body.to_string()).collect();
    assert!(sent.contains("end of files") && sent.contains("near"), "it has read them: {sent}");
    for key in literal.into_iter().chain([named]) {
        assert!(!sent.contains(key), "{key}: {sent}");
        assert_not_written(&home.state(), key);
    }
    assert!(sent.contains("MONKEY_DIR=/in/the/jungle"), "a folder is no key: {sent}");
}
