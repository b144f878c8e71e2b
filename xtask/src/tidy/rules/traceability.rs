//! The page that says which test proves what is the one that the tree gives, and every test it names exists.

use crate::tidy::finding::Finding;
use crate::tidy::tree::Tree;
use crate::traceability::{DECISIONS, PAGE, written};

const RULE: &str = "traceability";

pub fn check(tree: &Tree) -> Vec<Finding> {
    match written(tree) {
        Err(wrong) => wrong.into_iter().map(|line| Finding::of_file(RULE, DECISIONS, line)).collect(),
        Ok(page) if tree.text(PAGE) == Some(page.as_str()) => Vec::new(),
        Ok(_) => vec![Finding::of_file(RULE, PAGE, "it is stale: run `cargo xtask traceability`")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    const REQUIREMENTS: &str = "docs/requirements.md";

    const FILES: [(&str, &str); 3] = [
        (REQUIREMENTS, "- **AB-1** — text\n"),
        (DECISIONS, "AB-1 | proved | a_test\n"),
        ("a.rs", "#[test]\nfn a_test() {}\n"),
    ];

    #[test]
    fn a_stale_page_and_a_test_that_is_gone_are_caught() {
        catches(check, &[FILES[0], FILES[1], FILES[2], (PAGE, "old")], "stale");
        catches(check, &[FILES[0], FILES[1], (PAGE, "old")], "no test `a_test`");
        catches(check, &[FILES[0]], "missing");
    }

    #[test]
    fn the_page_of_the_tree_passes() {
        let texts = FILES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let page = written(&Tree::from_texts(texts)).expect("the decisions are sound");
        passes(check, &[FILES[0], FILES[1], FILES[2], (PAGE, page.as_str())]);
    }
}
