//! The schema that an answer must meet: whether a value is a schema at all, and what of an answer does not fit it.
//!
//! It reads no other document: a schema that refers to one outside itself is refused. It does not decide what becomes of an
//! answer that does not fit.

mod effort;

use crate::excerpt::head_of;
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Mistakes that are named.
const ERRORS_MAX: usize = 10;
/// Bytes of one of them, which may repeat what the answer says.
const ERROR_BYTES_MAX: usize = 300;
/// What stands around a block of code.
const FENCE: &str = "```";

/// Checks at once, in the whole process: one that is given up goes on, and must not keep others from their threads.
static CHECKS: Semaphore = Semaphore::const_new(2);

/// A schema that can be held against answers.
#[derive(Debug, Clone)]
pub struct Contract {
    validator: Arc<Validator>,
    schema: Arc<Value>,
}

/// What of an answer does not fit, or why that is not known.
pub type Checked = Result<Vec<String>, String>;

impl Contract {
    /// The contract of a JSON Schema.
    ///
    /// # Errors
    /// Why it is none, or that its parts refer to each other so often that a check would hardly end.
    pub fn of(schema: &Value) -> Result<Contract, String> {
        let validator = jsonschema::options().build(schema).map_err(|error| named(&error))?;
        let effort = effort::of(schema, effort::LEVELS_AT_FIRST);
        if let Some(reference) = effort.unfollowed {
            return Err(format!(
                "the reference `{reference}` is not followed here; refer to a part of the schema as `#/$defs/NAME`, without \
                 `$id` in the parts"
            ));
        }
        if effort.looks > effort::LOOKS_MAX {
            return Err(format!(
                "its parts refer to each other so often that one value would be looked at more than {} times; \
                 name fewer alternatives within alternatives",
                effort::LOOKS_MAX
            ));
        }
        Ok(Contract { validator: Arc::new(validator), schema: Arc::new(schema.clone()) })
    }

    /// As [`Contract::misses`], on a thread for such things and for at most `limit`. A check that is given up holds its thread
    /// until it has ended; one that would take far too long is not begun.
    pub async fn checked(&self, answer: &str, limit: Duration) -> Checked {
        let (contract, answer) = (self.clone(), answer.to_owned());
        let check = move || match contract.levels_too_many(&answer) {
            Some(levels) => Err(format!(
                "$: whether it fits is not known: the value is nested {levels} levels deep, and the schema branches into itself \
                 at each of them, so that a check would hardly end. Simplify the schema, or ask for a flatter value"
            )),
            None => Ok(contract.misses(&answer)),
        };
        let checking = async {
            // Nobody closes it, and without a turn of its own a check would only be one more at once.
            let turn = CHECKS.acquire().await.ok();
            let checking = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                check()
            });
            checking.await
        };
        // Deadline: nobody can tell how long a schema takes; an answer is not kept back for it.
        match tokio::time::timeout(limit, checking).await {
            Ok(Ok(checked)) => checked,
            Ok(Err(error)) => Err(format!("$: whether it fits is not known, the check failed: {error}")),
            Err(_) => Err(format!(
                "$: whether it fits is not known: the check took longer than {} s. A schema whose parts refer to each other many times over takes so long; simplify it",
                limit.as_secs_f32(),
            )),
        }
    }

    /// The levels of a value that is nested too deeply for this schema.
    fn levels_too_many(&self, answer: &str) -> Option<u32> {
        let values =
            candidates(answer).into_iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
        let deepest = values.map(|value| effort::levels(&value)).max()?;
        (effort::of(&self.schema, deepest).looks > effort::LOOKS_MAX).then_some(deepest)
    }

    /// What of an answer does not fit, each as a path from `$` with a message, at most ten; none when it fits. The value is
    /// the whole text, a fenced block of it, or what stands between its outermost braces or brackets: the first of them that
    /// fits.
    pub fn misses(&self, answer: &str) -> Vec<String> {
        let values =
            candidates(answer).into_iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
        let mut nearest: Option<Vec<String>> = None;
        for value in values {
            let errors: Vec<String> =
                self.validator.iter_errors(&value).take(ERRORS_MAX).map(|error| named(&error)).collect();
            if errors.is_empty() {
                return errors;
            }
            nearest.get_or_insert(errors);
        }
        nearest.unwrap_or_else(|| vec![unreadable(answer)])
    }
}

/// The texts that may be the value, the likeliest first.
fn candidates(answer: &str) -> Vec<&str> {
    let mut texts = vec![answer.trim()];
    texts.extend(fenced(answer));
    texts.extend(outermost(answer));
    texts
}

/// The fenced blocks, without the words behind the fence.
fn fenced(answer: &str) -> impl Iterator<Item = &str> {
    let inside = answer.split(FENCE).skip(1).step_by(2);
    inside.map(|block| block.split_once('\n').map_or(block, |(_, lines)| lines).trim())
}

