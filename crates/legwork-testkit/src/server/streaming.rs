//! Performs a reply as a stream, act by act, whose headers are sent already.
//!
//! Each event is a chunk of its own, so that a client sees it as soon as it is made.

use std::io;

use super::act::{Act, Call, Finish};
use super::fault::End;
use super::log::Ending;
use super::memory::Origin;
use super::play::{Stage, break_off};
use super::wire::{Delta, Encoder};

/// A text or the arguments of a call come in at most this many pieces, and in at least two where they have two letters.
const PIECES_MAX: usize = 4;

/// A stream whose headers are sent.
pub(super) struct Streaming<'a, 'b> {
    stage: &'a mut Stage<'b>,
    encoder: Box<dyn Encoder>,
    calls: usize,
    /// What the next call is made with.
    origin: Origin,
}

impl<'a, 'b> Streaming<'a, 'b> {
    pub(super) fn new(stage: &'a mut Stage<'b>, encoder: Box<dyn Encoder>) -> Self {
        Self { stage, encoder, calls: 0, origin: Origin::Plain }
    }

    pub(super) async fn play(mut self, acts: &[Act], finish: Finish) -> io::Result<Ending> {
        for act in acts {
            if let Act::End(end) = act {
                return self.end(end).await;
            }
            self.perform(act).await?;
        }
        let events = self.encoder.close(finish);
        self.last(&events).await
    }

    async fn perform(&mut self, act: &Act) -> io::Result<()> {
        match act {
            Act::Gate(name) => self.stage.gates.pass(name).await,
            Act::Reason(text) if self.stage.thinks() => {
                self.origin = Origin::Reasoned;
                for piece in pieces(text) {
                    self.send(Delta::Reasoning(piece)).await?;
                }
            }
            Act::Reason(_) => {}
            Act::Say(text) => {
                for piece in pieces(text) {
                    self.send(Delta::Text(piece)).await?;
                }
            }
            Act::Drip { text, every } => {
                for word in text.split_inclusive(' ') {
                    // Deadline: the script asks for a pause of this length before each word.
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
        let made = self.stage.made(call, index, self.origin);
        self.send(Delta::Call { index, id: &made.id, name: &made.name }).await?;
        for fragment in pieces(&made.arguments) {
            self.send(Delta::Arguments { index, fragment }).await?;
        }
        Ok(())
    }

    async fn end(mut self, end: &End) -> io::Result<Ending> {
        match end {
            End::ErrorChunk(error) => {
                let events = self.encoder.error(error);
                self.last(&events).await
            }
            End::Truncate => self.last(&[]).await,
            End::Cut | End::Stall | End::Status(_) | End::Hang | End::HangUp | End::RawResponse(_) => {
                break_off(end).await
            }
        }
    }

    async fn last(&mut self, events: &[String]) -> io::Result<Ending> {
        self.stage.open.end(Ending::Answered);
        self.stage.writer.last_chunks(events).await?;
        Ok(Ending::Answered)
    }

    async fn send(&mut self, delta: Delta<'_>) -> io::Result<()> {
        for event in self.encoder.delta(delta) {
            self.stage.writer.chunk(event.as_bytes()).await?;
        }
        Ok(())
    }
}

/// Cuts a text between letters into pieces of about the same length.
fn pieces(text: &str) -> Vec<&str> {
    let length = text.chars().count().div_ceil(PIECES_MAX).max(1);
    let mut starts: Vec<usize> = text.char_indices().step_by(length).map(|(start, _)| start).collect();
    starts.push(text.len());
    starts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}
