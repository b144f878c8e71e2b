//! Files stay short: a limit for each and one for the median of all crates. Tests do not count.

use crate::tidy::finding::Finding;
use crate::tidy::rust_file::RustFile;
use crate::tidy::tree::Tree;

const RULE: &str = "file-length";
const LINES_MAX: usize = 500;
const MEDIAN_LIMIT: usize = 200;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let long = tree.rust().iter().filter(|file| file.length_without_tests() > LINES_MAX);
    let mut findings: Vec<Finding> = long.map(too_long).collect();
    let median = median(&lengths(tree));
    if median >= MEDIAN_LIMIT {
        let message =
            format!("the median source file has {median} lines without tests; keep it under {MEDIAN_LIMIT}");
        findings.push(Finding::of_file(RULE, "crates", message));
    }
    findings
}

/// The figures told after each inspection.
pub fn figures(tree: &Tree) -> String {
    let lengths = lengths(tree);
    let longest = lengths.last().copied().unwrap_or_default();
    format!(
        "{} source files in crates, median {} lines, longest {longest} (without tests)",
        lengths.len(),
        median(&lengths)
    )
}

fn too_long(file: &RustFile) -> Finding {
    let lines = file.length_without_tests();
    let message =
        format!("{lines} lines without tests, the limit is {LINES_MAX}: split it by what its parts own");
    Finding::of_file(RULE, &file.path, message)
}

/// The lengths of all source files of the crates, shortest first.
fn lengths(tree: &Tree) -> Vec<usize> {
    let sources = tree.rust().iter().filter(|file| is_source(&file.path) && !file.is_test_file());
    let mut lengths: Vec<usize> = sources.map(RustFile::length_without_tests).collect();
    lengths.sort_unstable();
    lengths
}

fn is_source(path: &str) -> bool {
    let mut parts = path.split('/').skip(2);
    path.starts_with("crates/") && parts.next() == Some("src")
}

fn median(sorted: &[usize]) -> usize {
    let middle = sorted.len() / 2;
    match (sorted.get(middle), sorted.len() % 2) {
        (None, _) => 0,
        (Some(&upper), 0) => (sorted[middle - 1] + upper) / 2,
        (Some(&only), _) => only,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    #[test]
    fn a_file_over_the_limit_is_caught_and_tests_do_not_count() {
        let code = "//\n".repeat(501);
        catches(check, &[("xtask/src/a.rs", &code)], "501 lines");
        let tests = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{code}}}\n");
        passes(check, &[("xtask/src/a.rs", &tests), ("crates/x/tests/a.rs", &code)]);
    }

    #[test]
    fn a_high_median_is_caught() {
        let (short, long) = ("//\n".repeat(100), "//\n".repeat(300));
        catches(
            check,
            &[("crates/x/src/a.rs", &short), ("crates/x/src/b.rs", &long)],
            "median source file has 200",
        );
        passes(check, &[("crates/x/src/a.rs", &short), ("xtask/src/b.rs", &long), ("xtask/src/c.rs", &long)]);
    }

    #[test]
    fn the_median_of_an_even_count_is_between_the_middle_two() {
        assert_eq!((median(&[]), median(&[3]), median(&[1, 3]), median(&[1, 2, 9])), (0, 3, 2, 2));
    }
}
