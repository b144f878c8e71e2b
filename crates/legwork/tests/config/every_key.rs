//! What holds for every key, told from the schema that the program prints: defaults, bounds, types and variables.

use serde_json::{Value, json};

use crate::machine::{Machine, with_line};

/// What the schema says of every key: name and schema.
fn keys(machine: &Machine) -> Vec<(String, Value)> {
    let (_, schema) = machine.json(&["config", "schema"]);
    let sections = schema["properties"].as_object().expect("sections").clone();
    let keys = sections.iter().flat_map(|(section, of)| {
        let keys = of["properties"].as_object().expect("keys").clone();
        keys.into_iter().map(move |(name, key)| (format!("{section}.{name}"), key))
    });
    keys.collect()
}

/// The least and the most that a key takes.
fn bounds(key: &Value) -> Option<(i64, Option<i64>)> {
    let range = key["anyOf"].get(1).unwrap_or(key);
    Some((range["minimum"].as_i64()?, range["maximum"].as_i64()))
}

/// Proves CFG-1, CFG-4, CFG-5, CFG-7, CFG-11, CFG-12, CFG-14, CFG-17, CFG-18, CFG-19, CFG-20: default and origin of each.
#[test]
fn every_key_has_its_default_and_says_so() {
    let (_, shown) = Machine::new().json(&["config"]);
    for (name, key) in keys(&Machine::new()) {
        assert_eq!(shown[&name]["origin"]["kind"], "default", "{name}");
        let default = &key["default"];
        let given = &shown[&name]["value"];
        assert!(
            given == default || (given.is_null() && (default.is_null() || default == "")),
            "{name}: {given}"
        );
    }
    let documented = [
        ("model", json!("")),
        ("max_iterations", json!(250)),
        ("max_concurrent_children", json!(10)),
        ("max_spawn_depth", json!(1)),
        ("orchestrator_enabled", json!(true)),
        ("child_timeout_seconds", json!(0)),
        ("max_summary_chars", json!(24_000)),
        ("compression_threshold_tokens", json!(0)),
        ("inherit_mcp_toolsets", json!(true)),
        ("default_toolsets", Value::Null),
        ("subagent_auto_approve", json!(false)),
        ("worktree_isolation", json!(false)),
        ("oneshot_max_children", json!(2)),
        ("routes", json!({})),
        ("fallback_providers", Value::Null),
    ];
    for (name, default) in documented {
        assert_eq!(shown[format!("delegation.{name}")]["value"], default, "{name}");
    }
}

/// Proves CFG-4, CFG-5, CFG-7, CFG-10, CFG-11, CFG-12, CFG-18: the bounds.
#[test]
fn every_number_is_kept_to_its_bounds_and_a_wrong_one_has_its_place() {
    for (name, key) in keys(&Machine::new()) {
        let Some((min, max)) = bounds(&key) else { continue };
        let zero = key["anyOf"].is_array();
        let most = max.map(|max| max + 1);
        let wrong = [min - 1].into_iter().chain(most).filter(|number| !(zero && *number == 0));
        for number in wrong {
            let place = format!(":2:{}: ", name.split_once('.').expect("a section").1.len() + 4);
            with_line(&name, &number.to_string())
                .refuses("configuration", &[&place, &name, &number.to_string()]);
        }
        let (exit, document) = with_line(&name, &min.to_string()).json(&["config", "check"]);
        let built = document["error"]["kind"] != "not_built";
        assert!(exit == 0 || !built, "{name}: {document}");
    }
}

#[test]
fn a_value_of_a_wrong_type_is_told_with_file_and_line_for_every_key() {
    for (name, key) in keys(&Machine::new()) {
        if key["deprecated"] == true {
            continue;
        }
        let machine = with_line(&name, "1979-05-27");
        machine
            .refuses("configuration", &[&machine.user_file().display().to_string(), ":2:", &name, "found"]);
    }
}

/// Proves CFG-5, CFG-10: the variables of the older design, with our prefix.
#[test]
fn a_variable_counts_before_the_file_for_every_key_that_has_one() {
    let mut tried = 0;
    for (name, key) in keys(&Machine::new()) {
        let Some(variable) = key["x-env"].as_array().and_then(|names| names.last()?.as_str()) else {
            continue;
        };
        let (file, word) = match (bounds(&key), key["type"].as_str()) {
            (Some((min, _)), _) => (min.to_string(), (min + 1).to_string()),
            (None, Some("boolean")) => ("true".to_owned(), "no".to_owned()),
            (None, Some("string")) if key["enum"].is_array() => {
                (key["enum"][0].to_string(), key["enum"][1].as_str().expect("a word").to_owned())
            }
            (None, Some("string")) if key.get("pattern").is_none() => ("'one'".to_owned(), "two".to_owned()),
            _ => continue,
        };
        let variable: &'static str = String::from(variable).leak();
        let (exit, document) = with_line(&name, &file).with_variable(variable, &word).json(&["config"]);
        if document["error"]["kind"] == "not_built" {
            continue;
        }
        assert_eq!(exit, 0, "{name}: {document}");
        assert_eq!(document[&name]["origin"]["name"], variable, "{name}: {document}");
        tried += 1;
    }
    assert!(tried > 20, "only {tried} keys were tried");
}
