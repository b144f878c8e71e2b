//! Performs a reply on an open connection: gates first, then a fault in place of an answer, a stream, or a whole answer.
//!
//! It knows neither how the reply was chosen nor how a wire format writes it. Streams are performed in `streaming`.

use std::io;

use super::act::{Act, Call, Finish, Usage};
use super::fault::{End, Refusal, Status};
use super::gate::Gates;
use super::http::{Writer, with_length};
use super::log::{Ending, InFlight};
use super::memory::{Memory, Origin};
use super::reply::Reply;
use super::streaming::Streaming;
use super::wire::{Asked, Delivery, Label, MadeCall, Piece, Thinking, Whole, Wire};

/// Where a reply is performed.
pub(super) struct Stage<'a> {
    pub writer: &'a mut Writer,
    pub gates: &'a Gates,
    pub memory: &'a Memory,
    pub wire: &'static dyn Wire,
    pub asked: &'a Asked,
    /// Unique among the replies of this server.
    pub reply_id: String,
    pub open: &'a mut InFlight,
    /// What the reply reports.
    pub usage: Option<Usage>,
}

impl Stage<'_> {
    /// Plays a reply to its end. An error means that the client has left.
    pub(super) async fn play(mut self, reply: &Reply) -> io::Result<Ending> {
        let mut acts = reply.acts.as_slice();
        while let [Act::Gate(name), rest @ ..] = acts {
            self.gates.pass(name).await;
            acts = rest;
        }
        if let [Act::End(end)] = acts
            && end.comes_before_headers()
        {
            return self.instead(end).await;
        }
        self.usage = reply.usage;
        let finish = finish(reply);
        match self.asked.manner.delivery {
            Delivery::Whole => self.whole(acts, finish).await,
            Delivery::Stream | Delivery::StreamWithUsage => self.stream(acts, finish).await,
        }
    }

    /// Sends a response that no script wrote.
    pub(super) async fn send(mut self, whole: &Whole) -> io::Result<Ending> {
        self.last(whole, whole.body.as_bytes()).await
    }

    /// Makes a call out of a script's, and remembers what it was made with.
    pub(super) fn made(&self, call: &Call, index: usize, origin: Origin) -> MadeCall {
        let id = call.id.clone().unwrap_or_else(|| format!("call_{}_{index}", self.reply_id));
        self.memory.note(&id, origin);
        MadeCall { id, name: call.name.clone(), arguments: call.arguments.clone() }
    }

    /// Whether reasoning goes out at all.
    pub(super) fn thinks(&self) -> bool {
        self.asked.manner.thinking != Thinking::Off
    }

    async fn instead(&mut self, end: &End) -> io::Result<Ending> {
        match end {
            End::Status(status) => {
                let whole = self.status(status);
                self.last(&whole, whole.body.as_bytes()).await
            }
            End::RawResponse(bytes) => {
                self.open.end(Ending::HungUp);
                self.writer.send(bytes).await?;
                Ok(Ending::HungUp)
            }
            End::HangUp => Ok(Ending::HungUp),
            End::Hang => std::future::pending().await,
            End::ErrorChunk(_) | End::Cut | End::Stall | End::Truncate => {
                unreachable!("BUG: {end:?} has headers")
            }
        }
    }

    fn status(&self, status: &Status) -> Whole {
        let mut whole = match &status.refusal {
            Refusal::Trouble(trouble) => self.wire.trouble(*trouble),
            Refusal::Provider { code, error } => self.wire.failure(*code, error),
            Refusal::Page { code, content_type, text } => {
                Whole { content_type: content_type.clone(), ..Whole::new(*code, text) }
            }
        };
        if let Some(value) = &status.retry_after {
            whole.headers.retain(|line| !line.starts_with("retry-after:"));
            whole.headers.push(format!("retry-after: {value}"));
        }
        whole
    }

    async fn stream(&mut self, acts: &[Act], finish: Finish) -> io::Result<Ending> {
        let mut headers = self.headers(self.wire.stream_type());
        headers.extend(["cache-control: no-cache".to_owned(), "transfer-encoding: chunked".to_owned()]);
        self.writer.head(200, &headers).await?;
        let encoder = self.wire.stream(self.label());
        Streaming::new(self, encoder).play(acts, finish).await
    }

    async fn whole(&mut self, acts: &[Act], finish: Finish) -> io::Result<Ending> {
        let gathered = self.gather(acts).await;
        let mut whole = self.wire.whole(&self.label(), &gathered.pieces, finish);
        let body = match gathered.raw {
            None => whole.body.clone().into_bytes(),
            Some(raw) => {
                whole = Whole::new(200, "");
                raw
            }
        };
        match gathered.end {
            None => self.last(&whole, &body).await,
            Some(End::ErrorChunk(error)) => {
                let body = self.wire.failure(500, error).body;
                self.last(&Whole::new(200, ""), body.as_bytes()).await
            }
            Some(End::Truncate) => self.last(&whole, &body[..body.len() / 2]).await,
            Some(end) => {
                // A reply that does nothing but end sends its headers alone.
                let half = if acts.len() > 1 { &body[..body.len() / 2] } else { &[] };
                let headers = with_length(&self.headers(&whole.content_type), body.len());
                self.writer.head(200, &headers).await?;
                self.writer.send(half).await?;
                break_off(end).await
            }
        }
    }

    /// Sends a response of this status and these headers with this body.
    async fn last(&mut self, whole: &Whole, body: &[u8]) -> io::Result<Ending> {
        let mut headers = self.headers(&whole.content_type);
        headers.extend(whole.headers.iter().cloned());
        self.open.end(Ending::Answered);
        self.writer.whole(whole.status, &headers, body).await?;
        Ok(Ending::Answered)
    }

    /// Waits and collects what the acts say, for an answer in one piece.
    async fn gather<'a>(&self, acts: &'a [Act]) -> Gathered<'a> {
        let mut gathered = Gathered::default();
        for act in acts {
            match act {
                Act::Gate(name) => self.gates.pass(name).await,
                Act::Reason(text) if self.thinks() => gathered.reason(text),
                Act::Reason(_) => {}
                Act::Say(text) => gathered.say(text),
                Act::Drip { text, every } => {
                    for word in text.split_inclusive(' ') {
                        // Deadline: the script asks for a pause of this length before each word.
                        tokio::time::sleep(*every).await;
                        gathered.say(word);
                    }
                }
                Act::Call(call) => {
                    let made = self.made(call, gathered.calls, gathered.origin());
                    gathered.calls += 1;
                    gathered.pieces.push(Piece::Call(made));
                }
                Act::Raw(bytes) => gathered.raw.get_or_insert_default().extend_from_slice(bytes),
                Act::End(end) => gathered.end = Some(end),
            }
        }
        gathered
    }

    fn headers(&self, content_type: &str) -> Vec<String> {
        let request_id = self.wire.request_id_header();
        let request_id = request_id.map(|name| format!("{name}: req_{}", self.reply_id));
        [format!("content-type: {content_type}")].into_iter().chain(request_id).collect()
    }

    fn label(&self) -> Label {
        Label {
            id: self.reply_id.clone(),
            model: self.asked.conversation.model.clone(),
            manner: self.asked.manner,
            usage: self.usage,
        }
    }
}

