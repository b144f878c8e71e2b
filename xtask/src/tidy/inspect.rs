//! One inspection: read the tree, ask every rule, take off the exceptions. The rules themselves are elsewhere.

use std::path::Path;

use super::exceptions;
use super::finding::Report;
use super::rules::{self, file_length};
use super::tree::Tree;

/// Inspects the repository at `root`.
///
/// # Errors
///
/// If a file or folder of the repository cannot be read; breaches of rules are in the report, not errors.
pub fn inspect(root: &Path) -> anyhow::Result<Report> {
    let tree = Tree::read(root)?;
    let mut found = Vec::new();
    for rule in rules::ALL {
        found.extend(rule(&tree));
    }
    let mut findings = exceptions::take_off(&tree, found);
    findings.sort_by(|a, b| (&a.path, a.line, a.rule).cmp(&(&b.path, b.line, b.rule)));
    Ok(Report { findings, figures: file_length::figures(&tree) })
}
