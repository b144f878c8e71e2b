//! ARCHITECTURE.md tells the truth about what exists: it names every crate, every port and in its codemap every module of a
//! crate's root, and no crate, path or module that is not there.

use crate::tidy::finding::{Finding, Place};
use crate::tidy::rust_file::RustFile;
use crate::tidy::scan::{has_word, in_name, leading_name, word_offsets};
use crate::tidy::tree::Tree;

const RULE: &str = "architecture";
const PAGE: &str = "ARCHITECTURE.md";
const CODEMAP: &str = "## Codemap";
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
    findings.extend(tree.crates().into_iter().flat_map(|name| misplaced(tree, page, name)));
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

/// What the part of the codemap about one crate leaves out of the modules of its root, and what it makes up.
fn misplaced(tree: &Tree, page: &str, name: &str) -> Vec<Finding> {
    let named = named_modules(page, name);
    let left_out = root_modules(tree, name).into_iter();
    let left_out = left_out.filter(|module| !named.iter().any(|(_, named)| named == module));
    let left_out = left_out.map(|module| {
        let message =
            format!("the module `{module}` is not in the part of the codemap about `crates/{name}/`");
        Finding::of_file(RULE, PAGE, message)
    });
    let made_up = named.iter().filter(|(_, module)| !has_module(tree, name, module));
    let made_up = made_up.map(|(line, module)| {
        let message = format!("`crates/{name}/` has no module `{module}`");
        Finding::at(RULE, Place { path: PAGE, line: *line }, message)
    });
    left_out.chain(made_up).collect()
}

/// The modules that the part of the codemap about one crate names, with their lines.
fn named_modules<'a>(page: &'a str, name: &str) -> Vec<(usize, &'a str)> {
    let folder = format!("crates/{name}");
    let numbered = page.lines().enumerate().map(|(index, line)| (index + 1, line));
    let map = numbered.skip_while(|(_, line)| *line != CODEMAP).skip(1);
    let map = map.take_while(|(_, line)| !line.starts_with("## "));
    let part = map.skip_while(|(_, line)| begun_by(line) != Some(&folder));
    let part = part.enumerate().take_while(|(index, (_, line))| *index == 0 || begun_by(line).is_none());
    let quoted = part.flat_map(|(_, (number, line))| {
        line.split('`').skip(1).step_by(2).map(move |word| (number, word.trim_end_matches('/')))
    });
    quoted.filter(|(_, word)| is_module_name(word)).collect()
}

/// The folder whose part of the codemap begins with this line.
fn begun_by(line: &str) -> Option<&str> {
    line.strip_prefix('`')?.split_once("/` — ").map(|(folder, _)| folder)
}

fn is_module_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The modules that a crate's `lib.rs` and `main.rs` declare.
fn root_modules<'a>(tree: &'a Tree, name: &str) -> Vec<&'a str> {
    let roots = ["lib.rs", "main.rs"].map(|file| format!("crates/{name}/src/{file}"));
    let roots = tree.rust().iter().filter(|file| roots.contains(&file.path));
    let lines = roots.flat_map(RustFile::code_lines).map(|(_, line)| line.trim_end());
    let declared = lines.filter_map(|line| line.strip_suffix(';')?.rsplit_once("mod "));
    let declared = declared.filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
    declared.map(|(_, module)| module).collect()
}

/// Whether a crate has such a module, at whatever depth.
fn has_module(tree: &Tree, name: &str, module: &str) -> bool {
    let source = format!("crates/{name}/src/");
    let (file, folder) = (format!("/{module}.rs"), format!("/{module}/"));
    let within = tree.rust().iter().filter(|known| known.path.starts_with(&source));
    within
        .map(|known| &known.path[source.len() - 1..])
        .any(|path| path.ends_with(&file) || path.contains(&folder))
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
    fn a_module_that_the_codemap_leaves_out_or_makes_up_is_caught() {
        let root = ("crates/legwork/src/main.rs", "mod wire;\npub mod chat;\nmod tests {}\n");
        let parts = [("crates/legwork/src/wire.rs", ""), ("crates/legwork/src/chat/view.rs", "")];
        let page = |map: &str| format!("Model, Tool\n{CODEMAP}\n\n{map}\n## Ports\n`gone`\n");
        let check = |map: &str, part: &str| {
            catches(super::check, &[BINARY, root, parts[0], parts[1], (PAGE, &page(map))], part);
        };
        check("`crates/legwork/` — the binary: `chat/`.", "the module `wire` is not in the part");
        check("`crates/legwork/` — `wire`,\n`chat/` (`view`), `lost`.", "ARCHITECTURE.md:5");
        let others = "`crates/legwork/` — `chat/`: `view`\n\n`crates/legwork-core/` — `wire`";
        let core = ("crates/legwork-core/src/wire.rs", "");
        catches(
            super::check,
            &[BINARY, CORE, root, core, parts[1], (PAGE, &page(others))],
            "the module `wire`",
        );
        let right = "`crates/legwork/` — `chat/`: `view`, `Book::step`\n- `wire`: `tool`-free";
        let tool = ("crates/legwork/src/tool.rs", "");
        passes(super::check, &[BINARY, root, tool, parts[0], parts[1], (PAGE, &page(right))]);
    }

    #[test]
    fn a_true_page_passes() {
        let page = "crates/\n  legwork-core/  Store\n  legwork/  the binary\nSee crates/legwork-core/src/ports/store.rs. Model, Tool.";
        passes(check, &[CORE, BINARY, STORE, (PAGE, page)]);
    }
}
