//! Masks what looks like a credential in text that is about to be written down or shown.
//!
//! It knows the shapes of common credentials and of assignments to names that speak of secrets. It cannot know a
//! password that looks like a word, and it is no substitute for keeping secrets out of the text.

use std::borrow::Cow;
use std::ops::Range;

/// What stands in the place of a credential.
const MASK: &str = "[masked]";

/// Beginnings of keys that their makers have given them, and how many characters at least must follow.
const PREFIXES: &[(&str, usize)] = &[
    ("sk-", 16),
    ("sk_", 16),
    ("pk_", 16),
    ("rk_", 16),
    ("xai-", 16),
    ("gsk_", 16),
    ("hf_", 16),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghu_", 16),
    ("ghs_", 16),
    ("ghr_", 16),
    ("github_pat_", 16),
    ("glpat-", 16),
    ("npm_", 30),
    ("pypi-", 30),
    ("dop_v1_", 30),
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxe-", 10),
    ("xoxp-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("AIza", 30),
    ("AKIA", 16),
    ("ASIA", 16),
];

/// Ends of names whose values are secrets, in lower case and with `_` for `-`.
const SECRET_NAMES: &[&str] = &[
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "secret_key",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    "credential",
    "credentials",
    "authorization",
];

/// Values that tell nothing, however their name sounds.
const HARMLESS: &[&str] = &["null", "none", "true", "false", "undefined"];

/// The longest name that is looked at; what is longer is data.
const NAME_BYTES_MAX: usize = 100;

/// The text with everything that looks like a credential masked. Most texts hold none and are not copied.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut masked = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(word) = next_word(text, at) {
        at = word.end;
        let Some(secret) = secret_at(text, &word) else { continue };
        masked.push_str(&text[copied..secret.start]);
        masked.push_str(MASK);
        copied = secret.end;
        at = secret.end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    masked.push_str(&text[copied..]);
    Cow::Owned(masked)
}

/// The next run of letters, digits, `_` and `-`.
fn next_word(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = &text.as_bytes()[from..];
    let start = bytes.iter().position(|byte| is_word(*byte))?;
    Some(from + start..from + start + run(&bytes[start..], is_word))
}

/// The secret that begins at or after a word and belongs to it.
fn secret_at(text: &str, word: &Range<usize>) -> Option<Range<usize>> {
    let (name, rest) = (&text[word.clone()], &text[word.end..]);
    let behind = |range: Range<usize>| word.end + range.start..word.end + range.end;
    if has_known_prefix(name) {
        return Some(word.clone());
    }
    if name.starts_with("eyJ")
        && let Some(length) = signed_token(rest)
    {
        return Some(word.start..word.end + length);
    }
    if name.starts_with("-----BEGIN") {
        return key_block(rest).map(|length| word.start..word.end + length);
    }
    if let Some(address) = rest.strip_prefix("://") {
        return password_in(address).map(|range| behind(range.start + 3..range.end + 3));
    }
    if name.eq_ignore_ascii_case("bearer") || name.eq_ignore_ascii_case("basic") {
        return proof(rest).map(behind);
    }
    if is_secret_name(name) { assigned(name, rest).map(behind) } else { None }
}

fn has_known_prefix(word: &str) -> bool {
    PREFIXES.iter().any(|(prefix, behind_min)| {
        word.strip_prefix(prefix).is_some_and(|behind| behind.len() >= *behind_min)
    })
}

/// The rest of a token of three parts that are joined by dots, as its length.
fn signed_token(rest: &str) -> Option<usize> {
    let payload = run(rest.strip_prefix('.')?.as_bytes(), is_word);
    let signature = run(rest[1 + payload..].strip_prefix('.')?.as_bytes(), is_word);
    (payload >= 8).then_some(payload + signature + 2)
}

/// The rest of a private key in armour, up to its end or that of the text.
fn key_block(rest: &str) -> Option<usize> {
    let (head, body) = rest.split_once("-----")?;
    if !head.ends_with("PRIVATE KEY") || head.contains('\n') {
        return None;
    }
    let begin = rest.len() - body.len();
    let Some(end) = body.find("-----END") else { return Some(rest.len()) };
    let closing = body[end + "-----END".len()..].find("-----");
    Some(closing.map_or(rest.len(), |closing| begin + end + "-----END".len() + closing + "-----".len()))
}

/// The password in `user:password@host`.
fn password_in(address: &str) -> Option<Range<usize>> {
    let authority = run(address.as_bytes(), |byte| {
        !byte.is_ascii_whitespace() && !matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>')
    });
    let at = address[..authority].rfind('@')?;
    let colon = address[..at].find(':')?;
    (colon + 1 < at).then_some(colon + 1..at)
}

/// What follows `Bearer` or `Basic`, unless it is a word.
fn proof(rest: &str) -> Option<Range<usize>> {
    let gap = run(rest.as_bytes(), |byte| byte == b' ');
    let length = run(&rest.as_bytes()[gap..], |byte| is_word(byte) || b".~+/=".contains(&byte));
    let value = &rest[gap..gap + length];
    let is_word = value.len() < 20 && !value.bytes().any(|byte| byte.is_ascii_digit());
    (gap > 0 && value.len() >= 8 && !is_word).then_some(gap..gap + length)
}

