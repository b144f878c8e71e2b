//! What `show` found, as lines for people. It knows no field but those that hold a time.

use serde_json::Value;

use crate::wording;

/// The facts of `shown` as lines: names and values, lists indented.
pub fn text(shown: &Value) -> String {
    let mut lines = Vec::new();
    write_object(shown, 0, &mut lines);
    lines.join("\n")
}

fn write_object(value: &Value, depth: usize, lines: &mut Vec<String>) {
    let Value::Object(fields) = value else { return };
    let indent = "  ".repeat(depth);
    for (name, field) in fields {
        match field {
            Value::Null => {}
            Value::Array(items) if items.is_empty() => {}
            Value::Array(items) if items.iter().all(|item| !item.is_object()) => {
                let words: Vec<String> = items.iter().map(scalar).collect();
                lines.push(format!("{indent}{name}: {}", words.join(", ")));
            }
            Value::Array(items) => {
                lines.push(format!("{indent}{name}:"));
                for item in items {
                    let at = lines.len();
                    write_object(item, depth + 2, lines);
                    mark_item(lines, at, depth + 1);
                }
            }
            Value::Object(_) => {
                lines.push(format!("{indent}{name}:"));
                write_object(field, depth + 1, lines);
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                lines.push(format!("{indent}{name}: {}", time_or(name, field)));
            }
        }
    }
}

/// Puts a dash before the first line of a list item.
fn mark_item(lines: &mut [String], at: usize, depth: usize) {
    if let Some(first) = lines.get_mut(at) {
        *first = format!("{}- {}", "  ".repeat(depth), first.trim_start());
    }
}

fn time_or(name: &str, value: &Value) -> String {
    match value.as_i64() {
        Some(millis) if name == "at" || name.ends_with("_at") => wording::instant(millis),
        _ => scalar(value),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => wording::plain(text).replace('\n', "\n      "),
        other => other.to_string(),
    }
}
