//! The conversion, looked at where it counts: in the request body that the library makes of it, and in what is stored.

use super::*;
use rig_core::providers::openai::OpenAIConfig;
use rig_core::wire::{Body, Mode, Operation, Wire};

/// The messages as they go over the wire.
fn wire(messages: Vec<Message>) -> Value {
    let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
    let mut history = history(&messages, &thinker());
    let last = history.pop().expect("a message");
    let spec = ToolSpec {
        name: "read_file".into(),
        description: "reads".into(),
        parameters: json!({"type": "object"}),
    };
    let request = rig_core::completion::CompletionRequest::new(last).messages(history).tools(tools(&[spec]));
    let chat = OpenAIConfig::new("").chat("m");
    let request =
        rig_core::operation::Completion::prepare(request, &chat.describe()).expect("a legal request");
    let encoded = chat.encode(request, Mode::Streaming).expect("an encoded request");
    let Body::Bytes(bytes) = encoded.request.into_body() else { panic!("a JSON body") };
    serde_json::from_slice::<Value>(&bytes).expect("JSON")["messages"].take()
}

fn text(author: Author, text: &str) -> Message {
    Message::text(author, text)
}

fn call(id: &str, arguments: Value, malformed: Option<&str>) -> Part {
    let malformed = malformed.map(str::to_owned);
    Part::Call(ToolCall { id: id.into(), name: "read_file".into(), arguments, malformed })
}

fn result(id: &str, content: &str) -> Message {
    let result = ToolResult { call_id: id.into(), content: content.into(), is_error: false };
    Message { author: Author::Tool, parts: vec![Part::Result(result)] }
}

fn assistant(parts: Vec<Part>) -> Message {
    Message { author: Author::Assistant, parts }
}

#[test]
fn a_conversation_with_calls_and_results() {
    let said = Part::Text { text: "I look".into() };
    let sent = wire(vec![
        text(Author::System, "be brief"),
        text(Author::User, "go"),
        assistant(vec![said, call("c1", json!({"path": "a"}), None), call("c2", json!({}), None)]),
        result("c1", "alpha"),
        result("c2", "beta"),
    ]);
    let function = |arguments: &str| json!({"name": "read_file", "arguments": arguments});
    let calls = json!([
        {"type": "function", "id": "c1", "function": function(r#"{"path":"a"}"#)},
        {"type": "function", "id": "c2", "function": function("{}")},
    ]);
    let expected = json!([
        {"role": "system", "content": [{"type": "text", "text": "be brief"}]},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "I look", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "alpha"},
        {"role": "tool", "tool_call_id": "c2", "content": "beta"},
    ]);
    assert_eq!(sent, expected);
}

#[test]
fn neighbours_in_the_users_role_become_one_message_with_separate_parts() {
    let sent = wire(vec![
        text(Author::User, "hello"),
        text(Author::Completion, "a result"),
        text(Author::User, "and?"),
        assistant(vec![Part::Text { text: "yes".into() }]),
        text(Author::Completion, "another"),
    ]);
    let part = |text: &str| json!({"type": "text", "text": text});
    let expected = json!([
        {"role": "user", "content": [part("hello"), part("a result"), part("and?")]},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "another"},
    ]);
    assert_eq!(sent, expected);
}

#[test]
fn a_user_message_after_tool_results_stays_apart_from_them() {
    let sent = wire(vec![
        text(Author::User, "go"),
        assistant(vec![call("c1", json!({}), None)]),
        result("c1", "alpha"),
        text(Author::User, "be quick"),
    ]);
    assert_eq!(sent[2]["role"], "tool");
    assert_eq!(sent[3], json!({"role": "user", "content": "be quick"}));
}