fn is_secret_name(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    if name.len() > NAME_BYTES_MAX {
        return false;
    }
    SECRET_NAMES.iter().any(|secret| {
        let Some(start) = name.len().checked_sub(secret.len()) else { return false };
        let matches = |(a, b): (u8, u8)| a.to_ascii_lowercase() == b || (a == b'-' && b == b'_');
        name.bytes().skip(start).zip(secret.bytes()).all(matches)
    })
}

/// The value that is assigned to a secret name: after `:` or `=`, or after a blank when the name is an option.
fn assigned(name: &str, rest: &str) -> Option<Range<usize>> {
    let bytes = rest.as_bytes();
    let mut at = run(bytes, |byte| matches!(byte, b'"' | b'\'' | b'`' | b'\\'));
    let blanks = run(&bytes[at..], |byte| byte == b' ' || byte == b'\t');
    let signs = run(&bytes[at + blanks..], |byte| matches!(byte, b':' | b'=' | b'>'));
    if signs == 0 && !(name.starts_with("--") && at == 0 && blanks > 0) {
        return None;
    }
    at += blanks + signs;
    at += run(&bytes[at..], |byte| byte == b' ' || byte == b'\t');
    let quotes = run(&bytes[at..], |byte| matches!(byte, b'"' | b'\'' | b'`' | b'\\'));
    let quote = if quotes > 0 { Some(bytes[at + quotes - 1]) } else { None };
    let start = at + quotes;
    let value = value(&rest[start..], quote);
    let tells = value.len() >= 4
        && !value.starts_with(['$', '<', '-', '['])
        && !HARMLESS.iter().any(|word| value.eq_ignore_ascii_case(word));
    // A header's scheme is not the secret; what follows it is.
    let is_scheme = value.eq_ignore_ascii_case("bearer") || value.eq_ignore_ascii_case("basic");
    (tells && !is_scheme).then_some(start..start + value.len())
}

/// The value itself: up to its closing quote, or up to what ends a bare word.
fn value(rest: &str, quote: Option<u8>) -> &str {
    let bare = |byte: u8| !byte.is_ascii_whitespace() && !b"\"'`\\,;&)}]".contains(&byte);
    let length = match quote {
        Some(quote) => run(rest.as_bytes(), |byte| byte != quote && byte != b'\n' && byte != b'\\'),
        None => run(rest.as_bytes(), bare),
    };
    let value = &rest[..length];
    let (scheme, behind) = value.split_once(' ').unwrap_or((value, ""));
    let has_scheme = scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("basic");
    if has_scheme && !behind.is_empty() { scheme } else { value }
}

fn run(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !belongs(*byte)).unwrap_or(bytes.len())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_07_credentials_are_masked_and_the_rest_is_kept() {
        let table = [
            ("use sk-abcdefghijklmnop1234 now", "use [masked] now"),
            ("Authorization: Bearer abcdef1234567890", "Authorization: Bearer [masked]"),
            ("-H \"Authorization: Bearer abcdef1234567890\" x", "-H \"Authorization: Bearer [masked]\" x"),
            ("authorization: basic dXNlcjpwYXNzd29yZDE=", "authorization: basic [masked]"),
            ("OPENAI_API_KEY=abcdefgh12345678 cargo run", "OPENAI_API_KEY=[masked] cargo run"),
            ("{\"password\": \"hunter2 and more\", \"a\": 1}", "{\"password\": \"[masked]\", \"a\": 1}"),
            (r#"{\"password\": \"hunter2\", \"a\": 1}"#, r#"{\"password\": \"[masked]\", \"a\": 1}"#),
            ("login --password hunter2 --user me", "login --password [masked] --user me"),
            ("x-api-key: abcd-efgh\nnext", "x-api-key: [masked]\nnext"),
            ("postgres://me:s3cretpass@host/db", "postgres://me:[masked]@host/db"),
            ("AKIAABCDEFGHIJKLMNOP", "[masked]"),
            ("ghp_abcdefghijklmnopqrstuvwx", "[masked]"),
            ("(eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2lnbmF0dXJl)", "([masked])"),
            ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- after", "[masked] after"),
            ("-----BEGIN PRIVATE KEY-----\nabc and no end", "[masked]"),
            ("ü token='ä€😀x' ü", "ü token='[masked]' ü"),
        ];
        for (text, masked) in table {
            assert_eq!(redact(text), masked);
        }
    }

    #[test]
    fn ordinary_text_is_not_touched() {
        for text in [
            "the key question is what a token is",
            "see https://example.org/a:b@c and http://h:80/",
            "max_tokens = 123456, input_tokens: 1234",
            "task-1234567890123456789 and disk-abcdefghijklmnopqrstuv",
            "password: <your password>, token=$TOKEN, secret: null",
            "bearer authentication is basic knowledge",
            "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
            "Authorization: Bearer",
            "",
            "token=",
        ] {
            assert!(matches!(redact(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn inv_22_no_cut_is_inside_a_character() {
        let text = "token: 'ü' password=ääää ://ö:ü@ü eyJ.ü.ü -----BEGIN ü PRIVATE KEY----- ü";
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            assert!(redact(&text[..end]).len() < 200);
        }
    }
}
