//! Nothing unfinished is kept: no placeholders, no debugging prints, no test that is switched off.

use crate::tidy::finding::Finding;
use crate::tidy::rust_file::RustFile;
use crate::tidy::tree::Tree;

const RULE: &str = "unfinished";
const FORBIDDEN: [(&str, &str); 4] = [
    ("todo!(", "build it, or refuse with an error that says it is not built yet"),
    ("unimplemented!(", "build it, or refuse with an error that says it is not built yet"),
    ("dbg!(", "use tracing, or remove it"),
    ("#[ignore", "mend the test or delete it; a slow one goes behind the switch for slow tests"),
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().iter().flat_map(leftovers).collect()
}

fn leftovers(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, code) in file.code_lines() {
        for (text, remedy) in FORBIDDEN.iter().filter(|(text, _)| code.contains(text)) {
            findings.push(Finding::at(
                RULE,
                file.place(line),
                format!("`{text}` is not kept here: {remedy}"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    #[test]
    fn leftovers_are_caught() {
        catches(check, &[("a.rs", "fn a() {\n    todo!()\n}")], "a.rs:2: unfinished: `todo!(`");
        catches(check, &[("a.rs", "fn a() { unimplemented!(\"b\") }")], "`unimplemented!(`");
        catches(check, &[("a.rs", "fn a() { dbg!(1); }")], "`dbg!(`");
        catches(check, &[("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}")], "`#[ignore`");
    }

    #[test]
    fn prose_about_leftovers_passes() {
        passes(check, &[("a.rs", "// no todo!() here\nconst A: &str = \"dbg!(\";")]);
    }
}
