//! The wire format of OpenAI Responses, put together from its parts.
//!
//! What is read and written is in the files beside this one.

use super::{request, response, stream};
use crate::server::act::Finish;
use crate::server::fault::{ProviderError, Trouble};
use crate::server::http::Request;
use crate::server::openai;
use crate::server::strict::{Returned, Rules, Violation};
use crate::server::wire::{Asked, Encoder, Keys, Label, Piece, Whole, Wire};

static RULES: Rules = Rules {
    role: ".role",
    call_id: ".call_id",
    arguments: ".arguments",
    answers: ".call_id",
    reasoning: Returned::Always,
};

/// The wire format of `POST /v1/responses`.
pub(in crate::server) struct Responses;

impl Wire for Responses {
    fn keys(&self) -> Keys {
        Keys::Required
    }

    fn read(&self, request: &Request) -> Result<Asked, Violation> {
        request::read(request)
    }

    fn rules(&self) -> &'static Rules {
        &RULES
    }

    fn trouble(&self, trouble: Trouble) -> Whole {
        openai::trouble(trouble)
    }

    fn failure(&self, status: u16, error: &ProviderError) -> Whole {
        openai::failure(status, error)
    }

    fn request_id_header(&self) -> Option<&'static str> {
        Some(openai::REQUEST_ID)
    }

    fn stream_type(&self) -> &'static str {
        openai::STREAM_TYPE
    }

    fn stream(&self, label: Label) -> Box<dyn Encoder> {
        Box::new(stream::Stream::new(label))
    }

    fn whole(&self, label: &Label, pieces: &[Piece], finish: Finish) -> Whole {
        Whole::new(200, response::whole(label, pieces, finish))
    }
}
