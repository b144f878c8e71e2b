//! Every source file begins by saying, in `//!` lines, what it owns and what it does not do.

use crate::tidy::finding::Finding;
use crate::tidy::rust_file::RustFile;
use crate::tidy::tree::Tree;

const RULE: &str = "module-docs";
/// Fewer words than this are a name, not a statement.
const WORDS_MIN: usize = 4;

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().iter().filter_map(undocumented).collect()
}

fn undocumented(file: &RustFile) -> Option<Finding> {
    let words: usize = doc_lines(&file.text).map(|line| line.split_whitespace().count()).sum();
    let message = match words {
        0 => "begin the file with `//!`: what it owns and what it does not do",
        few if few < WORDS_MIN => {
            "the `//!` lines only name the module: say what it owns and what it does not do"
        }
        _ => return None,
    };
    Some(Finding::at(RULE, file.place(1), message))
}

fn doc_lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().skip_while(|line| line.trim().is_empty());
    lines.map_while(|line| line.trim().strip_prefix("//!"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    #[test]
    fn missing_and_empty_docs_are_caught() {
        catches(check, &[("a.rs", "use std::fmt;\n//! Too late to say something.")], "begin the file");
        catches(check, &[("a.rs", "//! legwork-core\n")], "only name the module");
    }

    #[test]
    fn a_statement_passes() {
        passes(check, &[("a.rs", "//! Owns the queue.\n//! It starts nothing.\n\nfn a() {}\n")]);
    }
}
