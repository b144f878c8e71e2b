//! Each crate introduces itself in about five lines: what it owns, what it does not own, where to enter, its tests, what to
//! read next.

use crate::tidy::finding::Finding;
use crate::tidy::tree::Tree;

const RULE: &str = "crate-readmes";
const LINES_MAX: usize = 15;
/// What the page must speak of, and the word it is told by.
const TOPICS: [(&str, &str); 5] = [
    ("owns", "what it owns"),
    ("does not", "what it does not own"),
    ("entry", "its entry type"),
    ("test", "its tests"),
    ("next", "what to read next"),
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.crates().into_iter().map(|name| format!("crates/{name}/README.md"));
    pages
        .filter_map(|path| {
            let message = complaint(tree.text(&path))?;
            Some(Finding::of_file(RULE, &path, message))
        })
        .collect()
}

fn complaint(page: Option<&str>) -> Option<String> {
    let Some(page) = page else {
        return Some(format!("the page is missing: about five lines on {}", topics(&TOPICS)));
    };
    let lower = page.to_lowercase();
    let missing: Vec<_> = TOPICS.into_iter().filter(|(word, _)| !lower.contains(word)).collect();
    let lines = page.lines().filter(|line| !line.trim().is_empty()).count();
    match (missing.as_slice(), lines) {
        ([], lines) if lines <= LINES_MAX => None,
        ([], lines) => {
            Some(format!("{lines} lines; about five are meant, the rest belongs into ARCHITECTURE.md"))
        }
        (missing, _) => Some(format!("the page does not say {}", topics(missing))),
    }
}

/// The topics as a sentence, each with the word that is looked for.
fn topics(topics: &[(&str, &str)]) -> String {
    topics.iter().map(|(word, topic)| format!("{topic} (\"{word}\")")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    const MANIFEST: (&str, &str) = ("crates/x/Cargo.toml", "");
    const README: &str = "crates/x/README.md";
    const FIVE: &str = "# x\n\nOwns: a\nDoes not own: b\nEntry type: `C`\nTests: d\nRead next: e\n";

    #[test]
    fn missing_silent_and_long_pages_are_caught() {
        catches(check, &[MANIFEST], "the page is missing");
        catches(check, &[MANIFEST, (README, &FIVE.replace("Tests: d", ""))], "does not say its tests");
        catches(check, &[MANIFEST, (README, &format!("{FIVE}{}", "more\n".repeat(10)))], "16 lines");
    }

    #[test]
    fn five_lines_pass() {
        passes(check, &[MANIFEST, (README, FIVE)]);
    }
}
