//! No drawers: file, folder and module names that say nothing are refused.

use crate::tidy::finding::{Finding, Place};
use crate::tidy::rust_file::RustFile;
use crate::tidy::scan::{leading_name, word_offsets};
use crate::tidy::tree::Tree;

const RULE: &str = "names";
const DRAWERS: [&str; 8] = ["util", "utils", "common", "manager", "managers", "helper", "helpers", "misc"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().iter().flat_map(|file| path_names(file).into_iter().chain(module_names(file))).collect()
}

fn path_names(file: &RustFile) -> Option<Finding> {
    let names = file.path.trim_end_matches(".rs").split('/');
    let drawer = names.into_iter().find_map(drawer)?;
    Some(refuse(Place { path: &file.path, line: 0 }, drawer))
}

fn module_names(file: &RustFile) -> Vec<Finding> {
    let keywords = word_offsets(&file.code, "mod");
    let drawers = keywords.filter_map(|offset| {
        let drawer = drawer(leading_name(&file.code[offset + 3..]))?;
        Some(refuse(file.place(file.line_of(offset)), drawer))
    });
    drawers.collect()
}

/// The part of `name` that makes it a drawer, if any.
fn drawer(name: &str) -> Option<&str> {
    name.split(['_', '-']).find(|part| DRAWERS.contains(part))
}

fn refuse(place: Place<'_>, drawer: &str) -> Finding {
    Finding::at(RULE, place, format!("`{drawer}` names nothing: call it after what it owns"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    #[test]
    fn drawers_are_caught_as_file_folder_and_module() {
        catches(check, &[("crates/x/src/text_utils.rs", "")], "`utils`");
        catches(check, &[("crates/x/tests/common/world.rs", "")], "`common`");
        catches(check, &[("crates/x/src/lib.rs", "\nmod helper {}")], "lib.rs:2: names: `helper`");
        catches(check, &[("crates/x/src/session_manager.rs", "")], "`manager`");
    }

    #[test]
    fn telling_names_and_prose_pass() {
        passes(check, &[("crates/x/src/truncate.rs", "// mod utils\nmod futility;\nuse std::common_name;")]);
    }
}
