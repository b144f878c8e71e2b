//! Performs a reply on an open connection: gates first, then a fault in place of an answer, a stream, or a whole answer.
//!
//! It knows neither how the reply was chosen nor how a wire format writes it.

use std::io;

use super::act::{Act, Call, Finish};
use super::fault::{End, ErrorBody, Status};
use super::gate::Gates;
use super::http::{Writer, with_length};
use super::log::{Ending, InFlight};
use super::reply::Reply;
use super::wire::{Answer, Asked, Closing, Delivery, Delta, Encoder, Label, MadeCall, Wire};

/// A text or the arguments of a call come in at most this many pieces, and in at least two where they have two letters.
const PIECES_MAX: usize = 4;

/// Where a reply is performed.
pub(super) struct Stage<'a> {
    pub writer: &'a mut Writer,
    pub gates: &'a Gates,
    pub wire: &'static dyn Wire,
    pub asked: &'a Asked,
    /// Unique among the replies of this server.
    pub reply_id: String,
    pub open: &'a mut InFlight,
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
        let closing = Closing { finish: finish(reply), usage: reply.usage };
        match self.asked.delivery {
            Delivery::Whole => self.whole(acts, closing).await,
            Delivery::Stream | Delivery::StreamWithUsage => self.stream(acts, closing).await,
        }
    }

    async fn instead(&mut self, end: &End) -> io::Result<Ending> {
        match end {
            End::Status(status) => self.status(status).await,
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

    async fn status(&mut self, status: &Status) -> io::Result<Ending> {
        let (content_type, body) = match &status.body {
            ErrorBody::Provider(error) => ("application/json", self.wire.error_body(error)),
            ErrorBody::Page { content_type, text } => (content_type.as_str(), text.clone()),
        };
        let mut headers = self.headers(content_type);
        headers.extend(status.retry_after.iter().map(|value| format!("retry-after: {value}")));
        self.last(status.code, &headers, body.as_bytes()).await
    }

    async fn stream(&mut self, acts: &[Act], closing: Closing) -> io::Result<Ending> {
        let mut headers = self.headers(self.wire.stream_type());
        headers.extend(["cache-control: no-cache".to_owned(), "transfer-encoding: chunked".to_owned()]);
        self.writer.head(200, &headers).await?;
        let encoder = self.wire.stream(self.label(), self.asked.delivery);
        let mut stream = Streaming { stage: self, encoder, calls: 0 };
        for act in acts {
            if let Act::End(end) = act {
                return stream.end(end).await;
            }
            stream.perform(act).await?;
        }
        let events = stream.encoder.close(closing);
        stream.last(&events).await
    }

    async fn whole(&mut self, acts: &[Act], closing: Closing) -> io::Result<Ending> {
        let gathered = self.gather(acts).await;
        let body = gathered
            .raw
            .unwrap_or_else(|| self.wire.whole(&self.label(), &gathered.answer, closing).into_bytes());
        let headers = self.headers("application/json");
        let half = if acts.len() > 1 { &body[..body.len() / 2] } else { &[] };
        match gathered.end {
            None => self.last(200, &headers, &body).await,
            Some(End::ErrorChunk(error)) => {
                let body = self.wire.error_body(error);
                self.last(200, &headers, body.as_bytes()).await
            }
            Some(End::Truncate) => self.last(200, &headers, half).await,
            Some(end) => {
                self.writer.head(200, &with_length(&headers, body.len())).await?;
                self.writer.send(half).await?;
                break_off(end).await
            }
        }
    }

    async fn last(&mut self, status: u16, headers: &[String], body: &[u8]) -> io::Result<Ending> {
        self.open.end(Ending::Answered);
        self.writer.whole(status, headers, body).await?;
        Ok(Ending::Answered)
    }

    /// Waits and collects what the acts say, for an answer in one piece.
    async fn gather<'a>(&self, acts: &'a [Act]) -> Gathered<'a> {
        let mut gathered = Gathered::default();
        for act in acts {
            match act {
                Act::Gate(name) => self.gates.pass(name).await,
                Act::Reason(text) => gathered.answer.reasoning.push_str(text),
                Act::Say(text) => gathered.answer.text.push_str(text),
                Act::Drip { text, every } => {
                    for word in text.split_inclusive(' ') {
                        tokio::time::sleep(*every).await;
                        gathered.answer.text.push_str(word);
                    }
                }
                Act::Call(call) => gathered.answer.calls.push(self.made(call, gathered.answer.calls.len())),
                Act::Raw(bytes) => gathered.raw.get_or_insert_default().extend_from_slice(bytes),
                Act::End(end) => gathered.end = Some(end),
            }
        }
        gathered
    }

    fn headers(&self, content_type: &str) -> Vec<String> {
        vec![format!("content-type: {content_type}"), format!("x-request-id: req-{}", self.reply_id)]
    }

    fn label(&self) -> Label {
        Label { id: self.reply_id.clone(), model: self.asked.conversation.model.clone() }
    }

    fn made(&self, call: &Call, index: usize) -> MadeCall {
        let id = call.id.clone().unwrap_or_else(|| format!("call_{}_{index}", self.reply_id));
        MadeCall { id, name: call.name.clone(), arguments: call.arguments.clone() }
    }
}

