//! The bytes of an answer: read within a bound, told apart by their type, and decoded.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName};
use std::borrow::Cow;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Bytes that are read; what is behind them is not.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How often a call shows life while a body comes in.
const MOVED_EVERY: Duration = Duration::from_millis(500);
/// Bytes at the start of a page in which it may name its encoding.
const ENCODING_WITHIN: usize = 1024;
/// Bytes of a type that are repeated.
const TYPE_BYTES_MAX: usize = 100;

/// What is done with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// HTML, which becomes text.
    Page,
    /// Text, which stays as it is.
    Text,
}

/// Why there is no body.
pub(super) enum Stop {
    /// The time is up; so many bytes had come.
    Late(usize),
    /// A sentence for the model.
    Failed(String),
}

impl Stop {
    pub(super) fn words(self, late: impl Fn(usize) -> String) -> String {
        match self {
            Stop::Late(come) => late(come),
            Stop::Failed(words) => words,
        }
    }
}

/// A body as it came.
#[derive(Debug)]
pub(super) struct Body {
    bytes: Vec<u8>,
    /// Whether it went on behind the bound.
    is_cut: bool,
    /// What it says it is: in lower case, without parameters; empty when it does not say.
    media_type: String,
    charset: Option<String>,
}

impl Body {
    /// Reads it, and calls `moved` when something has come, but not more often than twice a second.
    pub(super) async fn read(mut response: Response, until: Instant, moved: impl Fn()) -> Result<Self, Stop> {
        check_coding(response.headers()).map_err(Stop::Failed)?;
        let content_type = header(response.headers(), CONTENT_TYPE);
        let mut parts = content_type.split(';');
        let media_type = clean(parts.next().unwrap_or_default());
        let charset = parts.find_map(charset_of);
        let mut body = Body { bytes: Vec::new(), is_cut: false, media_type, charset };
        let mut told: Option<Instant> = None;
        loop {
            // Deadline: the same as for the whole call; a body may trickle in for ever.
            let chunk = timeout_at(until, response.chunk()).await.map_err(|_| Stop::Late(body.len()))?;
            let broken = |error: reqwest::Error| {
                Stop::Failed(format!(
                    "the answer broke off after {} bytes: {}",
                    body.len(),
                    crate::models::root_cause(&error)
                ))
            };
            let Some(chunk) = chunk.map_err(broken)? else { return Ok(body) };
            if told.is_none_or(|told| told.elapsed() >= MOVED_EVERY) {
                told = Some(Instant::now());
                moved();
            }
            let room = BODY_BYTES_MAX - body.bytes.len();
            body.bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                body.is_cut = true;
                return Ok(body);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The type in words.
    pub(super) fn media_type(&self) -> &str {
        if self.media_type.is_empty() { "of no named type" } else { &self.media_type }
    }

    /// What is to be done with it.
    ///
    /// # Errors
    /// When it is not text; a sentence for the model.
    pub(super) fn kind(&self) -> Result<Kind, String> {
        let named = self.media_type.as_str();
        if matches!(named, "text/html" | "application/xhtml+xml") {
            return Ok(Kind::Page);
        }
        let is_text = named.starts_with("text/")
            || named.ends_with("+json")
            || named.ends_with("+xml")
            || named.ends_with("/json")
            || TEXT_TYPES.contains(&named);
        let is_untold = matches!(named, "" | "application/octet-stream");
        if is_text || is_untold && !self.bytes.contains(&0) {
            return Ok(if is_untold && self.begins_like_a_page() { Kind::Page } else { Kind::Text });
        }
        Err(format!(
            "the answer is {}, {} bytes, and only HTML and other text is read; a command can fetch it into a file",
            self.media_type(),
            self.len()
        ))
    }

    fn begins_like_a_page(&self) -> bool {
        let start = self.bytes.trim_ascii_start();
        let begins =
            |with: &[u8]| start.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
        begins(b"<!doctype html") || begins(b"<html")
    }

    /// The text. The encoding is that of its mark, its header or the page itself; else UTF-8 if it is that.
    pub(super) fn decoded(&self) -> Cow<'_, str> {
        self.encoding().decode(&self.bytes).0
    }

    fn encoding(&self) -> &'static Encoding {
        let named = |label: &str| Encoding::for_label(label.as_bytes());
        let told = self.charset.as_deref().and_then(named);
        let told = told.or_else(|| charset_within(&self.bytes).as_deref().and_then(named));
        let end = self.bytes.len();
        let is_utf_8 = match std::str::from_utf8(&self.bytes) {
            Ok(_) => true,
            // A cut may fall into a character.
            Err(error) => self.is_cut && error.valid_up_to() + 4 > end,
        };
        told.unwrap_or(if is_utf_8 { UTF_8 } else { WINDOWS_1252 })
    }

