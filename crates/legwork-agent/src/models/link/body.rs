//! The body of an answer: its chunks read within the limits of time and size, split into frames.

use super::{Fault, Way, in_library};
use crate::models::frames::Frames;
use reqwest::Response;
use rig_core::error::ProviderError;
use rig_core::http_client::framing::{Framing, WireFrame};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long the end of the body may take to come after the last event. A connection whose body was read to its end is
/// used again; the wait is spent only where the provider keeps it open.
const LINGER: Duration = Duration::from_millis(50);

pub(super) type Frame = Result<WireFrame, ProviderError>;

/// The body of an answer while it is read.
pub(super) struct Reading {
    /// Nothing once its end or an error has come.
    response: Option<Response>,
    way: Arc<Way>,
    frames: Frames,
    ready: VecDeque<String>,
    bytes: usize,
}

impl Reading {
    pub fn new(response: Response, way: Arc<Way>, framing: Framing) -> Self {
        let frames = match framing {
            Framing::Sse => Frames::events(),
            Framing::Ndjson | Framing::Whole => Frames::lines(),
        };
        let ready = VecDeque::new();
        Reading { response: Some(response), way, frames, ready, bytes: 0 }
    }

    /// The next frame; none at the end of the body.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                if self.way.protocol.is_last(&data) {
                    self.linger().await;
                }
                return Some(Ok(WireFrame::Text(data)));
            }
            match self.read(self.way.idle_max).await {
                Ok(true) => {}
                Ok(false) => self.ready.push_back(self.frames.rest()?),
                Err(fault) => return Some(Err(in_library(fault))),
            }
        }
    }

    /// Reads the next chunk; false at the end of the body. After an error there is nothing more.
    async fn read(&mut self, patience: Duration) -> Result<bool, Fault> {
        let Some(response) = &mut self.response else { return Ok(false) };
        let result = match timeout(patience, response.chunk()).await {
            Ok(Ok(Some(chunk))) => self.take(&chunk),
            Ok(Ok(None)) => Ok(false),
            Ok(Err(error)) => Err(self.way.cut_off(&error)),
            Err(_) => Err(self.way.silent()),
        };
        if !matches!(result, Ok(true)) {
            self.response = None;
        }
        result
    }

    fn take(&mut self, chunk: &[u8]) -> Result<bool, Fault> {
        let limit = self.way.reply_max_bytes;
        self.bytes = self.bytes.saturating_add(chunk.len());
        if self.bytes > limit {
            return Err(Fault::TooLarge { limit });
        }
        let mut out = Vec::new();
        self.frames.read(chunk, &mut out);
        self.ready.extend(out.into_iter().filter(|data| !data.trim().is_empty()));
        Ok(true)
    }

    /// Waits a moment for the end of the body, so that the connection can be used again. What else comes, and how it
    /// ends, no longer matters: the reply is whole.
    async fn linger(&mut self) {
        let drained = async { while matches!(self.read(LINGER).await, Ok(true)) {} };
        if timeout(LINGER, drained).await.is_err() {
            self.response = None;
        }
    }
}
