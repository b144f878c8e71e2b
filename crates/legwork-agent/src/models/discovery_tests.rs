//! The search against servers so raw that they say what the test wants, on ports that the system gives.

use super::*;
use crate::models::Proxies;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A server that answers these paths with these documents, and everything else with 404.
struct Pages {
    address: String,
    _running: JoinSet<()>,
}

async fn pages(pages: &'static [(&'static str, &'static str)]) -> Pages {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
    let mut running = JoinSet::new();
    running.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.spawn(answer(stream, pages));
        }
    });
    Pages { address, _running: running }
}

async fn answer(mut stream: TcpStream, pages: &[(&str, &str)]) {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
            return;
        }
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let page = pages.iter().find(|(path, _)| head.starts_with(&format!("GET {path} ")));
    let (status, body) = page.map_or(("404 Not Found", ""), |(_, body)| ("200 OK", *body));
    let length = body.len();
    let reply = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    // A client that has left does not want the answer.
    stream.write_all(reply.as_bytes()).await.ok();
}

/// An address at which nobody listens: the port was given to us and given back.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    format!("http://{}", listener.local_addr().expect("a bound listener has an address"))
}

async fn find(addresses: &[&str]) -> Option<LocalServer> {
    let addresses: Vec<String> = addresses.iter().map(|address| (*address).to_owned()).collect();
    find_local_server(&addresses, &SharedHttp::new(Proxies::default())).await
}

const OLLAMA: &[(&str, &str)] = &[
    ("/api/version", r#"{"version":"0.9.0"}"#),
    (
        "/api/tags",
        r#"{"models":[{"name":"nomic-embed-text:latest","details":{"family":"nomic-bert"}},
            {"name":"big:cloud","remote_host":"https://ollama.com"},
            {"name":"qwen3:4b","details":{"family":"qwen3"}},{"name":"other"}]}"#,
    ),
    ("/v1/models", r#"{"data":[{"id":"nomic-embed-text:latest"}]}"#),
];
const LLAMA: &[(&str, &str)] = &[
    ("/api/tags", r#"{"models":[{"name":"any.gguf"}]}"#),
    ("/v1/models", r#"{"object":"list","data":[{"id":"any.gguf","object":"model"}]}"#),
];

#[tokio::test]
async fn an_ollama_server_is_found_with_its_first_model_that_talks_here() {
    let server = pages(OLLAMA).await;
    let expected = LocalServer {
        protocol: Protocol::Ollama,
        base_url: server.address.clone(),
        model: "qwen3:4b".to_owned(),
    };
    assert_eq!(find(&[&server.address]).await, Some(expected));
}

#[tokio::test]
async fn any_other_server_is_asked_for_chat_completions() {
    let server = pages(LLAMA).await;
    let expected = LocalServer {
        protocol: Protocol::ChatCompletions,
        base_url: format!("{}/v1", server.address),
        model: "any.gguf".to_owned(),
    };
    assert_eq!(find(&[&server.address]).await, Some(expected));
}

#[tokio::test]
async fn the_order_of_the_addresses_decides() {
    let (ollama, llama) = (pages(OLLAMA).await, pages(LLAMA).await);
    let first = |found: Option<LocalServer>| found.map(|server| server.model);
    assert_eq!(first(find(&[&llama.address, &ollama.address]).await).as_deref(), Some("any.gguf"));
    let gone = nobody().await;
    assert_eq!(first(find(&[&gone, &ollama.address, &llama.address]).await).as_deref(), Some("qwen3:4b"));
}

#[tokio::test]
async fn nothing_is_found_where_nobody_answers_or_something_else_does() {
    let nobody = nobody().await;
    let odd = pages(&[("/v1/models", "<html>"), ("/api/version", "{}")]).await;
    let empty = pages(&[("/api/version", r#"{"version":"1"}"#), ("/api/tags", r#"{"models":[]}"#)]).await;
    assert_eq!(find(&[&nobody, &odd.address, &empty.address]).await, None);
    assert_eq!(find(&[]).await, None);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let silent = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
    let begun = Instant::now();
    assert_eq!(find(&[&silent]).await, None);
    assert!(begun.elapsed() >= LOOK_MAX, "it was waited for");
}

#[test]
fn only_this_machine_is_asked() {
    for address in
        ["http://10.0.0.1:11434", "http://example.org", "https://127.0.0.1:1", "ftp://localhost", ""]
    {
        assert!(!is_loopback(address), "{address}");
    }
    for address in ["http://127.0.0.1:11434", "http://localhost:8080", "http://[::1]:8080"] {
        assert!(is_loopback(address), "{address}");
    }
}
