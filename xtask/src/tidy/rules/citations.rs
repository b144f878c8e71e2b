//! What code, tests and pages cite exists: requirement ids, kinds of failure and invariants by number. Whether a test proves
//! what it cites is for people to judge.

use std::collections::BTreeSet;

use crate::tidy::finding::{Finding, Place};
use crate::tidy::rust_file::RustFile;
use crate::tidy::scan::{in_name, leading_name, word_offsets};
use crate::tidy::tree::Tree;

const RULE: &str = "citations";
const REQUIREMENTS: &str = "docs/requirements.md";
const INVARIANTS: &str = "docs/invariants.md";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let (Some(requirements), Some(invariants)) = (tree.text(REQUIREMENTS), tree.text(INVARIANTS)) else {
        return vec![Finding::of_file(RULE, "docs", "requirements.md or invariants.md is missing")];
    };
    let known = Known::new(requirements, invariants);
    let mut findings = repeated(REQUIREMENTS, requirements);
    findings.extend(repeated(INVARIANTS, invariants));
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs") || path.ends_with(".md")) {
        findings.extend(unknown_ids(&known, path, text));
    }
    findings.extend(tree.rust().iter().flat_map(|file| unknown_in_names(&known, file)));
    findings
}

/// The ids that the two pages define.
struct Known<'a> {
    ids: BTreeSet<&'a str>,
    groups: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    fn new(requirements: &'a str, invariants: &'a str) -> Self {
        let groups =
            defined(requirements).filter_map(|id| id.split_once('-')).map(|(group, _)| group).collect();
        Self { ids: defined(requirements).chain(defined(invariants)).collect(), groups }
    }

    /// Whether `id` has the form of one of ours and is none.
    fn lacks(&self, id: &str) -> bool {
        let number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let is_requirement =
            id.split_once('-').is_some_and(|(group, n)| self.groups.contains(group) && number(n));
        let is_kind = id.strip_prefix('K').is_some_and(|n| n.len() == 2 && number(n));
        (is_requirement || is_kind) && !self.ids.contains(id)
    }
}

/// The ids that a page defines: its lines are `- **ID** — text`.
fn defined(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter_map(|line| Some(line.strip_prefix("- **")?.split_once("** — ")?.0))
}

fn repeated(path: &str, page: &str) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let twice = defined(page).filter(|id| !seen.insert(*id)).map(|id| format!("`{id}` is defined twice"));
    twice.map(|message| Finding::of_file(RULE, path, message)).collect()
}

fn unknown_ids(known: &Known<'_>, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let place = Place { path, line: index + 1 };
        let words = line.split(|c: char| !in_name(c) && c != '-').filter(|word| known.lacks(word));
        findings.extend(words.map(|id| refuse(place, id)));
        findings.extend(unknown_invariants(known, line).map(|id| refuse(place, &id)));
    }
    findings
}

/// `invariant 15` and `Invariant 15` are citations as well.
fn unknown_invariants<'a>(known: &'a Known<'_>, line: &'a str) -> impl Iterator<Item = String> + 'a {
    let words = ["invariant", "Invariant"].into_iter().flat_map(|word| word_offsets(line, word));
    let numbers = words.map(|offset| leading_name(&line[offset + "invariant".len()..]));
    let numbers = numbers.filter(|number| number.parse::<u32>().is_ok());
    numbers.map(|number| format!("Invariant {number}")).filter(|id| !known.ids.contains(id.as_str()))
}

/// Functions named for a requirement or a kind, such as `disp_16_…` and `k02_…`.
fn unknown_in_names(known: &Known<'_>, file: &RustFile) -> Vec<Finding> {
    let functions =
        word_offsets(&file.code, "fn").map(|offset| (offset, leading_name(&file.code[offset + 2..])));
    let unknown = functions.filter_map(|(offset, name)| {
        let id = cited(name).find(|id| known.lacks(id))?;
        let message = format!(
            "the name `{name}` cites `{id}`, which does not exist: cite another, or begin with a word"
        );
        Some(Finding::at(RULE, file.place(file.line_of(offset)), message))
    });
    unknown.collect()
}

/// The ids that a function's name can stand for.
fn cited(name: &str) -> impl Iterator<Item = String> {
    let mut parts = name.split('_');
    let (first, second) = (parts.next().unwrap_or_default().to_uppercase(), parts.next().unwrap_or_default());
    let number = second.parse::<u32>().ok().map(|number| format!("{first}-{number}"));
    number.into_iter().chain([first])
}

fn refuse(place: Place<'_>, id: &str) -> Finding {
    Finding::at(RULE, place, format!("`{id}` is defined neither in {REQUIREMENTS} nor in {INVARIANTS}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    const PAGES: [(&str, &str); 2] = [
        (REQUIREMENTS, "- **DISP-1** — text\n- **DISP-16** — text\n"),
        (INVARIANTS, "- **Invariant 1** — text\n- **K02** — text\n"),
    ];

    // The ids of these samples are put together, because this rule reads its own file too.
    fn check_catches(path: &str, text: &str, part: &str) {
        catches(check, &[PAGES[0], PAGES[1], (path, text)], part);
    }

    #[test]
    fn ids_that_do_not_exist_are_caught() {
        check_catches("a.rs", concat!("\n// see DISP", "-17."), concat!("a.rs:2: citations: `DISP", "-17`"));
        check_catches("docs/a.md", concat!("(K", "44)"), concat!("`K", "44`"));
        check_catches("a.rs", concat!("// invariant", " 38"), concat!("`Invariant", " 38`"));
    }

    #[test]
    fn test_names_that_cite_nothing_are_caught() {
        check_catches("a.rs", "#[test]\nfn disp_99_units() {}", "a.rs:2");
        check_catches("a.rs", "fn k77_orphans() {}", "a.rs:1");
    }

    #[test]
    fn an_id_defined_twice_and_a_missing_page_are_caught() {
        let twice = (REQUIREMENTS, "- **DISP-1** — text\n- **DISP-1** — text\n");
        catches(check, &[twice, PAGES[1]], "defined twice");
        catches(check, &[PAGES[0]], "is missing");
    }

    #[test]
    fn known_ids_and_other_words_pass() {
        let text = "// DISP-1, DISP-16…, K02, UTF-8, K8S, XDISP-99, the invariants\nfn disp_16_a() {}\nfn disp_01_b() {}\n\
                    fn k02_c() {}\nfn display_7() {}\nfn k_2() {}\n";
        passes(check, &[PAGES[0], PAGES[1], ("a.rs", text)]);
    }
}
