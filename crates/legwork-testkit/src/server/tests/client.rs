//! A client over a bare socket: it sends a request and shows exactly what came back.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::ScriptedServer;

/// A read that takes this long fails the test.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// A streamed request with these messages and the usage asked for.
pub(super) fn streamed(messages: Value) -> Value {
    json!({ "model": "m", "stream": true, "stream_options": { "include_usage": true }, "messages": messages })
}

/// A request for an answer in one piece.
pub(super) fn plain(messages: Value) -> Value {
    json!({ "model": "m", "messages": messages })
}

pub(super) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

pub(super) fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

pub(super) fn calling(ids: &[&str]) -> Value {
    let function = json!({ "name": "look", "arguments": "{}" });
    let calls: Value =
        ids.iter().map(|id| json!({ "id": id, "type": "function", "function": function })).collect();
    json!({ "role": "assistant", "content": null, "tool_calls": calls })
}

pub(super) fn result(id: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "seen" })
}

/// An open connection to the server.
pub(super) struct Line {
    stream: TcpStream,
}

impl Line {
    pub(super) fn open(server: &ScriptedServer) -> Self {
        let address = server.origin().replace("http://", "");
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self { stream }
    }

    /// Connects and sends a chat request, with these lines added to its head.
    pub(super) fn post(server: &ScriptedServer, body: &Value, lines: &str) -> Self {
        Self::post_to(server, "/v1/chat/completions", body, lines)
    }

    /// Connects and posts this body to this path, with these lines added to its head.
    pub(super) fn post_to(server: &ScriptedServer, path: &str, body: &Value, lines: &str) -> Self {
        let mut line = Self::open(server);
        line.send(&request_to(path, body, lines));
        line
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Reads on until what came ends like this.
    pub(super) fn read_until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            read.push(byte[0]);
        }
        String::from_utf8(read).unwrap()
    }

    /// Reads one reply of a stated length and leaves the connection as it is.
    pub(super) fn read_reply(&mut self) {
        let head = self.read_until("\r\n\r\n").to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
        let mut body = vec![0; length.trim().parse().unwrap()];
        self.stream.read_exact(&mut body).unwrap();
    }

    /// Reads until the server closes the connection.
    pub(super) fn read_rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// Leaves as a client does, and returns what was still on its way.
    pub(super) fn leave(mut self) -> Vec<u8> {
        self.stream.shutdown(Shutdown::Write).unwrap();
        self.read_rest()
    }
}

pub(super) fn request(body: &Value, lines: &str) -> Vec<u8> {
    request_to("/v1/chat/completions", body, lines)
}

fn request_to(path: &str, body: &Value, lines: &str) -> Vec<u8> {
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nhost: legwork.test\r\ncontent-type: application/json");
    format!("{head}\r\ncontent-length: {}\r\n{lines}\r\n{body}", body.len()).into_bytes()
}

/// Gets this path, with these lines added to the head.
pub(super) fn get(server: &ScriptedServer, path: &str, lines: &str) -> Response {
    let mut line = Line::open(server);
    line.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n{lines}connection: close\r\n\r\n").as_bytes());
    Response::parse(&line.read_rest())
}

/// What came back on a connection that the server closed.
#[derive(Debug)]
pub(super) struct Response {
    pub status: u16,
    pub head: String,
    /// The body without its chunk lengths.
    pub body: String,
    pub chunks: usize,
    /// Whether the body came to its proper end.
    pub whole: bool,
}

/// Sends one chat request and reads until the connection closes.
pub(super) fn ask(server: &ScriptedServer, body: &Value) -> Response {
    Response::parse(&Line::post(server, body, "connection: close\r\n").read_rest())
}

impl Response {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let text = std::str::from_utf8(bytes).unwrap();
        let (head, rest) = text.split_once("\r\n\r\n").unwrap();
        let head = head.to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let (body, chunks, whole) = if head.contains("transfer-encoding: chunked") {
            dechunk(rest)
        } else {
            let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
            (rest.to_owned(), 1, length.parse() == Ok(rest.len()))
        };
        Self { status, head, body, chunks, whole }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The data of all server-sent events.
    pub(super) fn events(&self) -> Vec<&str> {
        let events = self.body.split_terminator("\n\n");
        events.map(|event| event.strip_prefix("data: ").expect("an event has data")).collect()
    }

    /// The parsed data of all server-sent events that have a name, each of which must be the type in its data.
    pub(super) fn named_events(&self) -> Vec<Value> {
        let events = self.body.split_terminator("\n\n").map(|event| {
            let (name, data) = event.split_once('\n').expect("an event has a name and data");
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name.strip_prefix("event: "), data["type"].as_str(), "{event}");
            data
        });
        events.collect()
    }

    /// The choice's deltas of all events that have one.
    pub(super) fn deltas(&self) -> Vec<Value> {
        let events = self.events().into_iter().filter(|event| *event != "[DONE]");
        let values = events.map(|event| serde_json::from_str::<Value>(event).unwrap());
        values.filter_map(|event| event["choices"].get(0).map(|choice| choice["delta"].clone())).collect()
    }

    /// The pieces of one text field of the deltas, in order.
    pub(super) fn pieces(&self, field: &str) -> Vec<String> {
        self.deltas().iter().filter_map(|delta| delta[field].as_str().map(str::to_owned)).collect()
    }
}

fn dechunk(mut rest: &str) -> (String, usize, bool) {
    let (mut body, mut chunks) = (String::new(), 0);
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return (body, chunks, after == "\r\n");
        }
        body.push_str(&after[..length]);
        chunks += 1;
        rest = after[length..].strip_prefix("\r\n").unwrap();
    }
    (body, chunks, false)
}
