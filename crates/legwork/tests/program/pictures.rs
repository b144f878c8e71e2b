//! `images` through the whole program: eight reach the model in the form of its protocol, nine are refused.

use legwork_testkit::server::{Protocol, Script, ScriptedServer, Scripts, call, say};
use serde_json::{Value, json};

use crate::harness::Home;

/// The beginning of a PNG file, as bytes and in base64.
const DOT: [u8; 7] = [0x89, b'P', b'N', b'G', 1, 2, 3];
const DOT_BASE64: &str = "iVBORw0KGgo=";
const DOT_FILE_BASE64: &str = "iVBORwECAw==";

fn images(count: usize) -> Vec<String> {
    let mut images = vec!["dot.png".to_owned(), "https://example.org/a.png".to_owned()];
    images.resize(count, format!("data:image/png;base64,{DOT_BASE64}"));
    images
}

fn tasks(count: usize) -> Value {
    json!({"tasks": [{"goal": "look at the pictures", "images": images(count)}]})
}

fn server() -> ScriptedServer {
    ScriptedServer::start(Scripts::default().agent("look at", Script::always(say("eight dots"))))
}

/// The parts of the first user message of a child, as the provider got them.
fn parts(server: &ScriptedServer) -> Vec<Value> {
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    let messages = log.of("look at")[0].body["messages"].as_array().expect("messages").clone();
    let first = messages.iter().find(|message| message["role"] == "user").expect("a user message");
    first["content"].as_array().expect("parts").clone()
}

/// Proves TASK-13, BUILD-23: eight pictures, over two protocols.
#[test]
fn task_13_eight_pictures_reach_the_model_as_parts_of_its_protocol() {
    let chat = server();
    let home = Home::with(&chat);
    home.write("dot.png", DOT);
    home.write("tasks.json", tasks(8).to_string());
    let ended = home.legwork(&["delegate", "tasks.json", "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let shown = parts(&chat);
    assert_eq!((shown.len(), &shown[0]["type"]), (9, &json!("text")), "text first: {shown:?}");
    let urls: Vec<&str> =
        shown[1..].iter().map(|part| part["image_url"]["url"].as_str().expect("an address")).collect();
    assert_eq!(urls[0], format!("data:image/png;base64,{DOT_FILE_BASE64}"));
    assert_eq!(urls[1], "https://example.org/a.png");
    assert!(urls[2..].iter().all(|url| *url == format!("data:image/png;base64,{DOT_BASE64}")), "{urls:?}");

    let anthropic = server();
    let home = Home::with(&anthropic);
    home.write("dot.png", DOT);
    home.write("tasks.json", tasks(8).to_string());
    let base = anthropic.base_for(Protocol::Anthropic);
    let order = home.legwork(&["delegate", "tasks.json", "--json", "--base-url", &base]);
    let order = order.env("LEGWORK_API_MODE", "anthropic_messages").env("LEGWORK_MODEL_IMAGES", "always");
    let ended = order.run();
    assert_eq!(ended.code, 0, "{ended}");
    let shown = parts(&anthropic);
    assert_eq!(shown.len(), 9, "{shown:?}");
    assert_eq!(
        shown[1]["source"],
        json!({"type": "base64", "media_type": "image/png", "data": DOT_FILE_BASE64})
    );
    assert_eq!(shown[2]["source"], json!({"type": "url", "url": "https://example.org/a.png"}));
}

#[test]
fn task_13_nine_pictures_are_refused_for_models_and_for_people() {
    let delegating = Script::from_fn(|talk| match talk.step() {
        0 => call("delegate_task", tasks(9)),
        _ => say(talk.last_text()),
    });
    let server = ScriptedServer::start(Scripts::default().agent("the prompt", delegating));
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "the prompt"]).run();
    assert!(ended.stdout.contains("tasks[0]: `images` has 9 entries and a task takes at most 8"), "{ended}");
    assert_eq!(home.list().len(), 0);
    home.write("tasks.json", tasks(9).to_string());
    let refused = home.legwork(&["delegate", "tasks.json", "--json"]).run();
    refused.assert_refused(2, "input", &["tasks[0]", "has 9 entries"]);
    assert_eq!(server.log().entries().len(), 2, "no child asked anything");
}

/// Proves BUILD-24 from outside: a model that is not shown pictures reads their names, and the transcript tells what is
/// left out.
#[test]
fn build_24_a_model_that_is_not_shown_pictures_reads_their_names() {
    let server = server();
    let home = Home::with(&server);
    home.write("dot.png", DOT);
    home.write("tasks.json", tasks(3).to_string());
    let order = home.legwork(&["delegate", "tasks.json", "--json"]).env("LEGWORK_MODEL_IMAGES", "never");
    let ended = order.run();
    assert_eq!(ended.code, 0, "{ended}");
    let text = server.log().of("look at")[0].body["messages"][1]["content"].to_string();
    assert!(text.contains("dot.png") && text.contains("- https://example.org/a.png"), "{text}");
    assert!(!text.contains("image_url") && text.contains("you are not shown them"), "{text}");
    let transcript = ended.results()[0]["live_transcript"].as_str().expect("a transcript").to_owned();
    let told = std::fs::read_to_string(transcript).expect("it is there");
    assert!(told.contains("a picture is not shown: data:image/png"), "{told}");
}
