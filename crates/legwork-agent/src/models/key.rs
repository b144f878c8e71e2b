//! The key of a provider. It owns the text and shows it to the transport only; it does not read it from anywhere.

use std::fmt;

/// The shortest key that is looked for in texts: a placeholder of a few letters is no secret, and masking it would
/// make every message unreadable.
const MASKED_FROM_BYTES: usize = 4;

/// What stands where a key stood.
const MASK: &str = "[key]";

/// A secret that is sent to one provider and written nowhere: neither `Debug` nor an error shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key as it is sent; blanks around it are taken off, and a blank one is none.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| ApiKey(text.to_owned()))
    }

    /// The text itself, for the header that carries it.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// The text with every occurrence of the key masked.
    pub(super) fn mask(&self, text: &str) -> String {
        if self.0.len() < MASKED_FROM_BYTES { text.to_owned() } else { text.replace(&self.0, MASK) }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ApiKey(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k29_debug_output_never_shows_the_key() {
        let key = ApiKey::new(" sk-secret \n").expect("the key is not blank");
        assert_eq!(format!("{key:?}"), "ApiKey(hidden)");
        assert_eq!(key.expose(), "sk-secret");
    }

    #[test]
    fn a_blank_key_is_no_key() {
        assert!(ApiKey::new("  \n").is_none());
    }

    #[test]
    fn k29_every_occurrence_is_masked() {
        let key = ApiKey::new("sk-secret").expect("the key is not blank");
        assert_eq!(key.mask("sk-secret and sk-secretive"), "[key] and [key]ive");
    }
}
