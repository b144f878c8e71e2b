//! Makes JSON text readable that holds half a character: a lone surrogate escape, which no parser of ours accepts and
//! which must not cost the reply (kind K24).

/// The JSON text with every lone surrogate escape replaced by the escape of the replacement character.
///
/// Everything else stays as it is, so that text which is no JSON at all passes unharmed.
pub(super) fn without_lone_surrogates(json: String) -> String {
    if !json.contains("\\u") {
        return json;
    }
    let mut clean = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some(start) = rest.find('\\') {
        let (before, escape) = rest.split_at(start);
        clean.push_str(before);
        let (kept, length) = escape_at(escape);
        clean.push_str(kept);
        rest = &escape[length..];
    }
    clean.push_str(rest);
    clean
}

/// What is kept of the escape at the start of the text, and how many bytes it takes up there.
fn escape_at(text: &str) -> (&str, usize) {
    match unit(text) {
        Some(0xD800..=0xDBFF) if matches!(text.get(6..).and_then(unit), Some(0xDC00..=0xDFFF)) => {
            (&text[..12], 12)
        }
        Some(0xD800..=0xDFFF) => ("\\ufffd", 6),
        Some(_) => (&text[..6], 6),
        // Another escape: the character after the backslash belongs to it, a second backslash above all.
        None => {
            let length = text.chars().take(2).map(char::len_utf8).sum();
            (&text[..length], length)
        }
    }
}

/// The UTF-16 unit of a `\uXXXX` escape at the start of the text.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let all_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: &str) {
        assert_eq!(without_lone_surrogates(json.to_owned()), expected);
    }

    #[test]
    fn k24_lone_surrogates_become_replacement_characters() {
        check(r#""a\ud800b""#, r#""a\ufffdb""#);
        check(r#""\udc00""#, r#""\ufffd""#);
        check(r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#);
        check(r#""\ud83d\n""#, r#""\ufffd\n""#);
    }

    #[test]
    fn whole_characters_and_other_escapes_stay() {
        for json in
            [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\u00e4 \"\\""#, r#""plain""#, r#""\u12""#, "\\", "\\ä"]
        {
            check(json, json);
        }
    }

    #[test]
    fn what_is_cleaned_can_be_parsed() {
        let json = without_lone_surrogates(r#"{"a":"x\uD800\\\uDFFF y"}"#.to_owned());
        let value: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
        assert_eq!(value["a"], "x\u{fffd}\\\u{fffd} y");
    }
}
