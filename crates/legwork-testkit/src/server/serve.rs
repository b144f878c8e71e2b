//! One connection of the server: read a request, check it, choose the reply, play it, and note how it ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::catalog::Question;
use super::chat::Chat;
use super::conversation::Conversation;
use super::director::{Cue, Director};
use super::fault::ProviderError;
use super::gate::Gates;
use super::http::{Incoming, Reader, Request, Writer};
use super::log::{Ending, Entry, Ledger};
use super::memory::Memory;
use super::play::Stage;
use super::protocol::Protocol;
use super::reply::Reply;
use super::strict::{Standard, Violation, check};
use super::terms::Terms;
use super::wire::{Asked, Whole, Wire};

/// What all connections of a server share.
pub(super) struct Shared {
    pub ledger: Arc<Ledger>,
    pub gates: Gates,
    pub director: Mutex<Director>,
    pub memory: Memory,
    pub terms: Terms,
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
    verdict: Verdict,
}

enum Verdict {
    Play(Reply),
    /// The request needs no script, or gets none.
    Send(Whole),
}

impl Connection {
    async fn answer(&mut self, request: Request) -> After {
        // A client that has just left is noted before the next one arrives, or the peaks would count both.
        tokio::task::yield_now().await;
        let Judged { entry, wire, asked, verdict } = self.shared.judge(&request);
        let mut open = self.shared.ledger.arrive(entry);
        let stage = Stage {
            reply_id: format!("{}_{}", self.shared.port, open.number()),
            writer: &mut self.writer,
            gates: &self.shared.gates,
            memory: &self.shared.memory,
            wire,
            asked: &asked,
            open: &mut open,
            usage: None,
        };
        let played = async {
            match &verdict {
                Verdict::Play(reply) => stage.play(reply).await,
                Verdict::Send(whole) => stage.send(whole).await,
            }
        };
        let ending = tokio::select! {
            biased;
            ending = played => ending.unwrap_or(Ending::ClientGone),
            () = self.reader.client_gone() => Ending::ClientGone,
        };
        open.end(ending);
        if ending == Ending::Answered && !request.wants_close() { After::GoOn } else { After::Close }
    }

    async fn refuse_broken(&mut self, violation: Violation) {
        let error = json!({ "message": violation.sentence(), "type": "invalid_request_error" });
        let body = json!({ "error": error }).to_string();
        let entry = Entry { violation: Some(violation), ..entry_of(&Request::default()) };
        let mut open = self.shared.ledger.arrive(entry);
        let headers = ["content-type: application/json".to_owned(), "connection: close".to_owned()];
        open.end(Ending::Answered);
        if self.writer.whole(400, &headers, body.as_bytes()).await.is_err() {
            open.end(Ending::ClientGone);
        }
    }
}

impl Shared {
    fn judge(&self, request: &Request) -> Judged {
        if let Some(protocol) = self.terms.protocol(request).filter(|_| request.method == "POST") {
            return self.judge_conversation(request, protocol);
        }
        let question = Question::of(request).and_then(|question| {
            let spoken = question.protocols().iter().find(|protocol| self.terms.speaks(**protocol));
            spoken.map(|protocol| (question, *protocol))
        });
        match question {
            Some((question, protocol)) => self.judge_question(request, question, protocol),
            None => nothing_there(request),
        }
    }

    fn judge_question(&self, request: &Request, question: Question, protocol: Protocol) -> Judged {
        let wire = protocol.wire();
        let mut entry = Entry { protocol: Some(protocol), key: wire.key(request), ..entry_of(request) };
        let verdict = match self.terms.admit(entry.key.as_deref(), wire.keys()) {
            Ok(()) => question.answer(request, &self.terms.models),
            Err(violation) => {
                let whole = wire.refusal(&violation);
                entry.violation = Some(violation);
                whole
            }
        };
        Judged { entry, wire, asked: Asked::nothing(), verdict: Verdict::Send(verdict) }
    }

    fn judge_conversation(&self, request: &Request, protocol: Protocol) -> Judged {
        let wire = protocol.wire();
        let mut entry = Entry { protocol: Some(protocol), key: wire.key(request), ..entry_of(request) };
        let (asked, reply) = match self.read(request, wire, entry.key.as_deref()) {
            Ok(asked) => {
                let cue = self.cue(&asked.conversation, wire);
                (entry.agent, entry.step, entry.attempt) = (cue.agent, cue.step, cue.attempt);
                (asked, cue.reply)
            }
            Err(violation) => (Asked::nothing(), Err(violation)),
        };
        let verdict = match reply {
            Ok(reply) => Verdict::Play(reply),
            Err(violation) => {
                let whole = wire.refusal(&violation);
                entry.violation = Some(violation);
                Verdict::Send(whole)
            }
        };
        Judged { entry, wire, asked, verdict }
    }

    fn read(&self, request: &Request, wire: &dyn Wire, key: Option<&str>) -> Result<Asked, Violation> {
        self.terms.admit(key, wire.keys())?;
        wire.read(request)
    }

    fn cue(&self, conversation: &Conversation, wire: &dyn Wire) -> Cue {
        let standard =
            Standard { rules: wire.rules(), alternation: self.terms.alternation, memory: &self.memory };
        let mut director = self.director.lock().unwrap_or_else(PoisonError::into_inner);
        match check(conversation, &standard) {
            Ok(()) => director.choose(conversation),
            Err(violation) => director.refuse(conversation, violation),
        }
    }
}

fn nothing_there(request: &Request) -> Judged {
    let text = format!("there is nothing at {} {}", request.method, request.path);
    let whole = Chat.failure(404, &ProviderError::new("invalid_request_error", text));
    let entry = entry_of(request);
    Judged { entry, wire: &Chat, asked: Asked::nothing(), verdict: Verdict::Send(whole) }
}

fn entry_of(request: &Request) -> Entry {
    Entry {
        number: 0,
        method: request.method.clone(),
        path: request.path.clone(),
        protocol: None,
        host: request.header("host").map(str::to_owned),
        authorization: request.header("authorization").map(str::to_owned),
        key: None,
        headers: request.headers.clone(),
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
