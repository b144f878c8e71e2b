//! How often one value would be looked at by a schema whose parts refer to each other: the schema is written once, and the
//! ways through it may be many. A check cannot be broken off, so one that would not end is not begun.
//!
//! It counts and does not check anything.

use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Looks at one value from which on nothing is checked. A thousand times what a schema of alternatives within alternatives
/// needs; all of them take some tenths of a second.
pub const LOOKS_MAX: u64 = 100_000;

/// Levels below the top that a schema is asked about when nothing is known of the answers yet. A schema that refers to itself
/// may be cheap for flat answers and dear for deep ones.
pub const LEVELS_AT_FIRST: u32 = 8;

/// Schemas within schemas that are followed without going down in the value.
const NESTED_MAX: u32 = 300;

/// Keywords whose schemas are held against the same value, one after another.
const SAME_VALUE: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];
/// Keywords whose schemas are held against parts of the value.
const PARTS: [&str; 11] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "contentSchema",
];
/// Keywords whose value names schemas: an object of them, and not one.
const NAMED: [&str; 4] = ["properties", "patternProperties", "dependentSchemas", "dependencies"];

/// How often `schema` looks at a value that is so many `levels` deep, at the place where it looks most often; at most
/// [`LOOKS_MAX`] and one.
pub fn looks(schema: &Value, levels: u32) -> u64 {
    let anchors = HashMap::new();
    let mut count = Count { root: schema, anchors, known: HashMap::new(), open: HashSet::new() };
    count.find_anchors(schema);
    count.of(schema, levels, NESTED_MAX)
}

/// How many levels a value has below its top.
pub fn levels(value: &Value) -> u32 {
    let below = match value {
        Value::Array(parts) => parts.iter().map(levels).max(),
        Value::Object(parts) => parts.values().map(levels).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    below.map_or(0, |below| below + 1)
}

struct Count<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    /// What is known of a place of the schema at so many levels.
    known: HashMap<(*const Value, u32), u64>,
    /// What is being counted: a schema that comes back to itself without going down looks no further there.
    open: HashSet<(*const Value, u32)>,
}

impl<'a> Count<'a> {
    fn find_anchors(&mut self, value: &'a Value) {
        match value {
            Value::Array(parts) => parts.iter().for_each(|part| self.find_anchors(part)),
            Value::Object(parts) => {
                for name in ["$anchor", "$dynamicAnchor", "$id"] {
                    if let Some(anchor) = parts.get(name).and_then(Value::as_str) {
                        self.anchors.insert(anchor.trim_start_matches('#'), value);
                    }
                }
                parts.values().for_each(|part| self.find_anchors(part));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn of(&mut self, schema: &'a Value, levels: u32, nested: u32) -> u64 {
        let Value::Object(keywords) = schema else { return 1 };
        if nested == 0 {
            return LOOKS_MAX + 1;
        }
        let key = (std::ptr::from_ref(schema), levels);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if !self.open.insert(key) {
            return 1;
        }
        let mut looks: u64 = 1;
        for (keyword, value) in keywords {
            let more = match keyword.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    self.target(value).map_or(0, |target| self.of(target, levels, nested - 1))
                }
                name if SAME_VALUE.contains(&name) => {
                    let each = schemas(name, value);
                    each.into_iter().fold(0, |sum: u64, part| {
                        if sum > LOOKS_MAX {
                            sum
                        } else {
                            sum.saturating_add(self.of(part, levels, nested - 1))
                        }
                    })
                }
                name if levels > 0 && PARTS.contains(&name) => {
                    let each = schemas(name, value);
                    each.into_iter().map(|part| self.of(part, levels - 1, nested - 1)).max().unwrap_or(0)
                }
                _ => 0,
            };
            looks = looks.saturating_add(more).min(LOOKS_MAX + 1);
        }
        self.open.remove(&key);
        self.known.insert(key, looks);
        looks
    }

    /// What a reference within this document refers to.
    fn target(&self, reference: &Value) -> Option<&'a Value> {
        let reference = reference.as_str()?;
        let fragment = reference.strip_prefix('#');
        match fragment {
            Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                let decoded = pointer.replace("%25", "%").replace("%24", "$");
                self.root.pointer(&decoded)
            }
            Some(anchor) => self.anchors.get(anchor).copied(),
            None => self.anchors.get(reference).copied(),
        }
    }
}

/// The schemas of a keyword.
fn schemas<'a>(keyword: &str, value: &'a Value) -> Vec<&'a Value> {
    match value {
        Value::Array(parts) => parts.iter().collect(),
        Value::Object(parts) if NAMED.contains(&keyword) => parts.values().collect(),
        Value::Object(_) => vec![value],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A chain of definitions, each of which refers twice to the next one.
    fn doubling(length: usize, keyword: &str) -> Value {
        let link = |number: usize| json!({"$ref": format!("#/$defs/d{number}")});
        let mut defs = serde_json::Map::new();
        for number in 0..length {
            defs.insert(format!("d{number}"), json!({ keyword: [link(number + 1), link(number + 1)] }));
        }
        defs.insert(format!("d{length}"), json!({"type": "object"}));
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    }

    #[test]
    fn k27_ways_through_a_schema_are_counted_and_not_its_words() {
        for keyword in ["oneOf", "anyOf", "allOf"] {
            assert!(looks(&doubling(10, keyword), 0) < LOOKS_MAX);
            for length in [20, 30, 200] {
                assert_eq!(looks(&doubling(length, keyword), 0), LOOKS_MAX + 1, "{keyword} {length}");
            }
        }
    }

    #[test]
    fn k27_a_schema_that_branches_into_itself_is_dear_for_deep_values_only() {
        let branches = json!({"properties": {"a": {"$ref": "#/$defs/n"}}});
        let schema = json!({"$ref": "#/$defs/n", "$defs": {"n": {"oneOf": [branches.clone(), branches]}}});
        assert!(looks(&schema, LEVELS_AT_FIRST) < LOOKS_MAX);
        assert_eq!(looks(&schema, 40), LOOKS_MAX + 1);
    }

    #[test]
    fn schema_01_trees_lists_and_alternatives_as_people_write_them_are_cheap() {
        let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
        assert!(looks(&tree, 120) < 1000);
        let list = json!({"$anchor": "list", "items": {"$ref": "#list"}, "contains": {"type": "integer"}});
        assert!(looks(&list, 120) < 1000);
        let wide: Vec<Value> = (0..500).map(|number| json!({"const": number})).collect();
        assert!(looks(&json!({"items": {"oneOf": wide}}), 3) < 1000);
        let circle =
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
        assert!(looks(&circle, 3) < 10);
    }

    #[test]
    fn levels_are_those_below_the_top() {
        assert_eq!((levels(&json!(7)), levels(&json!([])), levels(&json!([[1], {"a": []}]))), (0, 0, 2));
    }
}
