//! Wrong input: each kind is refused before anything exists, with a message that says what is wrong, where, and what to do
//! about it.

use std::fs;

use legwork_testkit::server::{Script, ScriptedServer, Scripts, gate};

use crate::harness::{Ended, Home};

/// Runs `delegate` on a file of this content and checks that nothing was begun.
#[track_caller]
fn delegate(name: &str, content: impl AsRef<[u8]>) -> Ended {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    home.write(name, content);
    let ended = home.legwork(&["delegate", name, "--json"]).run();
    assert!(server.log().entries().is_empty(), "{}", server.log().summary());
    assert!(!home.state().exists(), "nothing was made: {ended}");
    let told = home.legwork(&["delegate", name]).run();
    assert_eq!((told.code, told.stdout.as_str()), (ended.code, ""), "{told}");
    assert!(told.stderr.starts_with("error: ") && told.stderr.contains("nothing was started"), "{told}");
    ended
}

#[test]
fn without_a_model_the_exact_line_to_set_is_told() {
    let home = Home::without_model();
    let verbs: [&[&str]; 2] = [&["delegate", "--goal", "any"], &["run", "any"]];
    for verb in verbs {
        let ended = home.legwork(&[verb, &["--json"]].concat()).run();
        ended.assert_refused(3, "no_model", &["LEGWORK_MODEL="]);
        let with_key =
            home.legwork(&[verb, &["--json"]].concat()).env("OPENAI_API_KEY", "sk-of-nobody").run();
        with_key.assert_refused(3, "no_model", &["LEGWORK_MODEL="]);
        assert!(!home.state().exists());
    }
}

#[test]
fn an_unknown_provider_is_refused_with_the_known_ones() {
    let home = Home::without_model();
    let refused = |model: &str| home.legwork(&["run", "any", "--json", "--model", model]).run();
    refused("opnai/x").assert_refused(2, "unknown_provider", &["opnai", "openai", "--model"]);
    refused("plain-name").assert_refused(2, "configuration", &["plain-name", "PROVIDER/NAME"]);
    for (provider, variable) in [("anthropic", "ANTHROPIC_API_KEY"), ("gemini", "GEMINI_API_KEY")] {
        refused(&format!("{provider}/x")).assert_refused(3, "no_key", &[provider, variable]);
    }
    refused("local/smollm2-135m").assert_refused(3, "no_model", &["--features local-model"]);
    refused("scripted/no-such-file.toml").assert_refused(2, "input", &["no-such-file.toml"]);
}

#[test]
fn an_unknown_protocol_is_refused_with_the_known_ones() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "any", "--json", "--api-mode", "smoke"]).run();
    ended.assert_refused(2, "configuration", &["smoke", "chat_completions"]);
    assert_eq!(home.legwork(&["run", "any", "--api-mode", "chat_completions"]).run().code, 0);
}

#[test]
fn a_syntax_error_is_told_with_line_and_column() {
    let toml = "[[tasks]]\ngoal = \"right\"\n\n[[tasks]]\ngoal = not quoted\n";
    delegate("tasks.toml", toml).assert_refused(2, "input", &["tasks.toml:5:8:"]);
    let json = "{\"tasks\": [\n  {\"goal\": \"right\"},\n  {\"goal\" \"no colon\"}\n]}";
    delegate("tasks.json", json).assert_refused(2, "input", &["tasks.json:3:11:"]);
    delegate("tasks.toml", "[[tasks]]\ngoal = \"a\"\ngoal = \"b\"\n").assert_refused(
        2,
        "input",
        &["tasks.toml:3:1:", "duplicate"],
    );
    delegate("tasks.json", "{\"tasks\": [{\"goal\": \"a\"}]} trailing").assert_refused(
        2,
        "input",
        &["tasks.json:1:28:"],
    );
    delegate("tasks.json", "").assert_refused(2, "input", &["tasks.json:1:"]);
}

#[test]
fn a_file_without_a_usable_task_is_refused() {
    for empty in ["tasks = []\n", "", "# only words\n"] {
        delegate("tasks.toml", empty).assert_refused(2, "input", &["tasks.toml", "there is no task"]);
    }
    delegate("tasks.json", "[]").assert_refused(2, "input", &["tasks.json", "object with `tasks`"]);
    let blank = "[[tasks]]\ngoal = \"first\"\n[[tasks]]\ngoal = \"  \"\n";
    delegate("tasks.toml", blank).assert_refused(
        2,
        "input",
        &["tasks.toml", "tasks[1]", "`goal` is missing or blank"],
    );
    delegate("tasks.toml", "[[tasks]]\ngoal = 7\n").assert_refused(
        2,
        "input",
        &["tasks[0]", "must be text", "a number"],
    );
    delegate("tasks.toml", "goal = \"a\"\n[[tasks]]\ngoal = \"b\"\n").assert_refused(
        2,
        "input",
        &["not both"],
    );
}

