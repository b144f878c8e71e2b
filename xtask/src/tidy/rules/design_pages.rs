//! `docs/design/` stays findable: an index that lists every page, and a status on each.

use crate::tidy::finding::Finding;
use crate::tidy::tree::Tree;

const RULE: &str = "design-pages";
const FOLDER: &str = "docs/design/";
const INDEX: &str = "docs/design/README.md";
const STATUS: &str = "Status:";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(index) = tree.text(INDEX) else {
        return vec![Finding::of_file(
            RULE,
            INDEX,
            "the index is missing: list every page of the folder in it",
        )];
    };
    let pages = tree.texts().filter(|(path, _)| is_page(path));
    pages.flat_map(|(path, text)| [unlisted(path, index), without_status(path, text)]).flatten().collect()
}

fn is_page(path: &str) -> bool {
    path.starts_with(FOLDER) && path.ends_with(".md") && path != INDEX
}

fn unlisted(path: &str, index: &str) -> Option<Finding> {
    let name = path.strip_prefix(FOLDER)?;
    let message = format!("the page is not listed in {INDEX}");
    (!index.contains(name)).then(|| Finding::of_file(RULE, path, message))
}

fn without_status(path: &str, text: &str) -> Option<Finding> {
    // The line may be set off as bold text or as an item of a list.
    let is_status = |line: &str| line.trim_start_matches(['*', '-', '>', ' ']).starts_with(STATUS);
    let message = "the page has no line `Status: …` (proposed, accepted, replaced by …)";
    (!text.lines().any(is_status)).then(|| Finding::of_file(RULE, path, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    const PAGE: &str = "docs/design/001-one-store.md";

    #[test]
    fn a_missing_index_an_unlisted_page_and_a_missing_status_are_caught() {
        catches(check, &[(PAGE, "Status: accepted")], "the index is missing");
        catches(check, &[(INDEX, "nothing"), (PAGE, "Status: accepted")], "not listed");
        catches(
            check,
            &[(INDEX, "[one store](001-one-store.md)"), (PAGE, "# One store")],
            "no line `Status:",
        );
    }

    #[test]
    fn a_listed_page_with_a_status_passes() {
        passes(
            check,
            &[(INDEX, "[one store](001-one-store.md)"), (PAGE, "# One store\n\n**Status:** accepted\n")],
        );
    }
}