#[test]
fn k23_malformed_arguments_go_back_as_a_valid_object() {
    let sent = wire(vec![
        text(Author::User, "go"),
        assistant(vec![call("c1", Value::Null, Some(r#"{"path": "a"#)), call("c2", json!([1]), None)]),
        result("c1", "not JSON"),
        result("c2", "not an object"),
    ]);
    let arguments = |at: usize| {
        let text = sent[1]["tool_calls"][at]["function"]["arguments"].as_str().expect("a text");
        serde_json::from_str::<Value>(text).expect("JSON")
    };
    assert_eq!(arguments(0), json!({"malformed": r#"{"path": "a"#}));
    assert_eq!(arguments(1), json!({"malformed": "[1]"}));
}

#[test]
fn k23_a_name_that_a_model_made_up_goes_back_in_legal_letters() {
    for (made_up, legal) in [
        ("send mail", "send_mail".to_owned()),
        ("\u{1b}[2J", "__2J".to_owned()),
        ("日本", "__".to_owned()),
        ("", NAMELESS.to_owned()),
        (&"x".repeat(500), "x".repeat(64)),
    ] {
        let call = ToolCall { id: "c".into(), name: made_up.into(), arguments: json!({}), malformed: None };
        let sent = wire(vec![
            text(Author::User, "go"),
            assistant(vec![Part::Call(call)]),
            result("c", "no such tool"),
        ]);
        assert_eq!(sent[1]["tool_calls"][0]["function"]["name"], json!(legal), "{sent}");
    }
}

#[test]
fn messages_that_say_nothing_are_left_out() {
    let sent = wire(vec![
        text(Author::User, "go"),
        assistant(vec![]),
        assistant(vec![Part::Text { text: String::new() }]),
        text(Author::User, "still there?"),
    ]);
    assert_eq!(sent.as_array().map(Vec::len), Some(1), "{sent}");
}

fn thinker() -> Thinker {
    thinker_at("http://127.0.0.1:1/v1")
}

fn thinker_at(base: &str) -> Thinker {
    let origin = rig::Origin::new(rig::Api::from_static("openai.chat"), "openai", "m");
    Thinker::new(origin, &reqwest::Url::parse(base).expect("an address"))
}

#[test]
fn reasoning_is_kept_and_goes_back_in_the_providers_own_form() {
    let item = json!({"reasoning_content": "hm"});
    let blocks =
        vec![rig::AssistantContent::reasoning("hm").with_native(item), rig::AssistantContent::text("done")];
    let kept = message(blocks, &thinker(), &mut CallIds::default());
    assert!(matches!(&kept.parts[0], Part::Reasoning { text, opaque: Some(_) } if text == "hm"), "{kept:?}");
    let stored = serde_json::to_string(&kept).expect("it can be stored");
    let kept = serde_json::from_str(&stored).expect("it can be read again");
    let sent = wire(vec![text(Author::User, "go"), kept, text(Author::User, "more")]);
    assert_eq!(sent[1], json!({"role": "assistant", "content": "done", "reasoning_content": "hm"}));
}

#[test]
fn reasoning_of_another_model_or_adapter_is_not_sent() {
    let item = json!({"reasoning_content": "hm"});
    let by = |thinker: &Thinker| {
        let blocks = vec![rig::AssistantContent::reasoning("hm").with_native(item.clone())];
        match message(blocks, thinker, &mut CallIds::default()).parts.remove(0) {
            Part::Reasoning { opaque, .. } => opaque,
            other => panic!("reasoning was expected, not {other:?}"),
        }
    };
    let origin = rig::Origin::new(rig::Api::from_static("openai.chat"), "openai", "other");
    let other = Thinker::new(origin, &reqwest::Url::parse("http://127.0.0.1:1").expect("an address"));
    let elsewhere = thinker_at("http://127.0.0.1:2/v1");
    for opaque in [by(&other), by(&elsewhere), Some(json!("odd")), Some(json!({"item": item})), None] {
        let kept = assistant(vec![
            Part::Reasoning { text: "hm".into(), opaque },
            Part::Text { text: "done".into() },
        ]);
        let sent = wire(vec![text(Author::User, "go"), kept, text(Author::User, "more")]);
        assert_eq!(sent[1], json!({"role": "assistant", "content": "done"}));
    }
}

#[test]
fn a_signature_beside_a_call_goes_back_with_it() {
    let item = json!({"id": "c1", "type": "function", "extra_content": {"signature": "s"},
        "function": {"name": "read_file", "arguments": "{}"}});
    let function = rig::ToolFunction::new(tool_name("read_file"), json!({}));
    let block = rig::AssistantContent::ToolCall(rig::ToolCall::from_wire("c1", function)).with_native(item);
    let kept = message(vec![block], &thinker(), &mut CallIds::default());
    let sent = wire(vec![text(Author::User, "go"), kept, result("c1", "alpha")]);
    assert_eq!(sent[1]["tool_calls"][0]["extra_content"], json!({"signature": "s"}));
    assert_eq!(sent[1].get("reasoning_content"), None);
}

#[test]
fn an_ordinary_call_carries_nothing_along() {
    let item = json!({"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}});
    let function = rig::ToolFunction::new(tool_name("read_file"), json!({}));
    let block = rig::AssistantContent::ToolCall(rig::ToolCall::from_wire("c1", function)).with_native(item);
    let kept = message(vec![block], &thinker(), &mut CallIds::default());
    assert_eq!(kept.parts, vec![call("c1", json!({}), None)]);
}

#[test]
fn malformed_arguments_never_go_back_as_the_provider_wrote_them() {
    let item = json!({"id": "c1", "type": "function", "extra_content": {"signature": "s"},
        "function": {"name": "read_file", "arguments": "{"}});
    let function = rig::ToolFunction::parse(tool_name("read_file"), "{");
    let block = rig::AssistantContent::ToolCall(rig::ToolCall::from_wire("c1", function)).with_native(item);
    let kept = message(vec![block], &thinker(), &mut CallIds::default());
    let sent = wire(vec![text(Author::User, "go"), kept, result("c1", "not JSON")]);
    let function = &sent[1]["tool_calls"][0]["function"];
    assert_eq!(function["arguments"], r#"{"malformed":"{"}"#);
}

#[test]
fn a_text_that_carries_something_along_goes_back_with_it() {
    let item = json!({"type": "message", "id": "msg_1", "phase": "commentary",
        "content": [{"type": "output_text", "text": "I look"}]});
    let blocks = vec![
        rig::AssistantContent::text("plain"),
        rig::AssistantContent::text("I look").with_native(item.clone()),
    ];
    let kept = message(blocks, &thinker(), &mut CallIds::default());
    let stored = serde_json::to_string(&kept).expect("it can be stored");
    let kept: Message = serde_json::from_str(&stored).expect("it can be read again");
    assert_eq!(kept.plain_text(), "plainI look");
    let history = history(&[Arc::new(kept)], &thinker());
    let rig::Message::Assistant(turn) = &history[0] else { panic!("{history:?}") };
    let items: Vec<_> = turn.content.iter().map(rig::AssistantContent::native_item).collect();
    assert_eq!(items, [None, Some(&item)]);
}

#[test]
fn pictures_go_in_the_providers_own_form() {
    let picture = |source| Part::Image(Image { media_type: "image/png".into(), source });
    let shown = vec![
        Part::Text { text: "look".into() },
        picture(ImageSource::DataBase64("AAAA".into())),
        picture(ImageSource::Url("https://example.org/a.png".into())),
    ];
    let sent = wire(vec![Message { author: Author::User, parts: shown }]);
    let urls: Vec<_> = (1..3).map(|at| sent[0]["content"][at]["image_url"]["url"].clone()).collect();
    assert_eq!(urls, ["data:image/png;base64,AAAA", "https://example.org/a.png"], "{sent}");
}

#[test]
fn a_picture_that_no_provider_takes_is_told_and_costs_nothing_else() {
    let picture = Image { media_type: "image/x-odd".into(), source: ImageSource::DataBase64("AAAA".into()) };
    let sent = wire(vec![Message { author: Author::User, parts: vec![Part::Image(picture)] }]);
    assert!(sent[0].to_string().contains("image"), "{sent}");
}

#[test]
fn system_text_comes_first_or_in_the_users_role() {
    let sent = wire(vec![
        text(Author::System, "be brief"),
        text(Author::User, "go"),
        text(Author::System, "remember"),
    ]);
    let roles: Vec<_> = sent.as_array().expect("messages").iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["system", "user"]);
    assert_eq!(sent[1]["content"][1]["text"], "remember");
}

#[test]
fn k26_a_summary_is_said_in_the_users_role_and_merges_with_what_a_user_says_next() {
    let summary = Part::Summary(legwork_core::message::Summary { text: "before".into(), from: 3 });
    let sent = wire(vec![
        text(Author::System, "be brief"),
        Message { author: Author::Summary, parts: vec![summary] },
        text(Author::User, "go on"),
    ]);
    let said = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(sent[1], json!({"role": "user", "content": [said("before"), said("go on")]}));
    assert_eq!(sent.as_array().map(Vec::len), Some(2));
}