#[test]
fn k24_a_goal_of_five_megabytes_is_refused_with_both_numbers() {
    let goal = "a".repeat(5 * 1024 * 1024);
    let words = ["tasks[1]", "5242880", "1048576", "goal_max_bytes", "file"];
    delegate("tasks.toml", format!("[[tasks]]\ngoal = \"b\"\n[[tasks]]\ngoal = \"{goal}\"\n"))
        .assert_refused(2, "input", &words);
    delegate("tasks.json", format!("{{\"goal\": \"c\", \"context\": \"{goal}\"}}")).assert_refused(
        2,
        "input",
        &["`context`", "5242880"],
    );
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let piped = home.legwork(&["run", "-", "--json"]).stdin(goal).run();
    piped.assert_refused(2, "input", &["1048576", "goal_max_bytes"]);
}

#[test]
fn k24_bytes_that_are_no_text_are_told_with_their_place() {
    let words = ["tasks.toml", "byte 18", "UTF-8"];
    delegate("tasks.toml", b"[[tasks]]\ngoal = \"\xff\"\n").assert_refused(2, "input", &words);
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "-", "--json"]).stdin(b"say \xfe".to_vec()).run();
    ended.assert_refused(2, "input", &["stdin", "byte 4", "UTF-8"]);
}

#[test]
fn unknown_keys_are_named() {
    let unknown = "[[tasks]]\ngoal = \"a\"\nprioritty = 1\n";
    delegate("tasks.toml", unknown).assert_refused(2, "input", &["tasks[0]", "`prioritty`", "`goal`"]);
    delegate("tasks.toml", "titel = \"x\"\n[[tasks]]\ngoal = \"a\"\n").assert_refused(
        2,
        "input",
        &["`titel`", "`tasks`"],
    );
}

#[test]
fn a_file_that_is_missing_or_a_folder_is_told() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let delegate = |file: &str| home.legwork(&["delegate", file, "--json"]).run();
    delegate("none.toml").assert_refused(2, "input", &["none.toml", "cannot be read"]);
    fs::create_dir(home.project().join("folder")).expect("the folder is made");
    delegate("folder").assert_refused(2, "input", &["folder", "cannot be read", "directory"]);
    let ended = home.legwork(&["delegate", "--goal", "a", "--json", "--cwd", "no/such/folder"]).run();
    ended.assert_refused(2, "usage", &["no/such/folder", "--cwd"]);
}

#[test]
fn a_wrong_command_line_is_told_in_the_form_that_was_asked_for() {
    let home = Home::without_model();
    home.legwork(&["--json", "delegat"]).run().assert_refused(2, "usage", &["delegat", "delegate"]);
    home.legwork(&["delegate", "--json"]).run().assert_refused(2, "usage", &["FILE", "--goal"]);
    home.legwork(&["delegate", "f.toml", "--later", "--json"]).run().assert_refused(2, "usage", &["--later"]);
    home.legwork(&["run", "--json", " \n "]).env("LEGWORK_MODEL", "scripted/x").run().assert_refused(
        2,
        "input",
        &["prompt is empty"],
    );
    let plain = home.legwork(&["results"]).run();
    assert_eq!((plain.code, plain.stdout.as_str()), (2, ""), "{plain}");
}

#[test]
fn a_key_that_belongs_to_another_address_is_not_sent() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let ended = home
        .legwork(&["run", "any", "--json"])
        .without("LEGWORK_API_KEY")
        .env("OPENAI_API_KEY", "sk-of-openai-only")
        .run();
    assert!(
        server.log().entries().iter().all(|entry| !entry
            .authorization
            .as_deref()
            .unwrap_or("")
            .contains("openai-only")),
        "{ended}"
    );
}

#[test]
fn an_empty_model_name_is_not_taken_for_the_default() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let ended = home.legwork(&["--model", "", "delegate", "--goal", "do one thing"]).run();
    assert_eq!(ended.code, 2, "{ended}");
    assert!(ended.stderr.contains("--model"), "{ended}");
    assert!(server.log().entries().is_empty());
}

/// Every answer that stdout does not take, as on a full disk.
#[test]
fn what_stdout_does_not_take_is_told_on_stderr() {
    let home = Home::without_model();
    let stdout = "exec >/dev/full";
    for arguments in [
        &["--help"][..],
        &["delegate", "--help"],
        &["--version"],
        &["completions", "bash"],
        &["config", "schema"],
        &["doctor", "--offline"],
        &["ps"],
        &["ps", "--json"],
    ] {
        let ended = home.legwork(arguments).after(stdout).run();
        assert_eq!(ended.code, 1, "{arguments:?}: {ended}");
        let told = ended.stderr.contains("error: the answer could not be written to stdout: ");
        assert!(told, "{arguments:?}: {ended}");
    }
    // A failure keeps its own exit code, and says on stderr what stdout was to hold.
    let ended = home.legwork(&["delegate", "--goal", "any", "--json"]).after(stdout).run();
    assert_eq!(ended.code, 3, "{ended}");
    assert!(ended.stderr.contains("error: no model"), "{ended}");
    let ended = home.legwork(&["ps", "--alll", "--json"]).after(stdout).run();
    assert_eq!(ended.code, 2, "{ended}");
    assert!(ended.stderr.contains("error: unexpected argument"), "{ended}");
}

