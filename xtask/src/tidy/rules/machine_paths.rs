//! No path of somebody's machine: what is written here must work anywhere.

use crate::tidy::finding::{Finding, Place};
use crate::tidy::scan::in_name;
use crate::tidy::tree::Tree;

const RULE: &str = "machine-paths";
// Written in two parts, because this rule reads its own file too.
const FOLDERS: [&str; 2] = [concat!("/", "work/"), concat!("/", "root/")];
const HOMES: [&str; 2] = [concat!("/", "home/"), concat!("/", "Users/")];

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.texts().flat_map(|(path, text)| lines_with_paths(path, text)).collect()
}

fn lines_with_paths(path: &str, text: &str) -> Vec<Finding> {
    let numbered = text.lines().enumerate();
    let found = numbered.filter_map(|(index, line)| Some((index + 1, machine_path(line)?)));
    found.map(|(line, folder)| Finding::at(RULE, Place { path, line }, told(folder))).collect()
}

fn told(folder: &str) -> String {
    format!("`{folder}…` is a path of one machine: use a relative path, a variable or a temporary folder")
}

fn machine_path(line: &str) -> Option<&'static str> {
    let folder = FOLDERS.into_iter().find(|folder| begins_a_path(line, folder).next().is_some());
    folder.or_else(|| HOMES.into_iter().find(|home| begins_a_path(line, home).any(names_somebody)))
}

/// What follows each place in `line` where an absolute path begins with `folder`.
fn begins_a_path<'a>(line: &'a str, folder: &'a str) -> impl Iterator<Item = &'a str> {
    let places = line.match_indices(folder).filter(|(offset, _)| {
        let before = line[..*offset].chars().next_back();
        !before.is_some_and(|c| in_name(c) || "./~-}>)$*".contains(c))
    });
    places.map(|(offset, _)| &line[offset + folder.len()..])
}

fn names_somebody(rest: &str) -> bool {
    rest.starts_with(in_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    #[test]
    fn paths_of_a_machine_are_caught_in_any_file() {
        let line = |path: &str| format!("one\ncd {path}\n");
        catches(check, &[("docs/a.md", &line(concat!("/", "work/main")))], "docs/a.md:2");
        catches(check, &[("a.rs", &line(concat!("\"/", "root/.cargo\"")))], "a.rs:2");
        catches(check, &[(".ci/run", &line(concat!("/", "home/jo/legwork")))], ".ci/run:2");
    }

    #[test]
    fn other_paths_pass() {
        let text = "legwork/work/a ./root/b $HOME/d https://example.org/home/e /home/<name>/f";
        passes(check, &[("a.md", text)]);
    }
}