#[derive(Default)]
struct Gathered<'a> {
    answer: Answer,
    /// Bytes that stand in place of the answer.
    raw: Option<Vec<u8>>,
    end: Option<&'a End>,
}

/// A stream whose headers are sent.
struct Streaming<'a, 'b> {
    stage: &'a mut Stage<'b>,
    encoder: Box<dyn Encoder>,
    calls: usize,
}

impl Streaming<'_, '_> {
    async fn perform(&mut self, act: &Act) -> io::Result<()> {
        match act {
            Act::Gate(name) => self.stage.gates.pass(name).await,
            Act::Reason(text) => {
                for piece in pieces(text) {
                    self.send(Delta::Reasoning(piece)).await?;
                }
            }
            Act::Say(text) => {
                for piece in pieces(text) {
                    self.send(Delta::Text(piece)).await?;
                }
            }
            Act::Drip { text, every } => {
                for word in text.split_inclusive(' ') {
                    tokio::time::sleep(*every).await;
                    self.send(Delta::Text(word)).await?;
                }
            }
            Act::Call(call) => self.call(call).await?,
            Act::Raw(bytes) => self.stage.writer.chunk(bytes).await?,
            Act::End(end) => unreachable!("BUG: {end:?} is no act of a running stream"),
        }
        Ok(())
    }

    async fn call(&mut self, call: &Call) -> io::Result<()> {
        let index = self.calls;
        self.calls += 1;
        let made = self.stage.made(call, index);
        self.send(Delta::Call { index, id: &made.id, name: &made.name }).await?;
        for fragment in pieces(&made.arguments) {
            self.send(Delta::Arguments { index, fragment }).await?;
        }
        Ok(())
    }

    async fn end(mut self, end: &End) -> io::Result<Ending> {
        match end {
            End::ErrorChunk(error) => {
                let event = self.encoder.error(error);
                self.last(&[event]).await
            }
            End::Truncate => self.last(&[]).await,
            _ => break_off(end).await,
        }
    }

    async fn last(&mut self, events: &[String]) -> io::Result<Ending> {
        self.stage.open.end(Ending::Answered);
        self.stage.writer.last_chunks(events).await?;
        Ok(Ending::Answered)
    }

    async fn send(&mut self, delta: Delta<'_>) -> io::Result<()> {
        let event = self.encoder.delta(delta);
        self.stage.writer.chunk(event.as_bytes()).await
    }
}

/// Ends a reply in the middle of its body, by leaving or by falling silent.
async fn break_off(end: &End) -> io::Result<Ending> {
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

/// Cuts a text between letters into pieces of about the same length.
fn pieces(text: &str) -> Vec<&str> {
    let length = text.chars().count().div_ceil(PIECES_MAX).max(1);
    let mut starts: Vec<usize> = text.char_indices().step_by(length).map(|(start, _)| start).collect();
    starts.push(text.len());
    starts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}
