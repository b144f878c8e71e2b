//! ARCHITECTURE.md tells the truth about what exists: it names every crate and every port, and no crate or path that is
//! not there.

use crate::tidy::finding::{Finding, Place};
use crate::tidy::rust_file::RustFile;
use crate::tidy::scan::{has_word, in_name, leading_name, word_offsets};
use crate::tidy::tree::Tree;

const RULE: &str = "architecture";
const PAGE: &str = "ARCHITECTURE.md";
const PORTS: &str = "crates/legwork-core/src/ports";
/// The two ports that live with the agent and not in core.
const AGENT_PORTS: [&str; 2] = ["Model", "Tool"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.text(PAGE) else {
        return vec![Finding::of_file(
            RULE,
            PAGE,
            "the page is missing: it tells newcomers where things are",
        )];
    };
    let mut findings = unnamed(tree, page);
    for (index, line) in page.lines().enumerate() {
        let place = Place { path: PAGE, line: index + 1 };
        findings.extend(
            absent(tree, line)
                .map(|name| Finding::at(RULE, place, format!("`{name}` is named here and does not exist"))),
        );
    }
    findings
}

fn unnamed(tree: &Tree, page: &str) -> Vec<Finding> {
    let crates = tree.crates().into_iter().filter(|name| !names_crate(page, name));
    let crates = crates.map(|name| format!("the crate `{name}` is not named here"));
    let ports = ports(tree).into_iter().filter(|name| !has_word(page, name));
    let ports = ports.map(|name| format!("the port `{name}` is not named here"));
    crates.chain(ports).map(|message| Finding::of_file(RULE, PAGE, message)).collect()
}

/// Whether the page names a crate; `legwork-core` does not name `legwork`.
fn names_crate(page: &str, name: &str) -> bool {
    word_offsets(page, name).any(|offset| !page[offset + name.len()..].starts_with('-'))
}

fn ports(tree: &Tree) -> Vec<&str> {
    let in_core = tree.rust().iter().filter(|file| file.path.starts_with(PORTS)).flat_map(public_traits);
    AGENT_PORTS.into_iter().chain(in_core).collect()
}

fn public_traits(file: &RustFile) -> impl Iterator<Item = &str> {
    let traits = file.code.match_indices("pub trait ");
    traits.map(|(offset, keyword)| leading_name(&file.code[offset + keyword.len()..]))
}

/// The crates and paths below `crates/` that a line names and the tree does not have.
fn absent<'a>(tree: &'a Tree, line: &'a str) -> impl Iterator<Item = &'a str> {
    let words = line.split(|c: char| !(in_name(c) || "-/.".contains(c)));
    let words = words.map(|word| word.trim_end_matches('.'));
    words.filter(|word| match word.strip_prefix("crates/") {
        Some(rest) => !rest.is_empty() && !tree.holds(word),
        None => is_crate_name(word) && !tree.crates().contains(word.trim_end_matches('/')),
    })
}

/// Whether a word can only be one of our crates, such as `legwork-core` or `legwork-core/`.
fn is_crate_name(word: &str) -> bool {
    word.strip_prefix("legwork-")
        .is_some_and(|rest| rest.trim_end_matches('/').chars().all(|c| c.is_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    const CORE: (&str, &str) = ("crates/legwork-core/Cargo.toml", "");
    const BINARY: (&str, &str) = ("crates/legwork/Cargo.toml", "");
    const STORE: (&str, &str) =
        ("crates/legwork-core/src/ports/store.rs", "pub trait Store: Send {}\ntrait Inner {}");

    #[test]
    fn a_missing_page_is_caught() {
        catches(check, &[CORE], "the page is missing");
    }

    #[test]
    fn what_the_page_leaves_out_is_caught() {
        catches(check, &[CORE, STORE, (PAGE, "`legwork-core`: Model, Tool")], "port `Store` is not named");
        catches(check, &[CORE, STORE, (PAGE, "`legwork-core`: Store, Model")], "port `Tool` is not named");
        catches(
            check,
            &[CORE, BINARY, (PAGE, "`legwork-core`: Model, Tool")],
            "crate `legwork` is not named",
        );
    }

    #[test]
    fn what_the_page_makes_up_is_caught() {
        catches(check, &[CORE, (PAGE, "legwork-core\nlegwork-cloud/ Model Tool")], "ARCHITECTURE.md:2");
        catches(
            check,
            &[CORE, (PAGE, "legwork-core Model Tool\n`crates/legwork-core/src/gone.rs`.")],
            "gone.rs` is named",
        );
    }

    #[test]
    fn a_true_page_passes() {
        let page = "crates/\n  legwork-core/  Store\n  legwork/  the binary\nSee crates/legwork-core/src/ports/store.rs. Model, Tool.";
        passes(check, &[CORE, BINARY, STORE, (PAGE, page)]);
    }
}
