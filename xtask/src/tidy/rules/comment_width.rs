//! Comments end before a line gets too long to be read. rustfmt breaks code and leaves comments as they are.

use crate::tidy::finding::Finding;
use crate::tidy::rust_file::RustFile;
use crate::tidy::tree::Tree;

const RULE: &str = "comment-width";
/// Wrap at 120; what is a few letters longer is left alone.
const COLUMNS_MAX: usize = 132;

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().iter().flat_map(wide).collect()
}

fn wide(file: &RustFile) -> impl Iterator<Item = Finding> {
    let numbered = file.text.lines().enumerate().map(|(index, line)| (index + 1, line, line.chars().count()));
    let wide = numbered.filter(|(_, line, columns)| *columns > COLUMNS_MAX && is_breakable_comment(line));
    wide.map(|(line, _, columns)| {
        let message = format!("a comment of {columns} columns, the limit is {COLUMNS_MAX}: wrap it at 120");
        Finding::at(RULE, file.place(line), message)
    })
}

/// Whether the line is a comment of several words; an address alone cannot be broken.
fn is_breakable_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") && line.split_whitespace().count() > 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    #[test]
    fn a_wide_comment_is_caught() {
        let text = format!("fn a() {{}}\n    /// {}\n", "word ".repeat(26));
        catches(check, &[("a.rs", &text)], "a.rs:2: comment-width: a comment of 138 columns");
    }

    #[test]
    fn wide_code_an_address_and_columns_that_are_no_bytes_pass() {
        let address = format!("//! https://{}\n", "a".repeat(200));
        passes(check, &[("a.rs", &address), ("b.rs", &format!("let a = \"{}\";\n", "b ".repeat(100)))]);
        passes(check, &[("a.rs", &format!("// {}\n", "ü ".repeat(64)))]);
    }
}
