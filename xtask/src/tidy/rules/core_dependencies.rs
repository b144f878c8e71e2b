//! Core depends on almost nothing: no runtime, no IO, no clock, no randomness can come in through a dependency.

use crate::tidy::finding::Finding;
use crate::tidy::tree::Tree;

const RULE: &str = "core-dependencies";
const MANIFEST: &str = "crates/legwork-core/Cargo.toml";
const ALLOWED: [&str; 3] = ["serde", "serde_json", "thiserror"];
/// Dependencies for tests only are free.
const TABLES: [&str; 2] = ["dependencies", "build-dependencies"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(MANIFEST) else { return Vec::new() };
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::of_file(RULE, MANIFEST, format!("cannot be read: {error}"))],
    };
    let strangers = dependencies(&manifest).into_iter().filter(|name| !ALLOWED.contains(name));
    strangers.map(refuse).collect()
}

fn refuse(name: &str) -> Finding {
    let message = format!(
        "core may depend on {} only, not on `{name}`: put the code that needs it elsewhere",
        ALLOWED.join(", ")
    );
    Finding::of_file(RULE, MANIFEST, message)
}

/// All dependencies of a manifest or of one of its targets.
fn dependencies(manifest: &toml::Table) -> Vec<&str> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(|table| table.values()).filter_map(toml::Value::as_table);
    let places = targets.chain([manifest]);
    let tables = places.flat_map(|place| TABLES.iter().filter_map(|name| place.get(*name)?.as_table()));
    tables.flat_map(|table| table.keys().map(String::as_str)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    #[test]
    fn a_further_dependency_is_caught() {
        catches(check, &[(MANIFEST, "[dependencies]\nserde = \"1\"\ntokio = \"1\"\n")], "not on `tokio`");
        catches(check, &[(MANIFEST, "[target.'cfg(unix)'.dependencies]\nnix = \"0\"\n")], "not on `nix`");
        catches(check, &[(MANIFEST, "[dependencies\n")], "cannot be read");
    }

    #[test]
    fn the_allowed_three_and_test_dependencies_pass() {
        let text = "[dependencies]\nserde = \"1\"\nserde_json = \"1\"\nthiserror = \"2\"\n[dev-dependencies]\nproptest = \"1\"\n";
        passes(check, &[(MANIFEST, text), ("crates/other/Cargo.toml", "[dependencies]\ntokio = \"1\"\n")]);
    }
}
