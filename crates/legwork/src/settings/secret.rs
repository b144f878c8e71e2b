//! A value that is never shown.
//!
//! Owns the masking; where a secret may be sent is decided in [`super::model`].

use std::fmt;

/// What is shown in place of a secret.
pub const MASK: &str = "********";

/// A key. Printing, debugging and comparing the shown form never reveal it; only [`Secret::expose`] does.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key. White space around it is dropped: keys read from files and shells often end in a newline.
    pub fn new(text: &str) -> Secret {
        Secret(text.trim().to_owned())
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key itself, for the one request header that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "" } else { MASK })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k31_a_secret_is_never_printed() {
        let secret = Secret::new("sk-very-secret\n");
        assert_eq!(secret.expose(), "sk-very-secret");
        assert_eq!(format!("{secret} {secret:?}"), "******** Secret(********)");
        assert_eq!(format!("{}", Secret::default()), "");
    }
}
