//! The wire format of OpenAI chat completions, put together from its parts.
//!
//! What is read and written is in the files beside this one.

use super::{request, response};
use crate::server::act::Finish;
use crate::server::fault::{ProviderError, Trouble};
use crate::server::http::Request;
use crate::server::openai;
use crate::server::strict::{Returned, Rules, Violation};
use crate::server::wire::{Asked, Encoder, Keys, Label, Piece, Whole, Wire};

static RULES: Rules = Rules {
    role: ".role",
    call_id: ".id",
    arguments: ".function.arguments",
    answers: ".tool_call_id",
    reasoning: Returned::Never,
};

/// The wire format of `POST /v1/chat/completions`.
pub(in crate::server) struct Chat;

impl Wire for Chat {
    fn keys(&self) -> Keys {
        Keys::Optional
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
        Box::new(response::Stream::new(label))
    }

    fn whole(&self, label: &Label, pieces: &[Piece], finish: Finish) -> Whole {
        Whole::new(200, response::whole(label, pieces, finish))
    }
}
