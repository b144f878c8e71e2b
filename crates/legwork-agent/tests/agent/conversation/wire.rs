//! A conversation at providers that refuse whatever is not exactly right: in every protocol, with results that come
//! back, a failure, a stop and a change of mind, no request is illegal (K43).

use super::scene::{Machine, delegation, new_session};
use crate::asking::{PATIENCE, model as remote, spoken};
use legwork_agent::models::{Model, Protocol};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::StopNotice;
use legwork_testkit::server::{
    Alternation, Protocol as Wire, Script, ScriptedServer, Scripts, call, say, unauthorized,
};
use std::sync::Arc;

/// The key is refused once: when the result comes back and nobody has said anything since.
fn server(alternation: Alternation) -> ScriptedServer {
    let script = Script::from_fn(|talk| match talk.step() {
        0 => call("delegate_task", delegation("", &["one"]).arguments),
        1 => say("Waiting."),
        2 if talk.last_text().contains("and now?") => say("Both."),
        2 => unauthorized(),
        3 => say("half").gate("never").say(" and half"),
        _ => say("Done."),
    });
    ScriptedServer::start(Scripts::default().agent("alpha", script).alternation(alternation))
}

#[tokio::test]
async fn k43_no_request_of_a_conversation_is_illegal_in_any_protocol() {
    for (heard, spoken_as) in [
        (Wire::OpenAiChat, Protocol::ChatCompletions),
        (Wire::OpenAiResponses, Protocol::Responses),
        (Wire::Anthropic, Protocol::AnthropicMessages),
        (Wire::Gemini, Protocol::Gemini),
        (Wire::Ollama, Protocol::Ollama),
    ] {
        // Responses is sent one item for each part of a message, which its provider takes.
        let free = heard == Wire::OpenAiResponses;
        let server = server(if free { Alternation::Free } else { Alternation::Strict });
        let machine = Machine::new();
        let model = Arc::new(remote(spoken(spoken_as, &server.base_for(heard)))) as Arc<dyn Model>;
        let running = machine.start(1).await;
        let open = running.open(model, new_session(5)).await;
        open.ask("alpha: start").await;
        machine.children.free("one");
        open.told("Failed(Model)").await;
        open.ask("and now?").await;
        open.handle.say("more").expect("there is room");
        // Deadline: a request that was refused never waits at the gate.
        let patience = tokio::time::timeout(PATIENCE, async {
            while server.log().held() == 0 {
                tokio::task::yield_now().await;
            }
        });
        patience.await.unwrap_or_else(|_| panic!("{heard:?}: {}", server.log().summary()));
        open.handle.stop_turn(StopNotice { reason: StopReason::Cancelled, force: Force::Ask });
        open.ask("go on").await;
        let log = server.log();
        assert_eq!(log.violations(), [] as [&_; 0], "{heard:?}: {}", log.summary());
        let words = open.words();
        let ends: Vec<&str> = words.iter().filter_map(|word| word.strip_prefix("ended ")).collect();
        assert_eq!(ends, ["Answered", "Failed(Model)", "Answered", "Interrupted", "Answered"], "{heard:?}");
    }
}
