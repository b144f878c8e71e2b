//! What legwork answers otherwise than a requirement says is marked on its line, and listed with its reason on one page. A
//! replacement without a mark or a reason would be a gap with a name.

use crate::tidy::finding::Finding;
use crate::tidy::tree::Tree;
use crate::traceability::{DECISIONS, REQUIREMENTS, Requirements, ids_decided_replaced};
use std::collections::BTreeSet;

const RULE: &str = "replacements";
/// The page with the reasons. The first cell of its rows names requirements.
const PAGE: &str = "docs/design/040-what-is-answered-otherwise.md";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let (Some(requirements), Some(decisions)) = (tree.text(REQUIREMENTS), tree.text(DECISIONS)) else {
        return Vec::new();
    };
    let requirements = Requirements::read(requirements);
    let duties = requirements.all.iter().filter(|one| one.is_duty && one.is_replaced);
    let marked: BTreeSet<&str> = duties.map(|one| one.id.as_str()).collect();
    let listed: BTreeSet<&str> = tree.text(PAGE).unwrap_or_default().lines().flat_map(ids_of_row).collect();
    let decided = ids_decided_replaced(decisions).filter(|id| !marked.contains(id));
    let unmarked = decided.map(|id| {
        Finding::of_file(RULE, DECISIONS, format!("{id} is replaced, and {REQUIREMENTS} has no mark"))
    });
    let unlisted = marked
        .difference(&listed)
        .map(|id| Finding::of_file(RULE, PAGE, format!("{id} is marked as replaced, and no row says why")));
    let spare = listed
        .difference(&marked)
        .map(|id| Finding::of_file(RULE, PAGE, format!("{id} is listed, and not marked as replaced")));
    unmarked.chain(unlisted).chain(spare).collect()
}

/// The requirements that a row of a table is about.
fn ids_of_row(line: &str) -> impl Iterator<Item = &str> {
    let cell = line.strip_prefix("| ").and_then(|rest| rest.split_once(" |")).map_or("", |(cell, _)| cell);
    let is_id = |id: &&str| {
        id.split_once('-').is_some_and(|(group, number)| {
            !group.is_empty()
                && group.bytes().all(|byte| byte.is_ascii_uppercase())
                && number.parse::<u32>().is_ok()
        })
    };
    cell.split(", ").filter(is_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    // The ids are put together, because another rule reads this file too.
    fn files(page: &str, decisions: &str) -> [(&'static str, String); 3] {
        let id = |number: u32| format!("{}-{number}", "AB");
        let (one, two, three) = (id(1), id(2), id(3));
        let requirements =
            format!("- **{one}** — text *(replaced: so)*\n- **{two}** — text\n- **{three}** — History: x\n");
        let filled = |text: &str| text.replace('1', &one).replace('2', &two).replace('3', &three);
        [(REQUIREMENTS, requirements), (DECISIONS, filled(decisions)), (PAGE, filled(page))]
    }

    fn texts<'a>(files: &'a [(&'static str, String); 3]) -> [(&'a str, &'a str); 3] {
        [0, 1, 2].map(|place| (files[place].0, files[place].1.as_str()))
    }

    #[test]
    fn what_is_marked_and_listed_passes() {
        passes(
            check,
            &texts(&files("| 1 | why | instead |\n", "1 | replaced | a_test\n2 | proved | a_test\n")),
        );
    }

    #[test]
    fn a_mark_a_row_or_a_decision_that_stands_alone_is_caught() {
        catches(check, &texts(&files("", "")), "no row says why");
        catches(check, &texts(&files("| 1, 2 | why | instead |\n", "")), "not marked as replaced");
        catches(check, &texts(&files("| 1 | why | instead |\n", "2 | replaced | a_test\n")), "has no mark");
    }
}
