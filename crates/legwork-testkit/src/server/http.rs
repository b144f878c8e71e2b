//! Just enough HTTP/1.1 to serve a client and to break the rules on purpose.
//!
//! It reads requests with a `Content-Length` and writes replies byte by byte as told. It is written by hand because a
//! server library guards the very things that the faults must do: cut a body, send half a response, answer with noise.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::strict::{Rule, Violation};

/// The largest head and the largest body of a request that are read.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One request as it came.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub method: String,
    pub path: String,
    pub body: Vec<u8>,
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// A header's value; the name is given in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The path without its query.
    pub(super) fn route(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// The value of a field of the query, as it stands there.
    pub(super) fn query(&self, name: &str) -> Option<&str> {
        let (_, query) = self.path.split_once('?')?;
        let mut fields = query.split('&').filter_map(|field| field.split_once('='));
        fields.find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The key in an `Authorization: Bearer` header.
    pub(super) fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ").map(str::trim)
    }

    pub(super) fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// What a connection brings next.
pub(super) enum Incoming {
    Request(Request),
    /// A request that cannot be read to its end; the connection is of no use after it.
    Broken(Violation),
    /// The client left between two requests.
    Closed,
}

/// The reading side of a connection.
pub(super) struct Reader {
    half: OwnedReadHalf,
    buffer: Vec<u8>,
}

impl Reader {
    pub(super) fn new(half: OwnedReadHalf) -> Self {
        Self { half, buffer: Vec::new() }
    }

    /// Reads the next request whole. `writer` is for the `100 Continue` that a client may ask for.
    pub(super) async fn next(&mut self, writer: &mut Writer) -> Incoming {
        let head_length = match self.read_head().await {
            Ok(Some(length)) => length,
            Ok(None) => return Incoming::Closed,
            Err(violation) => return Incoming::Broken(violation),
        };
        let head = String::from_utf8_lossy(&self.buffer[..head_length]).into_owned();
        self.buffer.drain(..head_length);
        match self.read_rest(&head, writer).await {
            Ok(Some(request)) => Incoming::Request(request),
            Ok(None) => Incoming::Closed,
            Err(violation) => Incoming::Broken(violation),
        }
    }

    /// Ends when the client has left. What a client sends ahead is kept for the next request.
    pub(super) async fn client_gone(&mut self) {
        while self.fill().await {
            if self.buffer.len() > BODY_BYTES_MAX {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The length of the head with its empty line, or none where the client left.
    async fn read_head(&mut self) -> Result<Option<usize>, Violation> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                return Ok(Some(end + 4));
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(broken("head", format!("the head is longer than {HEAD_BYTES_MAX} bytes")));
            }
            if !self.fill().await {
                return Ok(None);
            }
        }
    }

    async fn read_rest(&mut self, head: &str, writer: &mut Writer) -> Result<Option<Request>, Violation> {
        let mut request = parse_head(head)?;
        let length = body_length(&request)?;
        if request.header("expect").is_some() && writer.send(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_err()
        {
            return Ok(None);
        }
        while self.buffer.len() < length {
            if !self.fill().await {
                return Ok(None);
            }
        }
        request.body = self.buffer.drain(..length).collect();
        Ok(Some(request))
    }

    /// Reads what there is; false where the client left.
    async fn fill(&mut self) -> bool {
        matches!(self.half.read_buf(&mut self.buffer).await, Ok(count) if count > 0)
    }
}

fn parse_head(head: &str) -> Result<Request, Violation> {
    let mut lines = head.split("\r\n").take_while(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let [method, path, "HTTP/1.1"] = first.split(' ').collect::<Vec<_>>()[..] else {
        return Err(broken("request line", format!("`{first}` is no request line of HTTP/1.1")));
    };
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) =
            line.split_once(':').ok_or_else(|| broken("headers", format!("`{line}` is no header line")))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(Request { method: method.to_owned(), path: path.to_owned(), body: Vec::new(), headers })
}

fn body_length(request: &Request) -> Result<usize, Violation> {
    if request.header("transfer-encoding").is_some() {
        return Err(broken("transfer-encoding", "a request body needs a Content-Length here".to_owned()));
    }
    let Some(text) = request.header("content-length") else { return Ok(0) };
    let length = text.parse().map_err(|_| broken("content-length", format!("`{text}` is no length")))?;
    if length > BODY_BYTES_MAX {
        return Err(broken("content-length", format!("the body is longer than {BODY_BYTES_MAX} bytes")));
    }
    Ok(length)
}

fn broken(param: &str, message: String) -> Violation {
    Violation::new(Rule::Http, param, message)
}

/// The writing side of a connection.
pub(super) struct Writer {
    half: OwnedWriteHalf,
}

impl Writer {
    pub(super) fn new(half: OwnedWriteHalf) -> Self {
        Self { half }
    }

    /// Sends bytes as they are.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.half.write_all(bytes).await
    }

    /// Sends the head of a reply; `headers` are whole lines without their ends.
    pub(super) async fn head(&mut self, status: u16, headers: &[String]) -> io::Result<()> {
        self.send(head_text(status, headers).as_bytes()).await
    }

    /// Sends a whole reply in one piece.
    pub(super) async fn whole(&mut self, status: u16, headers: &[String], body: &[u8]) -> io::Result<()> {
        let mut bytes = head_text(status, &with_length(headers, body.len())).into_bytes();
        bytes.extend_from_slice(body);
        self.send(&bytes).await
    }

    /// Sends one chunk of a chunked body.
    pub(super) async fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send(&chunked(bytes)).await
    }

    /// Sends the last chunks and the end of a chunked body in one piece, so that a client which leaves after the last
    /// event that it knows cannot leave before the end.
    pub(super) async fn last_chunks(&mut self, chunks: &[String]) -> io::Result<()> {
        let mut bytes: Vec<u8> = chunks.iter().flat_map(|chunk| chunked(chunk.as_bytes())).collect();
        bytes.extend_from_slice(b"0\r\n\r\n");
        self.send(&bytes).await
    }
}

/// The headers of a reply with a body of this length.
pub(super) fn with_length(headers: &[String], length: usize) -> Vec<String> {
    headers.iter().cloned().chain([format!("content-length: {length}")]).collect()
}

/// An empty chunk would end the body, so nothing is written for no bytes.
fn chunked(bytes: &[u8]) -> Vec<u8> {
    if bytes.is_empty() {
        return Vec::new();
    }
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn head_text(status: u16, headers: &[String]) -> String {
    let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    format!("HTTP/1.1 {status} {}\r\n{lines}\r\n", reason_phrase(status))
}

fn reason_phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        529 => "Site Overloaded",
        _ => "Status",
    }
}