/// As Python's `DEVNULL`, Node's `ignore` and a closed stdout are: what was carried out was, and a script that asks for that again
/// would have it twice.
#[test]
fn a_verb_whose_stdout_is_thrown_away_was_carried_out() {
    let home = Home::without_model();
    for stdout in ["exec 1<>/dev/null", "exec >&-", "exec >/dev/null"] {
        for arguments in [
            &["--help"][..],
            &["completions", "bash"],
            &["config", "check"],
            &["pause", "on"],
            &["pause", "off"],
            &["ps", "--json"],
        ] {
            let ended = home.legwork(arguments).after(stdout).run();
            assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{stdout} {arguments:?}: {ended}");
        }
    }
}

/// What an answer that stdout did not take is worth: it is stored, and the command that is named prints it.
#[test]
fn k03_an_answer_that_stdout_does_not_take_is_stored_and_said_to_be() {
    for way in ["full", "broken"] {
        let server = ScriptedServer::start(
            Scripts::default().otherwise(Script::always(gate("here").say("the answer"))),
        );
        let home = Home::with(&server);
        let order = home.legwork(&["run", "hello"]);
        let running = match way {
            "full" => order.after("exec >/dev/full").start(),
            _broken => order.start_with_stdout().0,
        };
        server.gate("here").open();
        let ended = running.wait();
        assert_eq!(ended.code, 1, "{way}: {ended}");
        assert!(ended.stderr.contains("could not be written to stdout: "), "{way}: {ended}");
        for verb in ["show", "export"] {
            let told = ended
                .stderr
                .split('`')
                .find(|part| part.starts_with(&format!("legwork sessions {verb} ses_")));
            let words: Vec<&str> =
                told.unwrap_or_else(|| panic!("{way}: {ended}")).split(' ').skip(1).collect();
            let shown = home.legwork(&words).run();
            assert!(shown.code == 0 && shown.stdout.contains("the answer"), "{way}: {shown}");
        }
    }
}

#[test]
fn a_working_folder_that_cannot_be_stored_is_refused_before_anything_is_begun() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let within = "mkdir -p $'not\\xfftext' && cd $'not\\xfftext'";
    for verb in [&["delegate", "--goal", "any", "--json"][..], &["run", "any", "--json"]] {
        let ended = home.legwork(verb).after(within).run();
        ended.assert_refused(2, "usage", &["not\\xFFtext", "is not UTF-8", "nothing was started", "--cwd"]);
    }
    assert!(server.log().entries().is_empty() && !home.state().exists(), "nothing was made");
    assert_eq!(home.legwork(&["ps"]).after(within).run().code, 0, "it can be looked from there");
}

#[test]
fn a_working_folder_that_is_gone_is_named_and_another_can_be_named() {
    let home = Home::without_model();
    let within = "mkdir gone && cd gone && rmdir ../gone";
    let gone = home.project().join("gone").display().to_string();
    for verb in [&["delegate", "--goal", "any", "--json"][..], &["run", "any", "--json"], &["ps", "--json"]] {
        home.legwork(verb).after(within).run().assert_refused(2, "usage", &[&gone, "--cwd"]);
    }
    let project = home.project().display().to_string();
    let elsewhere =
        |more: &[&str]| home.legwork(&[&["ps", "--cwd", &project], more].concat()).after(within).run();
    assert_eq!(elsewhere(&[]).code, 0, "{}", elsewhere(&[]));
    assert_eq!(elsewhere(&["--state-dir", "near"]).code, 2, "what is near it cannot be found");
}

/// Who looks is not told that nothing is there, where the state is only not to be found.
#[test]
fn k35_a_state_folder_that_is_a_link_to_nowhere_is_named_by_every_verb() {
    let home = Home::without_model();
    std::os::unix::fs::symlink("/no/such/disk", home.state()).expect("the link is made");
    let link = home.state().display().to_string();
    let words = [link.as_str(), "a link that leads to no folder"];
    for verb in [
        &["ps", "--json"][..],
        &["sessions", "--json"],
        &["results", "deleg_00000000", "--json"],
        &["pause", "on", "--json"],
    ] {
        home.legwork(verb).run().assert_refused(3, "state", &words);
    }
    let doctor = home.legwork(&["doctor", "--offline"]).run();
    assert_eq!(doctor.code, 1, "{doctor}");
    assert!(words.iter().all(|word| doctor.stdout.contains(word)), "{doctor}");
}
