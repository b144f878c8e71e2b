//! Odd and huge texts as goals, contexts, answers and outputs: they go through whole or are refused, and what is stored can
//! always be read again (K24).

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, empty, say};
use serde_json::{Value, json};

use crate::harness::Home;

fn odd_texts() -> Vec<String> {
    vec![
        "null \u{0} byte".to_owned(),
        "\u{feff}byte order mark".to_owned(),
        "right \u{202e}to left".to_owned(),
        "line one\r\nline two".to_owned(),
        "family 👨‍👩‍👧‍👦 and 日本".to_owned(),
        format!("e{}", "\u{301}".repeat(100_000)),
        "a".repeat(131_072),
        "b".repeat(200_000),
    ]
}

#[test]
fn k24_odd_goals_and_answers_go_through_whole() {
    let echo = Script::from_fn(|talk| say(talk.first_user_text()));
    let server = ScriptedServer::start(Scripts::default().otherwise(echo));
    let home = Home::with(&server);
    let texts = odd_texts();
    let tasks: Vec<Value> = texts.iter().map(|text| json!({"goal": text, "context": text})).collect();
    home.write("tasks.json", json!({"tasks": tasks}).to_string());
    let ended = home.legwork(&["delegate", "tasks.json", "--json"]).run();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let results = ended.results();
    for (entry, text) in results.iter().zip(&texts) {
        assert_eq!(
            entry["summary"].as_str(),
            Some(text.as_str()),
            "{:?}",
            &entry["summary"].to_string()[..60]
        );
    }
    let id = home.only_delegation();
    let stored = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!(stored.results(), results);
    for verb in ["show", "tail", "results"] {
        assert_eq!(home.legwork(&[verb, &id]).run().code, 0, "{verb}");
    }
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
}

#[test]
fn k24_bytes_and_surrogates_from_outside_never_crash_a_start() {
    let event = |content: &str| {
        let choice = format!(
            "{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"{content}\"}},\"finish_reason\":null}}"
        );
        format!(
            "data: {{\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{choice}]}}\n\n"
        )
    };
    let lone = event("before \\ud800 after").into_bytes();
    let mut broken = event("before @ after").into_bytes();
    let at = broken.iter().position(|byte| *byte == b'@').expect("it is there");
    broken[at] = 0xff;
    let scripts = Scripts::default()
        .agent("surrogate", Script::new().step(empty().raw(lone)))
        .agent("not utf-8", Script::new().step(empty().raw(broken)))
        .agent(
            "output",
            Script::from_fn(|talk| match talk.step() {
                0 => call("terminal", json!({"command": "printf 'a\\377b\\000c\\355\\240\\200d'"})),
                _ => say(talk.last_text()),
            }),
        )
        .agent("well", Script::new().step(say("well")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let goals = ["surrogate", "not utf-8", "output", "well"].map(|goal| json!({"goal": goal}));
    home.write("tasks.json", json!({"tasks": goals}).to_string());
    let ended = home.legwork(&["delegate", "tasks.json", "--json"]).run();
    let results = ended.results();
    assert_eq!(results[3]["status"], json!("completed"), "{ended}");
    assert_eq!(results[2]["status"], json!("completed"), "{ended}");
    for entry in &results[..2] {
        let told = entry["summary"].is_string() || entry["error"].is_string();
        assert!(told, "an answer or the reason why there is none: {ended}");
    }
    let stored = home.legwork(&["results", &home.only_delegation(), "--json"]).run();
    assert_eq!(stored.results(), results, "{stored}");
    assert!(server.log().violations().is_empty(), "{}", server.log().summary());
    home.write("lone.json", "{\"tasks\": [{\"goal\": \"a \\ud800 b\"}]}");
    home.legwork(&["delegate", "lone.json", "--json"]).run().assert_refused(2, "input", &["lone.json:1:"]);
}

#[test]
fn k27_an_output_without_end_is_cut_and_stays_readable_in_a_file() {
    let scripts = Scripts::default().otherwise(Script::from_fn(|talk| match talk.step() {
        0 => call("terminal", json!({"command": "yes 'line of many' | head -c 3000000; echo the end"})),
        _ => say(talk.last_text()),
    }));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = home.legwork(&["delegate", "--goal", "any", "--json"]).run();
    let said = ended.results()[0]["summary"].as_str().expect("text").to_owned();
    assert!(
        said.len() < 64 * 1024 && said.contains("the end") && said.contains("left out"),
        "{}",
        said.len()
    );
    let path = said.split_whitespace().find(|word| word.contains("/spill/")).expect("a path");
    let whole = std::fs::read(path.trim_end_matches([':', ';', ',', ']'])).expect("the file is there");
    assert_eq!(whole.len(), 3_000_000 + "the end\n".len());
}
