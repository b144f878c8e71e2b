//! The first form: one text of one file is replaced by another, exactly and without guessing. Only line ends are
//! treated as equal, because a model does not see which ones a file has.

use super::commit::Change;
use super::nearest;
use super::original::{FILE_BYTES_MAX, Original, line_numbers, list};
use crate::tools::place;
use std::borrow::Cow;
use std::path::Path;

/// What is asked for.
pub(super) struct Replacement<'a> {
    pub(super) path: &'a str,
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) everywhere: bool,
}

impl Replacement<'_> {
    /// What it comes to, for a caller in `folder`.
    ///
    /// # Errors
    /// A sentence for the model.
    pub(super) fn change(self, folder: &Path) -> Result<Change, String> {
        let path = place::resolve_in(folder, self.path);
        if self.old.is_empty() {
            return Err("old_string is empty: to write a new file use write_file, to insert text name a line beside it".to_owned());
        }
        if self.old == self.new {
            return Err("old_string and new_string are the same".to_owned());
        }
        let before = Original::read(&path)?;
        let after = self.apply(&path, &before)?;
        Ok(Change::rewrite(path, before, after))
    }

    fn apply(&self, path: &Path, before: &Original) -> Result<String, String> {
        let (old, new) = self.in_words_of(before);
        let places: Vec<usize> = before.body().match_indices(old.as_ref()).map(|(at, _)| at).collect();
        let lines = || line_numbers(before.body(), places.iter().copied());
        match places.len() {
            0 => Err(format!(
                "{}: old_string is not in it. {}",
                path.display(),
                nearest::hint(before.body(), self.old)
            )),
            count if count > 1 && !self.everywhere => Err(format!(
                "{}: old_string is there {count} times, at lines {}: give more of the lines around the one you mean, or send replace_all",
                path.display(),
                list(&lines())
            )),
            count => {
                let length = before.text.len() - count * old.len();
                check_size(path, length.saturating_add(count.saturating_mul(new.len())))?;
                Ok(format!("{}{}", before.mark(), before.body().replace(old.as_ref(), &new)))
            }
        }
    }

    /// Both texts with the file's line ends.
    fn in_words_of(&self, before: &Original) -> (Cow<'_, str>, Cow<'_, str>) {
        let plain = |text: &str| text.contains('\n') && !text.contains("\r\n");
        if before.line_end() == "\n" || before.body().contains(self.old) && self.old.contains('\n') {
            return (Cow::Borrowed(self.old), Cow::Borrowed(self.new));
        }
        let with_returns = |text: &str| text.replace('\n', "\r\n");
        let old = if plain(self.old) { with_returns(self.old).into() } else { Cow::Borrowed(self.old) };
        let new = if plain(self.new) { with_returns(self.new).into() } else { Cow::Borrowed(self.new) };
        (old, new)
    }
}

/// Refuses what would become too large.
pub(super) fn check_size(path: &Path, bytes: usize) -> Result<(), String> {
    if bytes <= FILE_BYTES_MAX {
        return Ok(());
    }
    Err(format!("{} would have {bytes} bytes, and patch writes at most {FILE_BYTES_MAX}", path.display()))
}
