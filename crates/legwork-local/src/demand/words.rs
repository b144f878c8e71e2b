//! The words of a goal, and which of them are paths.
//!
//! Owns the reading of prose. It does not look at the file system, and it knows no tool.

/// One word of a goal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// Without quotes and the punctuation around it.
    pub(super) text: &'a str,
    /// Whether it stood in quotes or backticks.
    pub(super) quoted: bool,
}

/// Whether a word is the name of a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathLike {
    Certain,
    /// It may be one, where nothing better is named.
    Doubtful,
    No,
}

/// Characters that enclose a word without belonging to it.
const AROUND: &[char] = &[
    '"', '\'', '`', '“', '”', '‘', '’', '«', '»', '(', ')', '[', ']', '{', '}', '<', '>', ',', ';', '!', '?',
    '*',
];
const QUOTES: &[char] = &['"', '\'', '`', '“', '‘', '«'];
/// Characters of an extension at most.
const EXTENSION_MAX: usize = 10;
/// Files that usually have no extension; another part may follow, as in `LICENSE-MIT`.
const USUAL: [&str; 8] =
    ["README", "LICENSE", "COPYING", "NOTICE", "CHANGELOG", "AUTHORS", "Makefile", "Dockerfile"];
/// Nouns that a name without any other mark may follow.
const NOUNS: [&str; 6] = ["file", "files", "folder", "folders", "directory", "path"];

/// The words of a text, in order.
pub(super) fn split(text: &str) -> Vec<Word<'_>> {
    let pieces = text.split(|letter: char| letter.is_whitespace() || letter == ',');
    let words = pieces.map(|piece| Word {
        text: piece.trim_matches(AROUND).trim_end_matches(['.', ':']).trim_end_matches(AROUND),
        quoted: piece.trim_start_matches(['(', '[']).starts_with(QUOTES),
    });
    words.filter(|word| !word.text.is_empty()).collect()
}

/// The places of the words that are paths: those that certainly are, or else those that may be.
pub(super) fn paths(words: &[Word<'_>]) -> Vec<usize> {
    let of_kind = |kind: PathLike| -> Vec<usize> {
        (0..words.len()).filter(|place| path_like(words, *place) == kind).collect()
    };
    let certain = of_kind(PathLike::Certain);
    if certain.is_empty() { of_kind(PathLike::Doubtful) } else { certain }
}

fn path_like(words: &[Word<'_>], place: usize) -> PathLike {
    let word = &words[place];
    let text = word.text;
    let spelled = text.chars().all(|letter| letter.is_alphanumeric() || "._-/~+@#".contains(letter));
    if !spelled || text.contains("//") || !text.chars().any(char::is_alphabetic) {
        return PathLike::No;
    }
    let slashes = text.matches('/').count();
    let rooted = text.starts_with(['/', '~']) || text.starts_with("./") || text.starts_with("../");
    if has_extension(text) || slashes > 0 && (rooted || text.ends_with('/') || slashes > 1 || word.quoted) {
        return PathLike::Certain;
    }
    let after_noun = place > 0 && NOUNS.contains(&words[place - 1].text.to_lowercase().as_str());
    let usual = USUAL.contains(&text.split('-').next().unwrap_or(text));
    if slashes == 1 || usual || after_noun && (word.quoted || text.starts_with(char::is_uppercase)) {
        PathLike::Doubtful
    } else {
        PathLike::No
    }
}

/// Whether the last part of the path is a name with an extension, unlike `e.g`, `v1.2` and `example.com/`.
fn has_extension(text: &str) -> bool {
    let name = text.rsplit('/').next().unwrap_or(text);
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    let plain = extension.chars().all(|letter| letter.is_ascii_alphanumeric());
    let worded = extension.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let abbreviation = stem.chars().count() <= 1 && extension.len() <= 1;
    plain && worded && extension.len() <= EXTENSION_MAX && !abbreviation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(goal: &str, expected: &[&str]) {
        let words = split(goal);
        let found: Vec<&str> = paths(&words).into_iter().map(|place| words[place].text).collect();
        assert_eq!(found, expected, "in: {goal}");
    }

    #[test]
    fn files_are_found_in_prose() {
        check("Read docs/invariants.md and say what it is about.", &["docs/invariants.md"]);
        check(
            "Compare `Cargo.toml`, \"src/main.rs\" and ./notes/a.txt.",
            &["Cargo.toml", "src/main.rs", "./notes/a.txt"],
        );
        check("Was steht in (docs/Übersicht.md)?", &["docs/Übersicht.md"]);
        check("look at a.md,b.md; then c.md:", &["a.md", "b.md", "c.md"]);
        check("List the files in crates/ and in /etc", &["crates/", "/etc"]);
    }

    #[test]
    fn prose_is_not_taken_for_files() {
        check("Use e.g. version 3.5 and/or i.e. v1.2 at https://example.com/a.html.", &["and/or"]);
        check("Say hello, and search for TODO.", &[]);
        check("Read README.md and/or nothing", &["README.md"]);
    }

    #[test]
    fn names_without_a_mark_count_where_nothing_better_is_named() {
        check("Read the file LICENSE and say what it allows.", &["LICENSE"]);
        check("Read the file Makefile", &["Makefile"]);
        check("Look into src/engine please", &["src/engine"]);
        check("Read LICENSE-MIT", &["LICENSE-MIT"]);
    }
}
