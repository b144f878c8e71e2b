//! Masks what looks like a credential in text that is about to be written down or shown.
//!
//! It knows the shapes of common credentials and of assignments to names that speak of secrets. It cannot know a password
//! that looks like a word, and it is no substitute for keeping secrets out of the text.

use regex::{Captures, Regex};
use std::borrow::Cow;
use std::sync::LazyLock;

/// What stands in the place of a credential.
const MASK: &str = "[masked]";

/// Shapes that are credentials wherever they stand, and assignments whose name says so: there only the value is masked.
static CREDENTIAL: LazyLock<Regex> = LazyLock::new(|| {
    let shapes = [
        // Keys of model providers and code hosts, by their prefixes.
        r"\b(?:sk|rk|pk)-[A-Za-z0-9_-]{16,}",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}",
        r"\bglpat-[A-Za-z0-9_-]{16,}",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"\bA(?:KIA|SIA)[A-Z0-9]{16}\b",
        r"\bhf_[A-Za-z0-9]{20,}",
        // A signed token: three base64 parts, the first of which begins like a JSON object.
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    ];
    let named = r#"(?P<name>(?i:bearer\s+|basic\s+|(?:[A-Za-z0-9_-]*(?:api[_-]?key|secret|password|passwd|token|access[_-]?key|private[_-]?key))["']?\s*[:=]\s*["']?))(?P<value>[^\s"',;&]{8,})"#;
    let in_url = r"(?P<scheme>\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)(?P<pass>[^\s/@]+)@";
    let all = format!("{}|{named}|{in_url}", shapes.join("|"));
    Regex::new(&all).expect("BUG: the pattern is constant and right")
});

/// The text with everything that looks like a credential masked.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    if !is_suspicious(text) {
        return Cow::Borrowed(text);
    }
    CREDENTIAL.replace_all(text, |found: &Captures<'_>| {
        if let Some(name) = found.name("name") {
            format!("{}{MASK}", name.as_str())
        } else if let Some(scheme) = found.name("scheme") {
            format!("{}{MASK}@", scheme.as_str())
        } else {
            MASK.to_owned()
        }
    })
}

/// A cheap look that most texts do not get past.
fn is_suspicious(text: &str) -> bool {
    const SIGNS: [&str; 21] = [
        "sk-", "rk-", "pk-", "gh", "glpat", "xox", "AIza", "AKIA", "ASIA", "hf_", "eyJ", "PRIVATE", "earer",
        "asic ", "ey", "EY", "ecret", "ECRET", "oken", "OKEN", "://",
    ];
    const MORE: [&str; 4] = ["assw", "ASSW", "EARER", "BASIC"];
    SIGNS.iter().chain(&MORE).any(|sign| text.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_07_credentials_are_masked_and_the_rest_is_kept() {
        let table = [
            ("use sk-abcdefghijklmnop1234 now", "use [masked] now"),
            ("Authorization: Bearer abcdef1234567890", "Authorization: Bearer [masked]"),
            ("OPENAI_API_KEY=abcdefgh12345678 cargo run", "OPENAI_API_KEY=[masked] cargo run"),
            ("{\"password\": \"hunter2hunter2\"}", "{\"password\": \"[masked]\"}"),
            ("postgres://me:s3cretpass@host/db", "postgres://me:[masked]@host/db"),
            ("AKIAABCDEFGHIJKLMNOP", "[masked]"),
            ("ghp_abcdefghijklmnopqrstuvwx", "[masked]"),
            ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- after", "[masked] after"),
        ];
        for (text, masked) in table {
            assert_eq!(redact(text), masked);
        }
    }

    #[test]
    fn ordinary_text_is_not_touched() {
        for text in ["the key question is what a token is", "see https://example.org/a:b", "max_tokens = 12"]
        {
            assert_eq!(redact(text), text);
        }
    }
}
