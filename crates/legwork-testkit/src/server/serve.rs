//! One connection of the server: read a request, check it, choose the reply, play it, and note how it ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::chat::Chat;
use super::conversation::Conversation;
use super::director::{Cue, Director};
use super::fault::{ProviderError, status, status_with};
use super::gate::Gates;
use super::http::{Incoming, Reader, Request, Writer};
use super::log::{Ending, Entry, Ledger};
use super::play::Stage;
use super::reply::Reply;
use super::strict::{Alternation, Violation, check};
use super::wire::{Asked, Wire, at_path};

/// What all connections of a server share.
pub(super) struct Shared {
    pub ledger: Arc<Ledger>,
    pub gates: Gates,
    pub director: Mutex<Director>,
    pub alternation: Alternation,
    pub port: u16,
}

/// Whether the connection can carry another request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    GoOn,
    Close,
}

/// Serves a connection until one of its ends closes it.
pub(super) async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    // Without this the kernel may hold small events back; where it fails, events only come later.
    drop(stream.set_nodelay(true));
    let (read, write) = stream.into_split();
    let mut connection = Connection { shared, reader: Reader::new(read), writer: Writer::new(write) };
    loop {
        let after = match connection.reader.next(&mut connection.writer).await {
            Incoming::Closed => return,
            Incoming::Request(request) => connection.answer(request).await,
            Incoming::Broken(violation) => {
                connection.refuse_broken(violation).await;
                After::Close
            }
        };
        if after == After::Close {
            return;
        }
    }
}

struct Connection {
    shared: Arc<Shared>,
    reader: Reader,
    writer: Writer,
}

/// A request and what the server makes of it.
struct Judged {
    entry: Entry,
    wire: &'static dyn Wire,
    asked: Asked,
    reply: Reply,
}

impl Connection {
    async fn answer(&mut self, request: Request) -> After {
        // A client that has just left is noted before the next one arrives, or the peaks would count both.
        tokio::task::yield_now().await;
        let Judged { entry, wire, asked, reply } = self.shared.judge(&request);
        let mut open = self.shared.ledger.arrive(entry);
        let reply_id = format!("{}_{}", self.shared.port, open.number());
        let gates = &self.shared.gates;
        let stage = Stage { writer: &mut self.writer, gates, wire, asked: &asked, reply_id, open: &mut open };
        let ending = tokio::select! {
            biased;
            ending = stage.play(&reply) => ending.unwrap_or(Ending::ClientGone),
            () = self.reader.client_gone() => Ending::ClientGone,
        };
        open.end(ending);
        if ending == Ending::Answered && !request.wants_close() { After::GoOn } else { After::Close }
    }

    async fn refuse_broken(&mut self, violation: Violation) {
        let error = refusal(&violation);
        let entry = Entry { violation: Some(violation), ..entry_of(&Request::default()) };
        let mut open = self.shared.ledger.arrive(entry);
        let body = json!({ "error": { "message": error.message, "type": error.kind } }).to_string();
        let headers = ["content-type: application/json".to_owned(), "connection: close".to_owned()];
        open.end(Ending::Answered);
        if self.writer.whole(400, &headers, body.as_bytes()).await.is_err() {
            open.end(Ending::ClientGone);
        }
    }
}

impl Shared {
    fn judge(&self, request: &Request) -> Judged {
        let mut entry = entry_of(request);
        let wire = at_path(&request.path).filter(|_| request.method == "POST");
        let Some(wire) = wire else {
            let text = format!("there is nothing at {} {}", request.method, request.path);
            return Judged { entry, wire: &Chat, asked: Asked::nothing(), reply: status(404, text) };
        };
        let (asked, reply) = match wire.read(request) {
            Ok(asked) => {
                let cue = self.cue(&asked.conversation);
                (entry.agent, entry.step, entry.attempt) = (cue.agent, cue.step, cue.attempt);
                (asked, cue.reply)
            }
            Err(violation) => (Asked::nothing(), Err(violation)),
        };
        let reply = reply.unwrap_or_else(|violation| {
            let reply = status_with(400, refusal(&violation));
            entry.violation = Some(violation);
            reply
        });
        Judged { entry, wire, asked, reply }
    }

    fn cue(&self, conversation: &Conversation) -> Cue {
        let mut director = self.director.lock().unwrap_or_else(PoisonError::into_inner);
        match check(conversation, self.alternation) {
            Ok(()) => director.choose(conversation),
            Err(violation) => director.refuse(conversation, violation),
        }
    }
}

fn refusal(violation: &Violation) -> ProviderError {
    let message = format!("{} ({:?} at `{}`)", violation.message, violation.rule, violation.param);
    ProviderError {
        param: Some(violation.param.clone()),
        ..ProviderError::new("invalid_request_error", message)
    }
}

fn entry_of(request: &Request) -> Entry {
    Entry {
        number: 0,
        method: request.method.clone(),
        path: request.path.clone(),
        host: request.header("host").map(str::to_owned),
        authorization: request.header("authorization").map(str::to_owned),
        body: Arc::new(serde_json::from_slice(&request.body).unwrap_or(Value::Null)),
        body_bytes: request.body.len(),
        agent: None,
        step: 0,
        attempt: 0,
        violation: None,
        arrived: Duration::ZERO,
        ended: None,
        ending: Ending::Open,
    }
}
