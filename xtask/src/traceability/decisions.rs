//! What cannot be read off a test's name: which requirements are open or wait for a part that does not exist yet and why,
//! and what became of the known weaknesses of the design that legwork takes the place of.
//!
//! One decision a line, `ID | word | text`; `#` begins a comment. A group and a star, such as `NEXT-*`, stands for all
//! of the group that nothing else is said of.

use std::collections::BTreeMap;

use super::proofs::Proofs;
use super::requirements::Requirements;

/// How many weaknesses there are.
pub const WEAKNESSES: u32 = 45;

/// What is decided of one id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// These tests prove it, whatever their names.
    Proved(Vec<String>),
    /// Legwork answers it in another way, which these tests prove.
    Replaced(Vec<String>),
    /// It belongs to a part that does not exist yet, named here.
    NotYet(String),
    /// It does not hold, for this reason.
    Open(String),
}

/// All decisions.
#[derive(Debug, Default)]
pub struct Decisions {
    by_id: BTreeMap<String, Decision>,
}

impl Decisions {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// One line for everything that is wrong with it.
    pub fn read(text: &str, requirements: &Requirements, proofs: &Proofs) -> Result<Self, Vec<String>> {
        let mut decisions = Decisions::default();
        let mut wrong = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match decision(line, requirements, proofs) {
                Ok((id, decision)) if decisions.by_id.contains_key(&id) => {
                    wrong.push(format!("line {number}: {id} is decided twice: {decision:?}"));
                }
                Ok((id, decision)) => {
                    decisions.by_id.insert(id, decision);
                }
                Err(error) => wrong.push(format!("line {number}: {error}")),
            }
        }
        if wrong.is_empty() { Ok(decisions) } else { Err(wrong) }
    }

    /// What is decided of `id`, if anything is.
    pub fn of(&self, id: &str) -> Option<&Decision> {
        let group = id.split_once('-').map_or(id, |(group, _)| group);
        self.by_id.get(id).or_else(|| self.by_id.get(&format!("{group}-*")))
    }
}

/// The ids that the file calls replaced, whether the rest of it is sound or not.
pub fn ids_decided_replaced(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (id, rest) = line.split_once('|')?;
        let (word, _) = rest.split_once('|')?;
        (word.trim() == "replaced").then(|| id.trim())
    })
}

fn decision(line: &str, requirements: &Requirements, proofs: &Proofs) -> Result<(String, Decision), String> {
    let parts: Vec<&str> = line.splitn(3, '|').map(str::trim).collect();
    let [id, word, text] = parts[..] else {
        return Err("write `ID | word | text`".to_owned());
    };
    if !exists(id, requirements) {
        return Err(format!("there is no `{id}`"));
    }
    if text.is_empty() {
        return Err(format!("{id}: say which tests, or why"));
    }
    let decision = match word {
        "proved" => Decision::Proved(tests(text, proofs)?),
        "replaced" => Decision::Replaced(tests(text, proofs)?),
        "not yet" => Decision::NotYet(text.to_owned()),
        "open" => Decision::Open(text.to_owned()),
        other => return Err(format!("{id}: `{other}` is none of proved, replaced, not yet and open")),
    };
    Ok((id.to_owned(), decision))
}

fn exists(id: &str, requirements: &Requirements) -> bool {
    let weakness = id.strip_prefix("W-").and_then(|number| number.parse::<u32>().ok());
    match (weakness, id.strip_suffix("-*")) {
        (Some(number), _) => (1..=WEAKNESSES).contains(&number),
        (None, Some(group)) => requirements.all.iter().any(|requirement| requirement.group() == group),
        (None, None) => requirements.get(id).is_some(),
    }
}

fn tests(text: &str, proofs: &Proofs) -> Result<Vec<String>, String> {
    let names: Vec<&str> = text.split_whitespace().collect();
    match names.iter().find(|name| !proofs.has(name)) {
        Some(name) => Err(format!("there is no test `{name}`")),
        None => Ok(names.into_iter().map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Tree;

    fn read(text: &str) -> Result<Decisions, Vec<String>> {
        let page = "- **AB-1** — text\n- **AB-2** — text\n";
        let source = "#[test]\nfn a_test() {}\n";
        let tree = Tree::from_texts([("a.rs".to_owned(), source.to_owned())].into());
        Decisions::read(text, &Requirements::read(page), &Proofs::of(&tree))
    }

    #[test]
    fn decisions_are_read_and_a_star_stands_for_the_rest() {
        let decisions =
            read("# why\nAB-1 | proved | a_test\nAB-* | not yet | later\nW-45 | open | so\n").expect("sound");
        assert_eq!(decisions.of("AB-1"), Some(&Decision::Proved(vec!["a_test".to_owned()])));
        assert_eq!(decisions.of("AB-2"), Some(&Decision::NotYet("later".to_owned())));
        assert_eq!(decisions.of("CD-1"), None);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let lines = "AB-3 | open | x\nAB-1 | proved | no_test\nAB-1 | maybe | x\nAB-1 open\nW-46 | open | x\nAB-2 | open |\n";
        let wrong = read(lines).expect_err("all of it");
        assert_eq!(wrong.len(), 6, "{wrong:?}");
        assert!(wrong[1].contains("line 2") && wrong[1].contains("no_test"));
        assert!(read("AB-1 | open | x\nAB-1 | open | y\n").is_err());
    }
}
