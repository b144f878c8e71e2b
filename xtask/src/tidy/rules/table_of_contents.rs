//! A `mod.rs` is a table of contents: docs, attributes, modules and re-exports. Logic belongs into a file with a name.

use crate::tidy::finding::Finding;
use crate::tidy::rust_file::RustFile;
use crate::tidy::scan::{behind_closing, body_or_end};
use crate::tidy::tree::Tree;

const RULE: &str = "table-of-contents";

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().iter().filter(|file| file.name() == "mod.rs").filter_map(first_stranger).collect()
}

/// The first item of a `mod.rs` that does not belong there.
fn first_stranger(file: &RustFile) -> Option<Finding> {
    let code = &file.code;
    let mut at = 0;
    loop {
        at += code[at..].find(|c: char| !c.is_whitespace())?;
        if code[at..].starts_with('#') {
            at = behind_closing(code, at + code[at..].find('[')?);
            continue;
        }
        let end = item_end(code, at);
        if !belongs(&code[at..end]) {
            let message =
                "mod.rs holds docs, attributes, modules and re-exports: give this a file with a name";
            return Some(Finding::at(RULE, file.place(file.line_of(at)), message));
        }
        at = end;
    }
}

fn item_end(code: &str, start: usize) -> usize {
    match body_or_end(code, start) {
        Some(open) if code[open..].starts_with('{') => {
            let behind = behind_closing(code, open);
            if code[behind..].trim_start().starts_with(';') {
                body_or_end(code, behind).unwrap_or(behind) + 1
            } else {
                behind
            }
        }
        Some(semicolon) => semicolon + 1,
        None => code.len(),
    }
}

/// Whether an item is `mod name;` or a re-export.
fn belongs(item: &str) -> bool {
    let (is_public, rest) = without_visibility(item);
    let rest = rest.trim_start();
    (rest.starts_with("mod ") && rest.ends_with(';')) || (is_public && rest.starts_with("use "))
}

fn without_visibility(item: &str) -> (bool, &str) {
    let Some(rest) = item.strip_prefix("pub") else { return (false, item) };
    match rest.strip_prefix('(') {
        Some(scope) => (true, scope.split_once(')').map_or(scope, |(_, rest)| rest)),
        None => (true, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    const PATH: &str = "crates/x/src/tools/mod.rs";

    #[test]
    fn logic_in_mod_rs_is_caught() {
        catches(check, &[(PATH, "//! Tools.\n\nmod a;\n\npub fn b() {}\n")], "mod.rs:5");
        catches(check, &[(PATH, "//! Tools.\nuse std::fmt;\n")], "mod.rs:2");
        catches(check, &[(PATH, "//! Tools.\nmod a {\n}\n")], "mod.rs:2");
        catches(check, &[(PATH, "//! Tools.\npub struct A;\n")], "mod.rs:2");
    }

    #[test]
    fn a_table_of_contents_passes() {
        let text = "//! Tools.\n#![allow(x)]\n\n/// The first.\n#[cfg(feature = \"a\")]\npub mod a;\nmod b;\n\n\
                    pub use a::{A, B};\npub(crate) use b::C;\n";
        passes(check, &[(PATH, text), ("crates/x/src/lib.rs", "pub fn a() {}")]);
    }
}
