//! Which model is talked to and how: the protocols that can be named, and a server of this machine that is found by
//! itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use legwork_testkit::server::{Protocol, ScriptedServer, Scripts};

use crate::harness::Home;

#[test]
fn every_protocol_can_be_named_and_is_spoken() {
    let modes = [
        ("chat_completions", Protocol::OpenAiChat),
        ("responses", Protocol::OpenAiResponses),
        ("anthropic_messages", Protocol::Anthropic),
        ("gemini", Protocol::Gemini),
    ];
    for (mode, protocol) in modes {
        let server = ScriptedServer::start(Scripts::default());
        let home = Home::with(&server);
        let base = server.base_for(protocol);
        let order = home.legwork(&["run", "any", "--api-mode", mode, "--base-url", &base]);
        let ended = order.run();
        assert_eq!((ended.code, ended.stdout.trim()), (0, "ok"), "{mode}: {ended}");
        assert_eq!(server.log().entries()[0].protocol, Some(protocol), "{}", server.log().summary());
    }
}

/// A server that is like Ollama as far as one short conversation goes. It serves until the test process ends.
fn ollama() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that leaves early is no business of this server.
            stream.and_then(answer).ok();
        }
    });
    address
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    for line in head.lines() {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    let (kind, body) = match head.split(' ').nth(1) {
        Some("/api/version") => ("application/json", r#"{"version":"0.9.0"}"#),
        Some("/api/tags") => ("application/json", r#"{"models":[{"name":"qwen3:4b"}]}"#),
        Some("/api/chat") => (
            "application/x-ndjson",
            "{\"message\":{\"role\":\"assistant\",\"content\":\"found\"},\"done\":false}\n\
             {\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n",
        ),
        _ => ("text/plain", ""),
    };
    let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

#[test]
fn a_server_on_this_machine_is_found_where_no_model_is_configured() {
    let home = Home::without_model();
    let address = ollama();
    let order = home.legwork(&["run", "any"]);
    let ended = order.env("LEGWORK_MODEL_LOCAL_SERVERS", &address).run();
    assert_eq!((ended.code, ended.stdout.trim()), (0, "found"), "{ended}");
    assert!(ended.stderr.contains(&format!("ollama/qwen3:4b is used, found at {address}")), "{ended}");
}

#[test]
fn a_server_that_was_found_never_takes_the_place_of_what_was_asked_for() {
    let server = ScriptedServer::start(Scripts::default());
    let address = ollama();
    let home = Home::with(&server);
    let order = home.legwork(&["run", "any"]);
    let ended = order.env("LEGWORK_MODEL_LOCAL_SERVERS", &address).run();
    assert_eq!((ended.code, ended.stdout.trim()), (0, "ok"), "{ended}");
}
