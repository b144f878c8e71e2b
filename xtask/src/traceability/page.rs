//! Writes the page: a count for each group, a row for each requirement, a row for each known weakness.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::decisions::{Decision, Decisions, WEAKNESSES};
use super::proofs::Proofs;
use super::requirements::{Requirement, Requirements};

/// Tests that a row names; the number of the others is told.
const TESTS_A_ROW: usize = 4;

const HEAD: &str = "# Which test proves what

Written by `cargo xtask traceability` from the names and comments of the tests, [requirements.md](requirements.md) and
`traceability-decisions.txt`. *Proved* and *replaced* name tests that would fail without the behaviour; a requirement is
*replaced* where legwork answers it in another way on purpose, and the tests are those of the replacement. *Not yet* names
the part that does not exist so far. *Open* says why.
";

/// How a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Proved,
    Replaced,
    NotYet,
    Open,
}

struct Row<'a> {
    id: &'a str,
    word: Word,
    text: String,
}

/// The whole page.
pub fn write(requirements: &Requirements, proofs: &Proofs, decisions: &Decisions) -> String {
    let duties: Vec<&Requirement> = requirements.all.iter().filter(|one| one.is_duty).collect();
    let rows: Vec<Row<'_>> = duties.iter().map(|one| row(one, proofs, decisions)).collect();
    let mut page = HEAD.to_owned();
    write_counts(&mut page, &duties, &rows);
    push(&mut page, format_args!("\n## Requirements\n\n| ID | word | tests or reason |\n|---|---|---|\n"));
    for Row { id, word, text } in &rows {
        push(&mut page, format_args!("| {id} | {} | {text} |\n", word.as_str()));
    }
    write_weaknesses(&mut page, decisions);
    page
}

fn row<'a>(requirement: &'a Requirement, proofs: &Proofs, decisions: &Decisions) -> Row<'a> {
    let id = requirement.id.as_str();
    let mut tests: Vec<&str> = proofs.of_id(id).collect();
    let (word, reason) = match decisions.of(id) {
        Some(Decision::Proved(names)) => {
            tests.extend(names.iter().map(String::as_str));
            (Word::Proved, None)
        }
        Some(Decision::Replaced(names)) => {
            tests.extend(names.iter().map(String::as_str));
            (Word::Replaced, None)
        }
        Some(Decision::NotYet(part)) if tests.is_empty() => (Word::NotYet, Some(part.as_str())),
        Some(Decision::Open(reason)) => (Word::Open, Some(reason.as_str())),
        Some(Decision::NotYet(_)) | None if !tests.is_empty() => (Word::Proved, None),
        Some(Decision::NotYet(_)) | None => (Word::Open, Some("no test names it")),
    };
    let word = if word == Word::Proved && requirement.is_replaced { Word::Replaced } else { word };
    tests.sort_unstable();
    tests.dedup();
    Row { id, word, text: reason.map_or_else(|| named(&tests), str::to_owned) }
}

fn named(tests: &[&str]) -> String {
    let mut text =
        tests.iter().take(TESTS_A_ROW).map(|test| format!("`{test}`")).collect::<Vec<_>>().join(", ");
    if tests.len() > TESTS_A_ROW {
        push(&mut text, format_args!(" and {} more", tests.len() - TESTS_A_ROW));
    }
    text
}

fn write_counts(page: &mut String, duties: &[&Requirement], rows: &[Row<'_>]) {
    let mut groups: Vec<&str> = Vec::new();
    let mut counts: BTreeMap<(&str, Word), usize> = BTreeMap::new();
    for (requirement, row) in duties.iter().zip(rows) {
        if groups.last() != Some(&requirement.group()) {
            groups.push(requirement.group());
        }
        *counts.entry((requirement.group(), row.word)).or_default() += 1;
    }
    push(page, format_args!("\n| group | proved | replaced | not yet | open |\n|---|---|---|---|---|\n"));
    let count = |group, word| counts.get(&(group, word)).copied().unwrap_or_default();
    for group in groups {
        let [proved, replaced, not_yet, open] = Word::ALL.map(|word| count(group, word));
        push(page, format_args!("| {group} | {proved} | {replaced} | {not_yet} | {open} |\n"));
    }
    let total = |word| rows.iter().filter(|row| row.word == word).count();
    let [proved, replaced, not_yet, open] = Word::ALL.map(total);
    push(page, format_args!("| **all** | **{proved}** | **{replaced}** | **{not_yet}** | **{open}** |\n"));
    let due = proved + replaced + open;
    let share = if due == 0 { 100.0 } else { (proved + replaced) as f64 * 100.0 / due as f64 };
    push(page, format_args!("\nOf the {due} that are due, {share:.1} % are proved or replaced.\n"));
}

fn write_weaknesses(page: &mut String, decisions: &Decisions) {
    push(
        page,
        format_args!(
            "\n## Known weaknesses of the design before\n\nThe 45 weaknesses that are known of the delegation system whose place \
             legwork takes.\n\n| ID | | tests or reason |\n|---|---|---|\n"
        ),
    );
    for number in 1..=WEAKNESSES {
        let id = format!("W-{number}");
        let (word, text) = match decisions.of(&id) {
            Some(Decision::Proved(tests) | Decision::Replaced(tests)) => {
                ("removed", named(&tests.iter().map(String::as_str).collect::<Vec<_>>()))
            }
            Some(Decision::NotYet(text) | Decision::Open(text)) => ("still there", text.clone()),
            None => ("open", "not decided".to_owned()),
        };
        push(page, format_args!("| {id} | {word} | {text} |\n"));
    }
}

impl Word {
    const ALL: [Word; 4] = [Word::Proved, Word::Replaced, Word::NotYet, Word::Open];

    fn as_str(self) -> &'static str {
        match self {
            Word::Proved => "proved",
            Word::Replaced => "replaced",
            Word::NotYet => "not yet",
            Word::Open => "open",
        }
    }
}

fn push(text: &mut String, piece: std::fmt::Arguments<'_>) {
    text.write_fmt(piece).expect("writing into a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Tree;

    #[test]
    fn every_duty_has_a_row_and_the_share_is_told() {
        let page = "- **AB-1** — text\n- **AB-2** — text *(replaced: so)*\n- **AB-3** — text\n- **AB-4** — text\n- **AB-5** — Later: text\n";
        let source = "#[test]\nfn ab_1_x() {}\n#[test]\nfn ab_2_x() {}\n";
        let tree = Tree::from_texts([("a.rs".to_owned(), source.to_owned())].into());
        let (requirements, proofs) = (Requirements::read(page), Proofs::of(&tree));
        let decisions =
            Decisions::read("AB-4 | not yet | the web\nW-1 | proved | ab_1_x\n", &requirements, &proofs);
        let page = write(&requirements, &proofs, &decisions.expect("sound"));
        for row in [
            "| AB-1 | proved | `ab_1_x` |",
            "| AB-2 | replaced | `ab_2_x` |",
            "| AB-3 | open | no test names it |",
            "| AB-4 | not yet | the web |",
            "| AB | 1 | 1 | 1 | 1 |",
            "Of the 3 that are due, 66.7 % are proved or replaced.",
            "| W-1 | removed | `ab_1_x` |",
            "| W-45 | open | not decided |",
        ] {
            assert!(page.contains(row), "{row} is not in\n{page}");
        }
        assert!(!page.contains("AB-5"));
    }
}
