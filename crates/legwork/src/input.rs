//! A text that a person gives on the command line or through stdin: read within a limit, and never empty.

use std::io::Read;

use crate::failure::{CliError, Kind};

/// What is asked for, and how much of it is taken.
pub struct Wanted<'a> {
    /// The noun for messages, such as `prompt`.
    pub noun: &'a str,
    /// The most bytes that are taken.
    pub bytes_max: usize,
    /// What to do when it is empty.
    pub when_empty: &'a str,
    /// What to do when it is too long.
    pub when_too_long: &'a str,
}

impl Wanted<'_> {
    /// The same with another limit.
    pub fn within(self, bytes_max: usize) -> Self {
        Wanted { bytes_max, ..self }
    }

    /// The text itself, or what stdin holds for `-`.
    ///
    /// # Errors
    /// When it is empty, too long, or no text. Of a long stdin no more than the limit is read.
    pub fn take(&self, typed: &str) -> Result<String, CliError> {
        let text = if typed == "-" { self.read_stdin()? } else { typed.to_owned() };
        let Wanted { noun, bytes_max, .. } = self;
        if text.len() > *bytes_max {
            return Err(self.too_long(&format!("{} bytes long; the limit is {bytes_max}", text.len())));
        }
        if text.trim().is_empty() {
            let message = format!("the {noun} is empty");
            return Err(CliError::new(Kind::Input, message).with_hint(self.when_empty));
        }
        Ok(text)
    }

    fn too_long(&self, length: &str) -> CliError {
        CliError::new(Kind::Input, format!("the {} is {length}", self.noun)).with_hint(self.when_too_long)
    }

    fn read_stdin(&self) -> Result<String, CliError> {
        let noun = self.noun;
        let mut bytes = Vec::new();
        let most = u64::try_from(self.bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        let read = std::io::stdin().lock().take(most).read_to_end(&mut bytes);
        read.map_err(|error| {
            CliError::new(Kind::Input, format!("the {noun} cannot be read from stdin: {error}"))
        })?;
        if bytes.len() > self.bytes_max {
            return Err(self.too_long(&format!("longer than the limit of {} bytes", self.bytes_max)));
        }
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            CliError::new(Kind::Input, format!("stdin: byte {at} of the {noun} is not UTF-8"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted<'_> = Wanted {
        noun: "message",
        bytes_max: 4,
        when_empty: "say something",
        when_too_long: "say it shorter",
    };

    #[track_caller]
    fn check(typed: &str, refused: Option<(&str, &str)>) {
        match (WANTED.take(typed), refused) {
            (Ok(text), None) => assert_eq!(text, typed),
            (Err(error), Some((message, hint))) => {
                assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Input, message));
                assert_eq!(error.to_json()["error"]["hint"], hint);
            }
            (taken, _) => panic!("{typed:?}: {taken:?}"),
        }
    }

    #[test]
    fn a_text_is_neither_empty_nor_too_long() {
        check("äö", None);
        check("", Some(("the message is empty", "say something")));
        check(" \n\t", Some(("the message is empty", "say something")));
        check("12345", Some(("the message is 5 bytes long; the limit is 4", "say it shorter")));
    }
}
