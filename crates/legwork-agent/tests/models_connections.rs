//! How the shared client uses connections, against a server so raw that it counts them.

#[path = "models_support/asking.rs"]
mod models_support;

use legwork_agent::models::{Model, Protocol, Proxies, RemoteModel, SharedHttp};
use models_support::{ask, options, request, spoken};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A whole reply of each protocol that says `ok`.
fn reply(protocol: Protocol) -> (&'static str, String) {
    let events = |events: &[&str]| {
        let lines = events.iter().map(|event| format!("data: {event}\n\n"));
        ("text/event-stream", lines.collect::<String>())
    };
    match protocol {
        Protocol::ChatCompletions => events(&[
            r#"{"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
            "[DONE]",
        ]),
        Protocol::Responses => events(&[
            r#"{"type":"response.output_text.delta","output_index":0,"item_id":"m","delta":"ok"}"#,
            r#"{"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"ok","annotations":[]}]}]}}"#,
        ]),
        Protocol::AnthropicMessages => events(&[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"ok"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
            r#"{"type":"message_stop"}"#,
        ]),
        Protocol::Gemini => {
            events(&[r#"{"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}"#])
        }
        Protocol::Ollama => (
            "application/x-ndjson",
            "{\"message\":{\"content\":\"ok\"},\"done\":false}\n{\"done\":true,\"done_reason\":\"stop\"}\n"
                .to_owned(),
        ),
    }
}

/// Whether the end of the body comes together with the last event.
#[derive(Clone, Copy)]
enum End {
    Together,
    Later,
    Never,
}

/// A server that counts its connections.
struct Counter {
    base_url: String,
    connections: Arc<AtomicUsize>,
    _running: JoinSet<()>,
}

/// Requests, one after another, of the tests that count connections.
const REQUESTS: usize = 8;

impl Counter {
    /// Fails when requests were given connections of their own. On a busy machine the client's pool may get a connection
    /// back a moment after the next request has begun, so one or two more are no sign of that.
    #[track_caller]
    fn assert_used_again(&self, by: &str) {
        let connections = self.connections.load(Ordering::SeqCst);
        assert!(connections <= REQUESTS / 2, "{REQUESTS} requests over {connections} connections: {by}");
    }
}

async fn counter(end: End) -> Counter {
    counter_of(Protocol::ChatCompletions, end).await
}

async fn counter_of(protocol: Protocol, end: End) -> Counter {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let base_url = format!("http://{}/v1", listener.local_addr().expect("a bound listener has an address"));
    let connections = Arc::new(AtomicUsize::new(0));
    let mut running = JoinSet::new();
    let counted = Arc::clone(&connections);
    running.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            open.spawn(serve(stream, protocol, end));
        }
    });
    Counter { base_url, connections, _running: running }
}

async fn serve(mut stream: TcpStream, protocol: Protocol, end: End) {
    let forever = Notify::new();
    let (kind, reply) = reply(protocol);
    while read_request(&mut stream).await {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
        let body = format!("{head}{:x}\r\n{reply}\r\n", reply.len());
        let closing = "0\r\n\r\n";
        let written = match end {
            End::Together => stream.write_all(format!("{body}{closing}").as_bytes()).await,
            End::Later => {
                stream.write_all(body.as_bytes()).await.expect("the client reads");
                stream.flush().await.expect("the client reads");
                // The client has read the last event by the time that this task is run again.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                stream.write_all(closing.as_bytes()).await
            }
            End::Never => {
                stream.write_all(body.as_bytes()).await.expect("the client reads");
                forever.notified().await;
                Ok(())
            }
        };
        if written.is_err() {
            return;
        }
    }
}

/// Reads one request; false when the client has left.
async fn read_request(stream: &mut TcpStream) -> bool {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return true;
            }
        }
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
    }
}

fn route(counter: &Counter, http: &SharedHttp) -> RemoteModel {
    RemoteModel::new(options(&counter.base_url), http).expect("a route")
}

#[tokio::test]
async fn a_connection_is_used_again_also_when_the_body_ends_after_its_last_event() {
    for protocol in Protocol::ALL {
        for end in [End::Together, End::Later] {
            let counter = counter_of(*protocol, end).await;
            let model = models_support::model(spoken(*protocol, &counter.base_url));
            for _ in 0..REQUESTS {
                let reply = ask(&model, request("hi")).await.1.expect("a reply");
                assert_eq!(reply.message.plain_text(), "ok", "{protocol:?}");
            }
            counter.assert_used_again(&format!("{protocol:?}"));
        }
    }
}

#[tokio::test]
async fn models_of_one_process_share_their_connections() {
    let counter = counter(End::Together).await;
    let http = SharedHttp::new(Proxies::default());
    for _ in 0..REQUESTS {
        ask(&route(&counter, &http), request("hi")).await.1.expect("a reply");
    }
    counter.assert_used_again("routes");
}

#[tokio::test]
async fn a_body_that_is_never_ended_does_not_hold_up_a_whole_reply() {
    let counter = counter(End::Never).await;
    let model = route(&counter, &SharedHttp::new(Proxies::default()));
    let reply = ask(&model, request("hi")).await.1.expect("a reply");
    assert_eq!(reply.message.plain_text(), "ok");
}

#[tokio::test]
async fn k29_loopback_is_never_asked_through_a_proxy() {
    let (wanted, proxy) = (counter(End::Together).await, counter(End::Together).await);
    let address = proxy.base_url.trim_end_matches("/v1").to_owned();
    let proxies = Proxies { http: Some(address.clone()), https: Some(address), except: None };
    ask(&route(&wanted, &SharedHttp::new(proxies)), request("hi")).await.1.expect("a reply");
    assert_eq!((wanted.connections.load(Ordering::SeqCst), proxy.connections.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test]
async fn other_addresses_are_asked_through_the_proxy() {
    let proxy = counter(End::Together).await;
    let proxies =
        Proxies { http: Some(proxy.base_url.trim_end_matches("/v1").to_owned()), ..Proxies::default() };
    let model =
        RemoteModel::new(options("http://model.invalid/v1"), &SharedHttp::new(proxies)).expect("a route");
    let reply = ask(&model, request("hi")).await.1.expect("a reply");
    assert_eq!(reply.message.plain_text(), "ok");
    assert_eq!(model.facts().window, None);
}
