//! The repository as text: every file that is not ignored, by its path from the root. Rules see this and never the disk,
//! so that a test can hand them a tree of its own. Files that are no UTF-8 text are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context as _;
use ignore::WalkBuilder;

use super::rust_file::RustFile;

/// Text files above this size are data, which no rule reads.
const TEXT_MAX_BYTES: u64 = 2 * 1024 * 1024;

#[derive(Debug, Default)]
pub struct Tree {
    texts: BTreeMap<String, String>,
    rust: Vec<RustFile>,
}

impl Tree {
    /// Reads all text files below `root` that `.gitignore` does not exclude.
    ///
    /// # Errors
    ///
    /// If a folder or file cannot be read.
    pub fn read(root: &Path) -> anyhow::Result<Self> {
        let mut texts = BTreeMap::new();
        for entry in walk(root) {
            let entry = entry.context("cannot walk the repository")?;
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            if let Some(text) = text_of(entry.path())? {
                texts.insert(relative(root, entry.path()), text);
            }
        }
        Ok(Self::from_texts(texts))
    }

    pub fn from_texts(texts: BTreeMap<String, String>) -> Self {
        let rust = texts
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| RustFile::parse(path, text))
            .collect();
        Self { texts, rust }
    }

    pub fn rust(&self) -> &[RustFile] {
        &self.rust
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Whether `path` is a file, or a folder with a file in it.
    pub fn holds(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        self.texts.contains_key(path) || self.texts.keys().any(|file| file.starts_with(&inside))
    }

    /// The folder names below `crates/` that have a manifest, in order.
    pub fn crates(&self) -> BTreeSet<&str> {
        let manifests = self.texts.keys().filter_map(|path| path.strip_suffix("/Cargo.toml"));
        manifests
            .filter_map(|folder| folder.strip_prefix("crates/"))
            .filter(|name| !name.contains('/'))
            .collect()
    }
}

fn walk(root: &Path) -> ignore::Walk {
    let mut builder = WalkBuilder::new(root);
    // Hidden files such as `.cargo/config.toml` count; only git's own folder does not.
    builder.hidden(false).require_git(false).git_global(false).git_exclude(false).parents(false);
    builder.filter_entry(|entry| entry.file_name() != ".git");
    builder.build()
}

/// The text of a file, or nothing if it is data or was removed since its folder was listed.
fn text_of(path: &Path) -> anyhow::Result<Option<String>> {
    let bytes = match std::fs::metadata(path) {
        Ok(facts) if facts.len() > TEXT_MAX_BYTES => return Ok(None),
        Ok(_) => std::fs::read(path),
        Err(error) => Err(error),
    };
    match bytes {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn relative(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).unwrap_or(path);
    inside.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_repository_without_what_git_ignores() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(tree.holds("Cargo.toml") && tree.holds("xtask/src") && tree.holds(".cargo/config.toml"));
        assert!(!tree.holds("target") && !tree.holds(".git"));
        assert!(tree.crates().contains("legwork-core"));
    }
}
