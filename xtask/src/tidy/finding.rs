//! What a rule reports, and all reports of one inspection together. It does not decide what is wrong.

use std::fmt;

/// One breach of one rule. Line 0 stands for the file as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub rule: &'static str,
    pub path: String,
    pub line: usize,
    pub message: String,
}

/// Where a finding is: a path from the repository's root and a line from 1.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub path: &'a str,
    pub line: usize,
}

impl Finding {
    pub fn at(rule: &'static str, place: Place<'_>, message: impl Into<String>) -> Self {
        Self { rule, path: place.path.to_owned(), line: place.line, message: message.into() }
    }

    pub fn of_file(rule: &'static str, path: &str, message: impl Into<String>) -> Self {
        Self::at(rule, Place { path, line: 0 }, message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}: {}", self.path, self.rule, self.message),
            line => write!(out, "{}:{line}: {}: {}", self.path, self.rule, self.message),
        }
    }
}

/// Everything found in one tree, and the figures that are told even when nothing is wrong.
#[derive(Debug)]
pub struct Report {
    pub findings: Vec<Finding>,
    pub figures: String,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(out, "{finding}")?;
        }
        match self.findings.len() {
            0 => write!(out, "tidy: clean; {}", self.figures),
            1 => write!(out, "tidy: 1 finding; {}", self.figures),
            many => write!(out, "tidy: {many} findings; {}", self.figures),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_as_path_line_rule_message() {
        let place = Place { path: "a.rs", line: 3 };
        assert_eq!(Finding::at("names", place, "no drawers").to_string(), "a.rs:3: names: no drawers");
        assert_eq!(Finding::of_file("names", "a.rs", "no drawers").to_string(), "a.rs: names: no drawers");
    }
}
