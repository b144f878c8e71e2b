//! One Rust source file as the rules see it: its text, its code without prose, and which lines are tests. It judges nothing.

use std::ops::RangeInclusive;

use super::finding::Place;
use super::mask::code_only;
use super::scan::{behind_closing, body_or_end, has_word, line_of};

#[derive(Debug)]
pub struct RustFile {
    pub path: String,
    pub text: String,
    /// The text with comments and literals blanked; the same lines as `text`.
    pub code: String,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl RustFile {
    pub fn parse(path: &str, text: &str) -> Self {
        let code = code_only(text);
        let test_lines = test_items(&code);
        Self { path: path.to_owned(), text: text.to_owned(), code, test_lines }
    }

    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether the whole file is tests: it lies in a `tests` folder, or is the file of a test module.
    pub fn is_test_file(&self) -> bool {
        let stem = self.name().trim_end_matches(".rs");
        self.path.split('/').any(|part| part == "tests") || stem == "tests" || stem.ends_with("_tests")
    }

    /// Whether line `line`, from 1, is test code.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.is_test_file() || self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// How many lines the file has outside its test items.
    pub fn length_without_tests(&self) -> usize {
        (1..=self.text.lines().count()).filter(|&line| !self.is_test_line(line)).count()
    }

    /// The lines of code with their numbers from 1.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    pub fn line_of(&self, code_offset: usize) -> usize {
        line_of(&self.code, code_offset)
    }

    pub fn place(&self, line: usize) -> Place<'_> {
        Place { path: &self.path, line }
    }
}

/// The line ranges of items under a `#[cfg(test)]`, attribute included.
fn test_items(code: &str) -> Vec<RangeInclusive<usize>> {
    let mut items = Vec::new();
    for (start, _) in code.match_indices("#[cfg(") {
        let attribute_end = behind_closing(code, start + 1);
        let condition = &code[start..attribute_end];
        if !has_word(condition, "test") || condition.contains("not(test)") {
            continue;
        }
        let end = match body_or_end(code, attribute_end) {
            Some(open) if code[open..].starts_with('{') => behind_closing(code, open) - 1,
            Some(semicolon) => semicolon,
            None => code.len(),
        };
        items.push(line_of(code, start)..=line_of(code, end));
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";

    #[test]
    fn test_items_are_told_from_code() {
        let file = RustFile::parse("crates/x/src/a.rs", SAMPLE);
        assert_eq!(file.length_without_tests(), 2);
        assert!(!file.is_test_line(1) && file.is_test_line(4) && !file.is_test_line(6));
    }

    #[test]
    fn a_declared_test_module_and_its_file_are_tests() {
        let file = RustFile::parse("crates/x/src/a.rs", "#[cfg(test)]\nmod tests;\nfn a() {}\n");
        assert_eq!(file.length_without_tests(), 1);
        assert!(RustFile::parse("crates/x/src/a/tests.rs", "fn a() {}").is_test_file());
        assert!(RustFile::parse("crates/x/tests/stop.rs", "fn a() {}").is_test_file());
    }

    #[test]
    fn code_under_not_test_is_no_test() {
        let file = RustFile::parse("a.rs", "#[cfg(not(test))]\nfn a() {}\n");
        assert_eq!(file.length_without_tests(), 2);
    }
}
