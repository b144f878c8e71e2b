//! Small trees for the tests of the rules, and the two questions asked of a rule: does it catch this, does it pass that.

use super::finding::Finding;
use super::tree::Tree;

type Rule = fn(&Tree) -> Vec<Finding>;
type Files<'a> = &'a [(&'a str, &'a str)];

/// The rule finds exactly one breach in these files, and its message has `part` in it.
#[track_caller]
pub fn catches(rule: Rule, files: Files<'_>, part: &str) {
    let found = rule(&tree(files));
    assert_eq!(found.len(), 1, "one finding expected: {found:?}");
    let told = found[0].to_string();
    assert!(told.contains(part), "{told:?} does not say {part:?}");
}

/// The rule has nothing to say about these files.
#[track_caller]
pub fn passes(rule: Rule, files: Files<'_>) {
    assert_eq!(rule(&tree(files)), []);
}

fn tree(files: Files<'_>) -> Tree {
    Tree::from_texts(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
}
