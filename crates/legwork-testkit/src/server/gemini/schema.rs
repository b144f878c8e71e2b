//! Reads the schemas that Gemini takes in its own dialect, which knows fewer words than JSON Schema.

use serde_json::Value;

use super::names::{field, known};
use crate::server::fields::{object, object_field};
use crate::server::strict::Violation;

const WORDS: [&str; 22] = [
    "anyOf",
    "default",
    "description",
    "enum",
    "example",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "propertyOrdering",
    "required",
    "title",
    "type",
];

/// Refuses words that the dialect does not know, however deep they stand.
pub(super) fn check(schema: &Value, place: &str) -> Result<(), Violation> {
    let fields = object(schema, place)?;
    known(fields, &WORDS, place)?;
    if fields.contains_key("properties") {
        let place = format!("{place}.properties");
        for (name, schema) in object_field(fields, "properties", &place)? {
            check(schema, &format!("{place}.{name}"))?;
        }
    }
    if let Some(items) = field(fields, "items") {
        check(items, &format!("{place}.items"))?;
    }
    let variants = field(fields, "anyOf").and_then(Value::as_array);
    for (index, variant) in variants.into_iter().flatten().enumerate() {
        check(variant, &format!("{place}.anyOf[{index}]"))?;
    }
    Ok(())
}
