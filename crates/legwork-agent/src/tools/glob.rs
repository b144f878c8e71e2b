//! Glob patterns as a model writes them: one without a slash is for names anywhere, one with a slash for paths
//! relative to the folder that is walked.

use globset::{GlobBuilder, GlobMatcher};
use std::path::Path;

/// Lets paths through.
#[derive(Debug)]
pub(super) struct Glob {
    matcher: GlobMatcher,
    names_only: bool,
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// A sentence for the model.
    pub(super) fn parse(pattern: &str) -> Result<Self, String> {
        let relative = pattern.trim_start_matches("./").trim_start_matches('/');
        let built = GlobBuilder::new(relative).literal_separator(true).build();
        let glob = built.map_err(|error| {
            format!("the glob does not work: {error}; send one such as `*.rs` or `src/**/*.rs`")
        })?;
        Ok(Glob { matcher: glob.compile_matcher(), names_only: !relative.contains('/') })
    }

    /// Whether `path`, relative to the folder that is walked, matches.
    pub(super) fn matches(&self, path: &Path) -> bool {
        let subject = if self.names_only { path.file_name().map_or(path, Path::new) } else { path };
        self.matcher.is_match(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_slash_is_for_names_and_one_with_a_slash_for_paths() {
        let check = |pattern: &str, path: &str, expected: bool| {
            let glob = Glob::parse(pattern).expect("a good pattern");
            assert_eq!(glob.matches(Path::new(path)), expected, "{pattern} {path}");
        };
        check("*.rs", "src/deep/a.rs", true);
        check("*.{rs,toml}", "Cargo.toml", true);
        check("src/*.rs", "src/a.rs", true);
        check("src/*.rs", "src/deep/a.rs", false);
        check("./src/**/*.rs", "src/deep/a.rs", true);
        check("**/*.rs", "a.rs", true);
        assert!(Glob::parse("a{b").expect_err("it is not closed").contains("send one such as"));
    }
}
