//! The wire format of Gemini's `generateContent`, put together from its parts.
//!
//! What is read and written is in the files beside this one.

use super::{errors, request, response, stream};
use crate::server::act::Finish;
use crate::server::fault::{ProviderError, Trouble};
use crate::server::http::Request;
use crate::server::strict::{Returned, Rules, Violation};
use crate::server::wire::{Asked, Encoder, Keys, Label, Piece, Whole, Wire};

static RULES: Rules = Rules {
    role: ".role",
    call_id: ".functionCall.id",
    arguments: ".functionCall.args",
    answers: ".functionResponse",
    reasoning: Returned::Never,
};

/// The wire format of `POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent`.
pub(in crate::server) struct Gemini;

impl Wire for Gemini {
    fn keys(&self) -> Keys {
        Keys::Required
    }

    fn key(&self, request: &Request) -> Option<String> {
        request.header("x-goog-api-key").or_else(|| request.query("key")).map(str::to_owned)
    }

    fn read(&self, request: &Request) -> Result<Asked, Violation> {
        request::read(request)
    }

    fn rules(&self) -> &'static Rules {
        &RULES
    }

    fn trouble(&self, trouble: Trouble) -> Whole {
        errors::trouble(trouble)
    }

    fn failure(&self, status: u16, error: &ProviderError) -> Whole {
        errors::failure(status, error)
    }

    fn request_id_header(&self) -> Option<&'static str> {
        None
    }

    fn stream_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn stream(&self, label: Label) -> Box<dyn Encoder> {
        Box::new(stream::Stream::new(label))
    }

    fn whole(&self, label: &Label, pieces: &[Piece], finish: Finish) -> Whole {
        Whole::new(200, response::whole(label, pieces, finish))
    }
}
