//! What holds in every wire format alike: faults, gates, raw bytes, keys and the log.

use serde_json::{Value, json};

use super::client::{DEADLINE, Line, Response};
use crate::server::{
    Ending, Protocol, ProviderError, Reply, Rule, Script, ScriptedServer, Scripts, empty, gate, hang,
    hang_after_headers, hang_up, overloaded, rate_limited, raw_response, say, server_error, status,
    status_page, unauthorized,
};

/// How the smallest request of a format looks.
struct Smallest {
    path: &'static str,
    head: &'static str,
    body: Value,
}

fn smallest(protocol: Protocol, streamed: &str) -> Smallest {
    let stream = streamed == "streamed";
    let messages = json!([{ "role": "user", "content": "hi" }]);
    match protocol {
        Protocol::OpenAiChat => Smallest {
            path: "/v1/chat/completions",
            head: "authorization: Bearer k-1\r\n",
            body: json!({ "model": "m", "stream": stream, "messages": messages }),
        },
        Protocol::OpenAiResponses => Smallest {
            path: "/v1/responses",
            head: "authorization: Bearer k-1\r\n",
            body: json!({ "model": "m", "stream": stream, "input": messages }),
        },
        Protocol::Anthropic => Smallest {
            path: "/v1/messages",
            head: "x-api-key: k-1\r\nanthropic-version: 2023-06-01\r\n",
            body: json!({ "model": "m", "max_tokens": 9, "stream": stream, "messages": messages }),
        },
        Protocol::Ollama => Smallest {
            path: "/api/chat",
            head: "authorization: Bearer k-1\r\n",
            body: json!({ "model": "m", "stream": stream, "messages": messages }),
        },
        Protocol::Gemini => Smallest {
            path: match stream {
                true => "/v1beta/models/m:streamGenerateContent?alt=sse",
                false => "/v1beta/models/m:generateContent",
            },
            head: "x-goog-api-key: k-1\r\n",
            body: json!({ "contents": [{ "role": "user", "parts": [{ "text": "hi" }] }] }),
        },
    }
}

fn server(reply: Reply) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::always(reply)))
}

fn line(server: &ScriptedServer, protocol: Protocol, streamed: &str) -> Line {
    let Smallest { path, head, body } = smallest(protocol, streamed);
    Line::post_to(server, path, &body, &format!("{head}connection: close\r\n"))
}

fn ask(server: &ScriptedServer, protocol: Protocol, streamed: &str) -> Response {
    Response::parse(&line(server, protocol, streamed).read_rest())
}

/// The status and the words of a trouble in each format.
fn told(protocol: Protocol, trouble: &str) -> (u16, &'static str) {
    match (protocol, trouble) {
        (Protocol::OpenAiChat | Protocol::OpenAiResponses, "key") => (401, "\"code\":\"invalid_api_key\""),
        (Protocol::OpenAiChat | Protocol::OpenAiResponses, "rate") => {
            (429, "\"code\":\"rate_limit_exceeded\"")
        }
        (Protocol::OpenAiChat | Protocol::OpenAiResponses, "broken") => (500, "\"type\":\"server_error\""),
        (Protocol::OpenAiChat | Protocol::OpenAiResponses, _) => (503, "overloaded"),
        (Protocol::Anthropic, "key") => (401, "\"type\":\"authentication_error\""),
        (Protocol::Anthropic, "rate") => (429, "\"type\":\"rate_limit_error\""),
        (Protocol::Anthropic, "broken") => (500, "\"type\":\"api_error\""),
        (Protocol::Anthropic, _) => (529, "\"type\":\"overloaded_error\""),
        (Protocol::Gemini, "key") => (400, "\"reason\":\"API_KEY_INVALID\""),
        (Protocol::Gemini, "rate") => (429, "\"retryDelay\":\"2."),
        (Protocol::Gemini, "broken") => (500, "\"status\":\"INTERNAL\""),
        (Protocol::Ollama, "key") => (401, "{\"error\":\"unauthorized\"}"),
        (Protocol::Ollama, "rate") => (429, "{\"error\":\"too many requests"),
        (Protocol::Ollama, "broken") => (500, "{\"error\":\"llama runner"),
        (Protocol::Ollama, _) => (503, "{\"error\":\"server busy"),
        (Protocol::Gemini, _) => (503, "\"status\":\"UNAVAILABLE\""),
    }
}

#[test]
fn a_trouble_is_told_in_the_providers_own_way() {
    let troubles = [
        ("key", unauthorized()),
        ("rate", rate_limited(2)),
        ("broken", server_error()),
        ("load", overloaded()),
    ];
    for protocol in Protocol::ALL {
        for (name, reply) in &troubles {
            let (code, words) = told(protocol, name);
            let response = ask(&server(reply.clone()), protocol, "streamed");
            assert_eq!(response.status, code, "{protocol:?} {name}");
            assert!(response.body.contains(words), "{}", response.body);
            assert!(response.head.contains("content-type: application/json"));
            // Gemini says when to come back in its body alone.
            let says_when = *name == "rate" && protocol != Protocol::Gemini;
            assert_eq!(response.head.contains("retry-after: 2\r\n"), says_when, "{protocol:?} {name}");
        }
    }
}