    /// What to tell about it.
    pub(super) fn notes(&self) -> Vec<String> {
        let cut = self
            .is_cut
            .then(|| format!("the answer is longer: only its first {BODY_BYTES_MAX} bytes were read"));
        cut.into_iter().collect()
    }
}

/// Types that are text although they are not named so.
const TEXT_TYPES: &[&str] = &[
    "application/xml",
    "application/javascript",
    "application/ecmascript",
    "application/x-javascript",
    "application/x-ndjson",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/x-sh",
    "application/sql",
    "application/graphql",
    "application/x-www-form-urlencoded",
];

/// None was asked for, so what is packed all the same would be read as noise.
fn check_coding(headers: &HeaderMap) -> Result<(), String> {
    let coding = header(headers, CONTENT_ENCODING);
    match coding.trim() {
        "" | "identity" => Ok(()),
        packed => {
            Err(format!("the answer is packed ({}), which was not asked for and is not read", clean(packed)))
        }
    }
}

fn header(headers: &HeaderMap, name: HeaderName) -> String {
    let value = headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    value.unwrap_or_default()
}

/// A word of a header that can be repeated without harm.
fn clean(text: &str) -> String {
    let legal = |c: &char| c.is_ascii_alphanumeric() || "/+.-_".contains(*c);
    text.trim().chars().filter(legal).take(TYPE_BYTES_MAX).collect::<String>().to_ascii_lowercase()
}

fn charset_of(parameter: &str) -> Option<String> {
    let (name, value) = parameter.split_once('=')?;
    name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']).to_owned())
}

/// The encoding that a page names in itself.
fn charset_within(bytes: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(ENCODING_WITHIN)]).to_ascii_lowercase();
    let tag = start.split("<meta").skip(1).find(|tag| tag.contains("charset"))?;
    let (_, value) = tag.split_once("charset")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = value.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:.".contains(c))).unwrap_or(value.len());
    Some(value[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(media_type: &str, charset: Option<&str>, bytes: &[u8]) -> Body {
        let charset = charset.map(str::to_owned);
        Body { bytes: bytes.to_vec(), is_cut: false, media_type: media_type.to_owned(), charset }
    }

    #[test]
    fn the_encoding_is_that_of_mark_header_page_or_bytes() {
        let check = |charset, bytes: &[u8], text: &str| {
            assert_eq!(body("text/html", charset, bytes).decoded(), text);
        };
        check(Some("iso-8859-1"), b"caf\xe9", "café");
        check(Some("no-such-thing"), "café".as_bytes(), "café");
        check(None, "café".as_bytes(), "café");
        check(None, b"caf\xe9", "café");
        check(None, b"<meta charset=\"Shift_JIS\">\x82\xa0", "<meta charset=\"Shift_JIS\">あ");
        check(
            None,
            b"<META http-equiv=x content='text/html; charset=koi8-r'>\xc1",
            "<META http-equiv=x content='text/html; charset=koi8-r'>а",
        );
        check(Some("koi8-r"), b"\xef\xbb\xbf\xc3\xa9", "é");
        check(Some("utf-16le"), b"h\0i\0", "hi");
    }

    #[test]
    fn only_text_is_taken() {
        for (named, bytes, kind) in [
            ("text/html", "x", Some(Kind::Page)),
            ("application/xhtml+xml", "x", Some(Kind::Page)),
            ("text/markdown", "x", Some(Kind::Text)),
            ("application/json", "{}", Some(Kind::Text)),
            ("application/ld+json", "{}", Some(Kind::Text)),
            ("application/rss+xml", "<rss/>", Some(Kind::Text)),
            ("", " <!DOCTYPE HTML>", Some(Kind::Page)),
            ("", "x", Some(Kind::Text)),
            ("", "x\0", None),
            ("application/octet-stream", "x", Some(Kind::Text)),
            ("application/pdf", "%PDF", None),
            ("image/png", "x", None),
        ] {
            assert_eq!(body(named, None, bytes.as_bytes()).kind().ok(), kind, "{named}");
        }
    }
}
