//! Which tests there are and what they say they prove: by their names (`disp_16_…`, also `disp_16_disp_17_…`), and by a
//! comment line of theirs that begins with `Proves`. Whether a test proves what it says is for people to judge.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{RustFile, Tree, in_name, leading_name, word_offsets};

/// The suite's cases are tests in every crate that says `store_suite!`.
const SUITE: &str = "crates/legwork-testkit/src/store_suite/cases/";

/// The tests of a tree.
#[derive(Debug, Default)]
pub struct Proofs {
    names: BTreeSet<String>,
    by_id: BTreeMap<String, BTreeSet<String>>,
}

impl Proofs {
    /// Reads all tests of the tree.
    pub fn of(tree: &Tree) -> Self {
        let mut proofs = Proofs::default();
        for file in tree.rust() {
            for (name, comment) in tests_in(file) {
                proofs.add(name, &comment);
            }
        }
        proofs
    }

    /// Whether a test has this name.
    pub fn has(&self, test: &str) -> bool {
        self.names.contains(test)
    }

    /// The tests that say they prove `id`, in order.
    pub fn of_id(&self, id: &str) -> impl Iterator<Item = &str> {
        self.by_id.get(id).into_iter().flatten().map(String::as_str)
    }

    fn add(&mut self, name: &str, comment: &str) {
        self.names.insert(name.to_owned());
        for id in ids_in_name(name).into_iter().chain(ids_in_comment(comment)) {
            self.by_id.entry(id).or_default().insert(name.to_owned());
        }
    }
}

/// The tests of a file: their names, and the comment lines right above them.
fn tests_in(file: &RustFile) -> Vec<(&str, String)> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut tests = Vec::new();
    for offset in word_offsets(&file.code, "fn") {
        let line = file.line_of(offset);
        let above = Above::read(&lines[..line - 1]);
        let is_case = file.path.starts_with(SUITE) && lines[line - 1].starts_with("pub async fn");
        if above.is_test || is_case {
            tests.push((leading_name(&file.code[offset + 2..]), above.comment));
        }
    }
    tests
}

/// What stands right above a function: attributes and comments.
struct Above {
    is_test: bool,
    comment: String,
}

impl Above {
    fn read(lines: &[&str]) -> Self {
        let mut above = Above { is_test: false, comment: String::new() };
        for line in lines.iter().rev().map(|line| line.trim()) {
            if let Some(text) = line.strip_prefix("//") {
                above.comment = format!("{}\n{}", text.trim_start_matches('/').trim(), above.comment);
            } else if line.starts_with("#[") || line.ends_with(")]") {
                above.is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
            } else {
                break;
            }
        }
        above
    }
}

/// `disp_16_disp_17_units_are…` names two.
fn ids_in_name(name: &str) -> Vec<String> {
    let mut parts = name.split('_');
    let mut ids = Vec::new();
    while let (Some(group), Some(number)) = (parts.next(), parts.next()) {
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let Some(number) = number.parse::<u32>().ok().filter(|_| is_number) else { break };
        ids.push(format!("{}-{number}", group.to_uppercase()));
    }
    ids
}

/// All ids from `Proves` to the end of the sentence, also over several lines.
fn ids_in_comment(comment: &str) -> Vec<String> {
    let Some((_, told)) = comment.split_once("Proves ") else { return Vec::new() };
    let sentence = told.split_once('.').map_or(told, |(sentence, _)| sentence);
    let words = sentence.split(|c: char| !in_name(c) && c != '-');
    let is_id = |word: &&str| {
        word.split_once('-').is_some_and(|(group, number)| {
            group.bytes().all(|byte| byte.is_ascii_uppercase()) && number.parse::<u32>().is_ok()
        })
    };
    words.filter(is_id).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The ids are put together, because another rule reads this file too.
    fn id(group: &str, number: u32) -> String {
        format!("{group}-{number}")
    }

    #[test]
    fn a_name_may_stand_for_several_ids() {
        assert_eq!(ids_in_name("disp_16_disp_17_units"), [id("DISP", 16), id("DISP", 17)]);
        assert_eq!(ids_in_name("evt_06_age"), [id("EVT", 6)]);
        assert!(ids_in_name("units_are_whole_2").is_empty());
    }

    #[test]
    fn a_comment_names_more() {
        let comment = format!(
            "A call.\nProves {}, {}\nand {}. Not {}.",
            id("OUT", 1),
            id("OUT", 2),
            id("EVT", 3),
            id("EVT", 4)
        );
        assert_eq!(ids_in_comment(&comment), [id("OUT", 1), id("OUT", 2), id("EVT", 3)]);
    }

    #[test]
    fn only_tests_and_cases_of_the_suite_count() {
        let source = "#[test]\nfn a_1_b() {}\n\nfn c_2_d() {}\n\n#[tokio::test(start_paused = true)]\nasync fn e_3_f() {}\n";
        let case = "/// A case.\npub async fn g_4_h(place: &dyn Place) {}\n\nasync fn i_5_j() {}\n";
        let texts = [
            ("crates/x/src/a.rs".to_owned(), source.to_owned()),
            (format!("{SUITE}claims.rs"), case.to_owned()),
        ];
        let proofs = Proofs::of(&Tree::from_texts(texts.into_iter().collect()));
        let names: Vec<&str> = proofs.names.iter().map(String::as_str).collect();
        assert_eq!(names, ["a_1_b", "e_3_f", "g_4_h"]);
    }
}