/// From the first brace or bracket to the last that closes one of its kind.
fn outermost(answer: &str) -> Option<&str> {
    let start = answer.find(['{', '['])?;
    let close = if answer[start..].starts_with('{') { '}' } else { ']' };
    let end = answer.rfind(close).filter(|end| *end > start)?;
    Some(&answer[start..=end])
}

/// What is wrong with an answer that holds no JSON value.
fn unreadable(answer: &str) -> String {
    let nearest = outermost(answer).unwrap_or(answer.trim());
    match serde_json::from_str::<Value>(nearest) {
        Err(error) if outermost(answer).is_some() => format!("$: this is not valid JSON: {error}"),
        Ok(_) | Err(_) => "$: there is no JSON value in the answer".to_owned(),
    }
}

/// A mistake as a path with a message.
fn named(error: &ValidationError<'_>) -> String {
    let message = error.to_string();
    format!("{}: {}", path(error.instance_path()), head_of(&message, ERROR_BYTES_MAX))
}

fn path(location: &Location) -> String {
    let mut path = "$".to_owned();
    for segment in location.segments() {
        match segment {
            LocationSegment::Property(name) => {
                path.push('.');
                path.push_str(&name);
            }
            LocationSegment::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(answer: &str, errors: &[&str]) {
        let schema = json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "sizes": {"type": "array", "items": {"type": "integer"}}},
            "required": ["name"],
        });
        let contract = Contract::of(&schema).expect("it is a schema");
        let misses = contract.misses(answer);
        assert_eq!(misses.len(), errors.len(), "{answer}: {misses:?}");
        for (miss, words) in misses.iter().zip(errors) {
            assert!(miss.contains(words), "{answer}: {misses:?}");
        }
    }

    #[test]
    fn schema_03_the_value_is_a_fenced_block_or_the_outermost_braces() {
        for answer in [
            r#"{"name": "a", "sizes": [1, 2]}"#,
            "Here it is:\n```json\n{\"name\": \"a\"}\n```\nThat was it {really}.",
            "```\n{\"name\": \"a\"}\n```",
            "The result is {\"name\": \"{a}\"} as asked.",
            "```text\nno\n```\n```json\n{\"name\": \"a\"}\n```",
        ] {
            check(answer, &[]);
        }
        let list = Contract::of(&json!({"type": "array"})).expect("it is a schema");
        assert_eq!(list.misses("So: [1, {\"a\": 2}]."), Vec::<String>::new());
        assert_eq!(
            Contract::of(&json!({"type": "integer"})).expect("a schema").misses(" 7\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn schema_03_what_does_not_fit_is_named_by_its_path() {
        check("there is none", &["$: there is no JSON value in the answer"]);
        check("{\"name\": ", &["$: there is no JSON value in the answer"]);
        check("{\"name\": oops}", &["$: this is not valid JSON: expected"]);
        check("[1]", &["$: [1] is not of type \"object\""]);
        check(
            r#"{"name": 1, "sizes": [1, "x", 2.5]}"#,
            &[
                "$.name: 1 is not of type",
                "$.sizes[1]: \"x\" is not of type",
                "$.sizes[2]: 2.5 is not of type",
            ],
        );
        check("{}", &["$: \"name\" is a required property"]);
    }

    #[test]
    fn schema_03_no_more_than_ten_mistakes_of_bounded_length_are_named() {
        let contract = Contract::of(&json!({"items": {"type": "integer"}})).expect("it is a schema");
        let answer = json!(vec!["x".repeat(5000); 40]).to_string();
        let misses = contract.misses(&answer);
        assert_eq!(misses.len(), 10);
        assert!(misses.iter().all(|miss| miss.len() < 400), "{misses:?}");
    }

    #[test]
    fn what_is_no_schema_is_refused_and_no_other_document_is_read() {
        for (schema, words) in [
            (json!({"type": "objekt"}), "objekt"),
            (json!({"minimum": "three"}), "three"),
            (json!({"required": "name"}), "name"),
            (json!({"$ref": "https://example.org/schema.json"}), "example.org"),
            (json!({"$ref": "#/nowhere"}), "nowhere"),
            (json!({"pattern": "("}), "("),
        ] {
            let error = Contract::of(&schema).map(|_| ()).expect_err("it is none");
            assert!(error.contains(words), "{schema}: {error}");
        }
    }

    #[test]
    fn k23_a_schema_that_refers_to_itself_ends() {
        let tree = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        let contract = Contract::of(&tree).expect("it is a schema");
        assert_eq!(contract.misses("{\"next\": {\"next\": {}}}"), Vec::<String>::new());
        for circle in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
        ] {
            if let Ok(contract) = Contract::of(&circle) {
                contract.misses("{}");
            }
        }
    }
}
