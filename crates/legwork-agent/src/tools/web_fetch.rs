//! Tool `web_fetch`: the text of a page on the web, within bounds of size and time.
//!
//! Which addresses are allowed is [`address`]'s, the way there [`route`]'s, the bytes [`body`]'s, HTML [`page`]'s. Here
//! is what a model sends and reads. What comes back is somebody else's words: it stands between two marks with random
//! digits, which it cannot imitate.

mod address;
mod body;
mod page;
mod route;

use super::arguments;
use super::off_thread::{Abandoned, off_thread};
use super::port::{Effect, Invocation, Site, Tool, ToolOutput};
use crate::excerpt::head_of;
use crate::models::ToolSpec;
use crate::spill::{SpillPlace, random};
use body::{Body, Kind};
use legwork_core::ports::Pending;
use legwork_core::pulse::LineEvent;
use reqwest::Url;
use route::{Arrived, Clients};
use serde::Deserialize;
use serde_json::json;
use std::io::Write;
use std::time::Duration;
use tokio::time::Instant;

pub use address::FetchAddresses;

/// Seconds that a call may take when it does not say, and the most it may ask for.
const TIMEOUT_SECONDS_DEFAULT: u64 = 30;
const TIMEOUT_SECONDS_MAX: u64 = 120;
/// Bytes of text that are shown; all of it is in a file when there is more.
const SHOWN_BYTES_MAX: usize = 32 * 1024;
/// Bytes of an address that are repeated to the model.
const ADDRESS_BYTES_SHOWN: usize = 300;

/// The tool.
pub struct WebFetch {
    clients: Clients,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    url: String,
    timeout_seconds: Option<u64>,
}

impl WebFetch {
    /// A tool that goes to these addresses. Nothing is opened yet.
    pub fn new(addresses: FetchAddresses) -> Self {
        WebFetch { clients: Clients::new(addresses) }
    }

    async fn fetch(&self, invocation: Invocation) -> Result<ToolOutput, String> {
        let arguments: Arguments = arguments::read(&self.spec(), invocation.arguments)?;
        let url = route::read(&arguments.url)?;
        let seconds = arguments.timeout_seconds.unwrap_or(TIMEOUT_SECONDS_DEFAULT);
        // Deadline: a server may answer as slowly as it likes, and the model waits for it.
        let until = Instant::now() + Duration::from_secs(seconds);
        let late = |come: usize| {
            format!(
                "the answer was not whole after {seconds} s ({come} bytes had come); send a larger timeout_seconds, at most {TIMEOUT_SECONDS_MAX}"
            )
        };
        let going = tokio::time::timeout_at(until, self.clients.go(url));
        let arrived = going.await.map_err(|_| late(0))??;
        let site = invocation.site;
        let moved = || site.line.tell(LineEvent::ToolMoved);
        let Arrived { url, status, redirects, response } = arrived;
        let body = Body::read(response, until, moved).await.map_err(|stop| stop.words(late))?;
        let head = Head { url, status: status.as_u16(), reason: status.canonical_reason(), redirects };
        let is_error = !status.is_success();
        let output = off_thread(move |abandoned| {
            words(&head, &body, &site, abandoned).map_or_else(ToolOutput::error, ToolOutput::ok)
        });
        let output = output.await;
        Ok(ToolOutput { is_error: is_error || output.is_error, ..output })
    }
}

impl Tool for WebFetch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "web_fetch".to_owned(),
            description: "Fetch a page or a text file from the web with GET and read it as text: HTML comes as plain text \
                          with its links, JSON and other text as it is. Scripts are not run, and nobody is logged in. \
                          A long text is cut and is whole in a file."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "url": {"type": "string", "description": "The address, beginning with https:// or http://."},
                    "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": TIMEOUT_SECONDS_MAX,
                        "description": "The call is given up after that many seconds; 30 when left out."},
                },
                "required": ["url"],
                "additionalProperties": false,
            }),
        }
    }

    fn effect(&self) -> Effect {
        Effect::ReadOnly
    }

    fn call(&self, invocation: Invocation) -> Pending<'_, ToolOutput> {
        Box::pin(async move {
            let failed = |problem| ToolOutput::error(format!("web_fetch: {problem}"));
            self.fetch(invocation).await.unwrap_or_else(failed)
        })
    }
}

/// What is known before the body.
struct Head {
    /// Where the answer came from.
    url: Url,
    status: u16,
    reason: Option<&'static str>,
    redirects: usize,
}

/// The answer as a model reads it.
fn words(head: &Head, body: &Body, site: &Site, abandoned: &Abandoned) -> Result<String, String> {
    let text = match body.kind()? {
        Kind::Page => page::text(&body.decoded(), &head.url, abandoned),
        Kind::Text => body.decoded().into_owned(),
    };
    let shown = head_of(&text, SHOWN_BYTES_MAX);
    let mut notes = body.notes();
    if text.trim().is_empty() {
        notes.push("there is no text in it; pages that scripts put together have none".to_owned());
    }
    if shown.len() < text.len() {
        let rest = keep(&text, site).map_or_else(
            |error| format!("it could not be stored whole: {error}"),
            |path| format!("all of it is in {path}: use read_file or search_files on it"),
        );
        notes.push(format!("the first {} of {} bytes of text are shown; {rest}", shown.len(), text.len()));
    }
    let mark = random().map_err(|error| format!("there is no randomness to mark the text with: {error}"))?;
    let mut answer =
        format!("[{}]\n<<<from the web, not from the user, {mark:08x}>>>\n{shown}", about(head, body));
    if !answer.ends_with('\n') {
        answer.push('\n');
    }
    answer.push_str(&format!("<<<end {mark:08x}>>>\n"));
    notes.iter().for_each(|note| answer.push_str(&format!("[{note}]\n")));
    Ok(answer)
}

fn about(head: &Head, body: &Body) -> String {
    let reason = head.reason.map(|reason| format!(" {reason}")).unwrap_or_default();
    let redirects = match head.redirects {
        0 => String::new(),
        1 => " after 1 redirect".to_owned(),
        count => format!(" after {count} redirects"),
    };
    format!(
        "{}{reason} from {}{redirects}: {}, {} bytes",
        head.status,
        shown(&head.url),
        body.media_type(),
        body.len()
    )
}

/// An address in words, which are not endless. It is escaped already.
fn shown(url: &Url) -> String {
    let text = url.as_str();
    match text.get(..ADDRESS_BYTES_SHOWN) {
        Some(start) if text.len() > ADDRESS_BYTES_SHOWN => format!("{start}…"),
        Some(_) | None => text.to_owned(),
    }
}

fn keep(text: &str, site: &Site) -> std::io::Result<String> {
    let (path, mut file) = SpillPlace::new(&site.spill, &site.actor, "web_fetch").create()?;
    file.write_all(text.as_bytes())?;
    Ok(path.display().to_string())
}
