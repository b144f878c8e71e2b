//! The changelog always has a place for what is not released yet.

use crate::tidy::finding::Finding;
use crate::tidy::tree::Tree;

const RULE: &str = "changelog";
const PAGE: &str = "CHANGELOG.md";
const SECTION: &str = "## [Unreleased]";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let message = match tree.text(PAGE) {
        None => "the page is missing",
        Some(page) if !page.lines().any(|line| line.trim_end() == SECTION) => {
            "there is no section `## [Unreleased]`"
        }
        Some(_) => return Vec::new(),
    };
    vec![Finding::of_file(RULE, PAGE, message)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    #[test]
    fn a_missing_page_or_section_is_caught() {
        catches(check, &[], "the page is missing");
        catches(check, &[(PAGE, "# Changelog\n\n## 0.1.0\n")], "no section");
    }

    #[test]
    fn an_unreleased_section_passes() {
        passes(check, &[(PAGE, "# Changelog\n\n## [Unreleased]\n\n### Added\n")]);
    }
}
