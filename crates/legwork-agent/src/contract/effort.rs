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

/// The schemas of JSON Schema itself; they are cheap, and not part of a document that refers to them.
const META: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// What is known of a schema.
pub struct Effort {
    /// How often it looks at a value that is so many levels deep, at the place where it looks most often; at most
    /// [`LOOKS_MAX`] and one.
    pub looks: u64,
    /// A reference that was not followed, so that the number says nothing.
    pub unfollowed: Option<String>,
}

/// Counts for values that are so many `levels` deep.
pub fn of(schema: &Value, levels: u32) -> Effort {
    let mut count = Count {
        root: schema,
        anchors: HashMap::new(),
        has_parts_with_ids: false,
        unfollowed: None,
        known: HashMap::new(),
        open: HashSet::new(),
    };
    count.find_anchors(schema);
    let looks = count.of(schema, levels, NESTED_MAX);
    Effort { looks, unfollowed: count.unfollowed }
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
    /// A part has an `$id` of its own, below which pointers mean something else.
    has_parts_with_ids: bool,
    unfollowed: Option<String>,
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
                for name in ["$anchor", "$dynamicAnchor"] {
                    if let Some(anchor) = parts.get(name).and_then(Value::as_str) {
                        self.anchors.insert(anchor, value);
                    }
                }
                let has_id = parts.get("$id").is_some_and(Value::is_string);
                self.has_parts_with_ids |= has_id && !std::ptr::eq(value, self.root);
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
        let (mut looks, mut same): (u64, u64) = (1, 0);
        for (keyword, value) in keywords {
            let is_same =
                keyword.ends_with("Ref") || keyword == "$ref" || SAME_VALUE.contains(&keyword.as_str());
            let more = match keyword.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => self.referred(value, levels, nested),
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
            same = same.saturating_add(if is_same { more } else { 0 });
        }
        // What is left over after the others is found by looking once more at what they look at.
        if keywords.keys().any(|keyword| keyword.starts_with("unevaluated")) {
            looks = looks.saturating_add(same).min(LOOKS_MAX + 1);
        }
        self.open.remove(&key);
        self.known.insert(key, looks);
        looks
    }

    fn referred(&mut self, reference: &'a Value, levels: u32, nested: u32) -> u64 {
        let Some(text) = reference.as_str() else { return 0 };
        if META.iter().any(|meta| text.starts_with(meta)) {
            return 1;
        }
        match self.target(text) {
            Some(target) => self.of(target, levels, nested - 1),
            None => {
                self.unfollowed.get_or_insert_with(|| text.to_owned());
                0
            }
        }
    }

    /// What a reference within this document refers to; nothing where it is written in a way that is not followed here.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        let fragment = reference.strip_prefix('#').filter(|fragment| !fragment.contains('%'))?;
        match fragment {
            "" => Some(self.root),
            pointer if pointer.starts_with('/') => {
                (!self.has_parts_with_ids).then(|| self.root.pointer(pointer)).flatten()
            }
            anchor => self.anchors.get(anchor).copied(),
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
            assert!(of(&doubling(10, keyword), 0).looks < LOOKS_MAX);
            for length in [20, 30, 200] {
                assert_eq!(of(&doubling(length, keyword), 0).looks, LOOKS_MAX + 1, "{keyword} {length}");
            }
        }
    }

    #[test]
    fn k27_a_schema_that_branches_into_itself_is_dear_for_deep_values_only() {
        let branches = json!({"properties": {"a": {"$ref": "#/$defs/n"}}});
        let schema = json!({"$ref": "#/$defs/n", "$defs": {"n": {"oneOf": [branches.clone(), branches]}}});
        assert!(of(&schema, LEVELS_AT_FIRST).looks < LOOKS_MAX);
        assert_eq!(of(&schema, 40).looks, LOOKS_MAX + 1);
    }

    #[test]
    fn schema_01_trees_lists_and_alternatives_as_people_write_them_are_cheap() {
        let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
        assert!(of(&tree, 120).looks < 1000);
        let list = json!({"$anchor": "list", "items": {"$ref": "#list"}, "contains": {"type": "integer"}});
        assert!(of(&list, 120).looks < 1000);
        let wide: Vec<Value> = (0..500).map(|number| json!({"const": number})).collect();
        assert!(of(&json!({"items": {"oneOf": wide}}), 3).looks < 1000);
        let circle =
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
        assert!(of(&circle, 3).looks < 10);
    }

    #[test]
    fn k27_no_way_of_writing_a_reference_gets_past_the_count() {
        let defs = json!({"d": {"$id": "http://x/d", "type": "integer"}});
        for schema in [
            json!({"$id": "http://x/s", "$ref": "http://x/s#/$defs/d0"}),
            json!({"$ref": "#/$defs/%64"}),
            json!({"$ref": "#/$defs/d", "$defs": defs}),
            json!({"$ref": "#/$defs/nobody"}),
        ] {
            assert!(of(&schema, 0).unfollowed.is_some(), "{schema}");
        }
        let meta =
            json!({"properties": {"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}});
        assert!(of(&meta, 3).unfollowed.is_none());
        let nested = (0..30).fold(
            json!({"type": "object"}),
            |inner, _| json!({"anyOf": [inner], "unevaluatedProperties": {"type": "integer"}}),
        );
        assert_eq!(of(&nested, 1).looks, LOOKS_MAX + 1);
    }

    #[test]
    fn levels_are_those_below_the_top() {
        assert_eq!((levels(&json!(7)), levels(&json!([])), levels(&json!([[1], {"a": []}]))), (0, 0, 2));
    }
}
