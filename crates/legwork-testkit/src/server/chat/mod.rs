//! OpenAI chat completions: how its requests are read and how its answers are written.
//!
//! The order of messages and the pairing of calls and results are checked in `strict`, not here.

mod request;
mod response;

use super::fault::ProviderError;
use super::http::Request;
use super::strict::Violation;
use super::wire::{Answer, Asked, Closing, Delivery, Encoder, Label, Wire};

/// The wire format of `POST /v1/chat/completions`.
pub(super) struct Chat;

impl Wire for Chat {
    fn read(&self, request: &Request) -> Result<Asked, Violation> {
        request::read(request)
    }

    fn error_body(&self, error: &ProviderError) -> String {
        response::error(error).to_string()
    }

    fn stream_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }

    fn stream(&self, label: Label, delivery: Delivery) -> Box<dyn Encoder> {
        Box::new(response::Stream::new(label, delivery))
    }

    fn whole(&self, label: &Label, answer: &Answer, closing: Closing) -> String {
        response::whole(label, answer, closing).to_string()
    }
}
