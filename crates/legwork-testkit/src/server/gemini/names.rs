//! Names in Gemini's requests: every field may be written in camel case or in snake case, and null means absent. The
//! name of the model says which generation of the format is spoken.

use serde_json::Value;

use crate::server::fields::{Object, illegal, present};
use crate::server::strict::Violation;

/// The generations that the models of this format belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// Up to Gemini 2: calls have neither ids nor signatures.
    Plain,
    /// From Gemini 3 on: calls have ids, and the first of a reply has a signature that must come back.
    Signed,
}

impl Generation {
    pub(super) fn of(model: &str) -> Self {
        let old = ["gemini-1", "gemini-2"].iter().any(|begin| model.starts_with(begin));
        if old { Self::Plain } else { Self::Signed }
    }
}

/// A field by its name in camel case, however it is written.
pub(super) fn field<'a>(fields: &'a Object, name: &str) -> Option<&'a Value> {
    present(fields, name).or_else(|| present(fields, &snake(name)))
}

/// Refuses fields that are not in the list of names in camel case.
pub(super) fn known(fields: &Object, names: &[&str], place: &str) -> Result<(), Violation> {
    let unknown = fields.keys().find(|name| !names.contains(&camel(name).as_str()));
    match unknown {
        None => Ok(()),
        Some(name) => {
            let text = format!("invalid JSON payload: there is no field `{name}` at `{place}`");
            Err(illegal(place, text))
        }
    }
}

fn snake(name: &str) -> String {
    name.chars().fold(String::new(), |mut snake, char| {
        if char.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(char.to_ascii_lowercase());
        snake
    })
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut camel, word| {
        let mut chars = word.chars();
        camel.extend(chars.next().map(|char| char.to_ascii_uppercase()));
        camel.push_str(chars.as_str());
        camel
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_turned_from_one_case_into_the_other() {
        for (camel_name, snake_name) in [("text", "text"), ("maxOutputTokens", "max_output_tokens")] {
            assert_eq!(snake(camel_name), snake_name);
            assert_eq!(camel(snake_name), camel_name);
            assert_eq!(camel(camel_name), camel_name);
        }
    }

    #[test]
    fn the_generation_follows_from_the_name() {
        assert_eq!(Generation::of("gemini-2.5-flash"), Generation::Plain);
        assert_eq!(Generation::of("gemini-3-flash-preview"), Generation::Signed);
        assert_eq!(Generation::of("m"), Generation::Signed);
    }
}