#[derive(Default)]
struct Gathered<'a> {
    pieces: Vec<Piece>,
    calls: usize,
    /// Bytes that stand in place of the answer.
    raw: Option<Vec<u8>>,
    end: Option<&'a End>,
}

impl Gathered<'_> {
    fn say(&mut self, more: &str) {
        if let Some(Piece::Text(text)) = self.pieces.last_mut() {
            text.push_str(more);
        } else {
            self.pieces.push(Piece::Text(more.to_owned()));
        }
    }

    fn reason(&mut self, more: &str) {
        if let Some(Piece::Reasoning(text)) = self.pieces.last_mut() {
            text.push_str(more);
        } else {
            self.pieces.push(Piece::Reasoning(more.to_owned()));
        }
    }

    fn origin(&self) -> Origin {
        let reasoned = self.pieces.iter().any(|piece| matches!(piece, Piece::Reasoning(_)));
        if reasoned { Origin::Reasoned } else { Origin::Plain }
    }
}

/// Ends a reply in the middle of its body, by leaving or by falling silent.
pub(super) async fn break_off(end: &End) -> io::Result<Ending> {
    match end {
        End::Stall => std::future::pending().await,
        End::Cut => Ok(Ending::HungUp),
        End::ErrorChunk(_)
        | End::Truncate
        | End::Status(_)
        | End::Hang
        | End::HangUp
        | End::RawResponse(_) => {
            unreachable!("BUG: {end:?} does not break a body off")
        }
    }
}

fn finish(reply: &Reply) -> Finish {
    let calls = reply.acts.iter().any(|act| matches!(act, Act::Call(_)));
    reply.finish.unwrap_or(if calls { Finish::Calls } else { Finish::Stop })
}