#[test]
fn the_scripts_own_status_comes_in_the_providers_shape() {
    for protocol in Protocol::ALL {
        let refused = ask(&server(status(418, "no coffee").retry_after("0.5")), protocol, "streamed");
        assert_eq!(refused.status, 418);
        assert!(refused.json()["error"].to_string().contains("no coffee"), "{}", refused.body);
        assert!(refused.head.contains("retry-after: 0.5"));
        let later = ask(&server(rate_limited(2).retry_after("7")), protocol, "streamed");
        assert_eq!(later.head.matches("retry-after: ").count(), 1);
        assert!(later.head.contains("retry-after: 7\r\n"));
        let page = ask(&server(status_page(502, "text/html", "<h1>no</h1>")), protocol, "whole");
        assert_eq!((page.status, page.body.as_str()), (502, "<h1>no</h1>"));
        assert!(page.head.contains("content-type: text/html"));
    }
}

#[test]
fn a_stream_is_cut_truncated_or_broken_off_with_an_error() {
    let error = ProviderError::new("overloaded_error", "too much");
    for protocol in Protocol::ALL {
        let full = ask(&server(say("some words")), protocol, "streamed");
        assert!(full.whole && full.chunks > 1, "{protocol:?}");
        let cut = ask(&server(say("some words").cut()), protocol, "streamed");
        assert!(!cut.whole && full.chunks > cut.chunks, "{protocol:?}");
        let truncated = ask(&server(say("some words").truncate()), protocol, "streamed");
        assert!(truncated.whole && full.chunks > truncated.chunks, "{protocol:?}");
        let broken = ask(&server(say("some words").error_chunk(error.clone())), protocol, "streamed");
        assert!(broken.whole && broken.body.contains("too much"), "{}", broken.body);
        let whole = ask(&server(empty().error_chunk(error.clone())), protocol, "whole");
        assert!(whole.json()["error"].to_string().contains("too much"), "{}", whole.body);
        let half = ask(&server(say("some words").cut()), protocol, "whole");
        assert!(!half.whole && !half.body.is_empty());
    }
}

#[test]
fn a_stream_stalls_until_the_client_leaves() {
    for protocol in Protocol::ALL {
        for reply in [say("x").stall(), hang_after_headers(), hang()] {
            let server = server(reply);
            let line = line(&server, protocol, "streamed");
            server.wait_for(|log| log.in_flight() == 1, DEADLINE);
            line.leave();
            let log = server.wait_for(|log| log.in_flight() == 0, DEADLINE);
            assert_eq!(log.entries()[0].ending, Ending::ClientGone);
        }
        let silent = server(hang_after_headers());
        let mut line = line(&silent, protocol, "streamed");
        assert!(line.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
        assert_eq!(line.leave(), b"");
    }
}

#[test]
fn noise_takes_the_place_of_a_response() {
    for protocol in Protocol::ALL {
        assert_eq!(line(&server(hang_up()), protocol, "whole").read_rest(), b"");
        assert_eq!(
            line(&server(raw_response(*b"SSH-2.0-\xff")), protocol, "whole").read_rest(),
            b"SSH-2.0-\xff"
        );
        let raw = ask(&server(say("a").raw("nonsense\n\n").say("b")), protocol, "streamed");
        assert!(raw.whole && raw.body.contains("nonsense\n\n"));
        let whole = ask(&server(say("a").raw("{nonsense")), protocol, "whole");
        assert_eq!(whole.body, "{nonsense");
    }
}

#[test]
fn gates_hold_a_reply_before_and_within_its_stream() {
    for protocol in Protocol::ALL {
        let server = server(gate("before").say("first").gate("within").say("second"));
        let mut line = line(&server, protocol, "streamed");
        server.gate("before").wait_reached();
        server.gate("before").open();
        server.gate("within").wait_reached();
        assert_eq!(server.log().in_flight(), 1);
        server.gate("within").open();
        assert_eq!(Response::parse(&line.read_rest()).status, 200);
    }
}

#[test]
fn the_log_knows_format_and_key() {
    for protocol in Protocol::ALL {
        let server = server(say("x"));
        ask(&server, protocol, "whole");
        let log = server.log();
        let entry = &log.entries()[0];
        assert_eq!((entry.protocol, entry.key.as_deref()), (Some(protocol), Some("k-1")));
        assert_eq!(entry.header("host"), Some("legwork.test"));
        assert_eq!(entry.violation, None);
    }
}

#[test]
fn another_key_than_the_scripts_ask_for_is_a_violation() {
    for protocol in Protocol::ALL {
        let server = ScriptedServer::start(Scripts::default().key("k-2"));
        assert_eq!(ask(&server, protocol, "whole").status, told(protocol, "key").0);
        assert_eq!(server.log().violations()[0].rule, Rule::WrongKey);
    }
}

#[test]
fn a_format_that_is_not_spoken_is_not_found() {
    for protocol in Protocol::ALL {
        let others = Protocol::ALL.into_iter().filter(|other| *other != protocol);
        let server = ScriptedServer::start(Scripts::default().speaks(others));
        assert_eq!(ask(&server, protocol, "whole").status, 404);
        assert!(server.base_for(protocol).starts_with(&server.origin()));
    }
}
