//! Seals: the opaque texts with which a provider knows its own reasoning again when it comes back.
//!
//! A seal follows from what it seals, so it holds between servers and keeps no secret. It is legal base64, as the
//! providers' own are.

/// What every seal begins with, so that a wrong field in its place is seen for what it is.
const HEAD: &str = "EqRL";

/// The seal of this text.
pub(super) fn seal(text: &str) -> String {
    format!("{HEAD}{:016x}", hash(text.as_bytes()))
}

/// A seal that carries its own name, for what has no text to be checked against.
pub(super) fn named(name: &str) -> String {
    let hex: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    let padding = "=".repeat((4 - hex.len() % 4) % 4);
    format!("{}{hex}{padding}", seal(name))
}

/// Whether this is a seal that `named` made, for any name.
pub(super) fn is_named(text: &str) -> bool {
    let Some(name) = text.get(HEAD.len() + 16..).map(|hex| hex.trim_end_matches('=')) else {
        return false;
    };
    let bytes: Option<Vec<u8>> = (0..name.len())
        .step_by(2)
        .map(|start| name.get(start..start + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect();
    let name = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    name.is_some_and(|name| named(&name) == text)
}

/// FNV-1a: a change of one letter changes it.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_fits_its_text_alone() {
        assert_eq!(seal("think"), seal("think"));
        assert_ne!(seal("think"), seal("thinks"));
        assert_eq!(seal("x").len() % 4, 0);
    }

    #[test]
    fn a_named_seal_is_known_again_and_a_changed_one_is_not() {
        for name in ["", "a", "call_1_0", "ä"] {
            let text = named(name);
            assert!(is_named(&text), "{text}");
            assert_eq!(text.len() % 4, 0);
            assert!(!is_named(&text.replacen('E', "F", 1)));
            assert!(!is_named(&text[..text.len() - 1]));
        }
        assert!(!is_named("") && !is_named("ä".repeat(20).as_str()));
    }
}
