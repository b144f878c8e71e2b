//! The exceptions list: breaches that are known and allowed for now. It may only become shorter, which is kept true by
//! refusing entries that excuse nothing and more entries than `ENTRIES_MAX`.

use super::finding::{Finding, Place};
use super::tree::Tree;

pub const LIST: &str = "xtask/tidy-exceptions.txt";
const RULE: &str = "exceptions";

/// How many entries the list has. Lower it with each entry that goes; it is never raised.
const ENTRIES_MAX: usize = 0;

struct Entry<'a> {
    line: usize,
    rule: &'a str,
    path: &'a str,
    reason: &'a str,
}

/// Removes the findings that the list excuses, and adds what is wrong with the list itself.
pub fn take_off(tree: &Tree, found: Vec<Finding>) -> Vec<Finding> {
    judge(&entries(tree.text(LIST).unwrap_or_default()), found, ENTRIES_MAX)
}

fn judge(entries: &[Entry<'_>], found: Vec<Finding>, entries_max: usize) -> Vec<Finding> {
    let excuses =
        |entry: &Entry<'_>, finding: &Finding| entry.rule == finding.rule && entry.path == finding.path;
    let mut complaints = Vec::new();
    for entry in entries {
        let place = Place { path: LIST, line: entry.line };
        if entry.reason.is_empty() {
            complaints.push(Finding::at(RULE, place, "an entry is RULE PATH REASON; the reason is missing"));
        }
        if !found.iter().any(|finding| excuses(entry, finding)) {
            complaints.push(Finding::at(RULE, place, "this entry excuses nothing any more: remove it"));
        }
    }
    if entries.len() != entries_max {
        let message = format!(
            "{} entries where ENTRIES_MAX in xtask/src/tidy/exceptions.rs says {entries_max}: mend the code instead of \
             adding one, or lower the number after removing one",
            entries.len()
        );
        complaints.push(Finding::of_file(RULE, LIST, message));
    }
    let mut left = found;
    left.retain(|finding| !entries.iter().any(|entry| excuses(entry, finding)));
    left.extend(complaints);
    left
}

fn entries(list: &str) -> Vec<Entry<'_>> {
    let numbered = list.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(line, text)| entry(line, text))
        .collect()
}

fn entry(line: usize, text: &str) -> Entry<'_> {
    let (rule, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (path, reason) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
    Entry { line, rule, path, reason: reason.trim() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, entries_max: usize, expected: &[&str]) {
        let found = vec![Finding::of_file("file-length", "a.rs", "too long")];
        let left = judge(&entries(list), found, entries_max);
        assert_eq!(
            left.iter().map(|finding| finding.message.as_str()).collect::<Vec<_>>().len(),
            expected.len()
        );
        for (finding, part) in left.iter().zip(expected) {
            assert!(finding.message.contains(part), "{finding} does not say {part}");
        }
    }

    #[test]
    fn an_entry_excuses_its_rule_and_path_only() {
        check("# why\nfile-length a.rs a table of states\n", 1, &[]);
        check("", 0, &["too long"]);
        check("names a.rs a table of states\n", 1, &["too long", "excuses nothing"]);
    }

    #[test]
    fn the_list_may_only_shrink() {
        check("file-length a.rs a table of states\n", 0, &["1 entries where"]);
        check("", 1, &["too long", "0 entries where"]);
        check("file-length a.rs\n", 1, &["the reason is missing"]);
    }
}
