//! Tool `patch`: changes parts of files, in one of two forms: one text of one file is replaced by another, or a patch
//! text changes, adds, moves and deletes several files.
//!
//! All or nothing: every file is read and every place found before anything is written, and what was put in place is
//! taken back when a later file cannot be. Here are the arguments and the words; [`replace`] and [`hunks`] find the
//! places, [`parse`] reads a patch text, [`commit`] writes.

mod commit;
mod hunks;
mod nearest;
mod original;
mod parse;
mod replace;
mod sections;
mod shown;

use super::off_thread::{self, Abandoned};
use super::port::{Effect, Invocation, Tool, ToolOutput};
use crate::models::ToolSpec;
use legwork_core::ports::Pending;
use replace::Replacement;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct Patch;

#[derive(Debug, Deserialize)]
struct Arguments {
    path: Option<String>,
    old_string: Option<String>,
    new_string: Option<String>,
    replace_all: Option<bool>,
    patch: Option<String>,
}

/// The two forms of a call.
enum Form<'a> {
    Replace(Replacement<'a>),
    Patch(&'a str),
}

const DESCRIPTION: &str = "Change parts of text files; all of a call is done or nothing. Two forms. \
(1) path, old_string and new_string: old_string must be exactly as in the file and stand there once, so give whole lines \
with some around them; replace_all changes every place. \
(2) patch, a text for one or several files:
*** Begin Patch
*** Update File: src/a.py
@@ def greet():
 a line that stays
-a line that goes
+a line that comes
*** Add File: src/b.py
+its only line
*** Delete File: src/c.py
*** End Patch
Lines after @@ begin with a blank, - or +; @@ may name a line above them, and *** Move to: PATH may follow *** Update File.";

impl Tool for Patch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "patch".to_owned(),
            description: DESCRIPTION.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Form 1: the file, relative to the working folder or absolute."},
                    "old_string": {"type": "string", "description": "Form 1: the text to replace, exactly as it is in the file."},
                    "new_string": {"type": "string", "description": "Form 1: the text to put there; empty to delete."},
                    "replace_all": {"type": "boolean", "description": "Form 1: change every place, not just one."},
                    "patch": {"type": "string", "description": "Form 2: the text from *** Begin Patch to *** End Patch."},
                },
                "additionalProperties": false,
            }),
        }
    }

    fn effect(&self) -> Effect {
        Effect::Changes
    }

    fn call(&self, invocation: Invocation) -> Pending<'_, ToolOutput> {
        Box::pin(off_thread::call(self.spec(), invocation, carry_out))
    }
}

fn form(arguments: &Arguments) -> Result<Form<'_>, String> {
    let Arguments { path, old_string, new_string, replace_all, patch } = arguments;
    match (patch, path, old_string, new_string) {
        (Some(patch), None, None, None) => Ok(Form::Patch(patch)),
        (Some(_), ..) => {
            Err("patch: `patch` was sent together with arguments of the other form; send `patch` alone, or \
                 `path`, `old_string` and `new_string`"
                .to_owned())
        }
        (None, Some(path), Some(old), Some(new)) => {
            let everywhere = replace_all.unwrap_or(false);
            Ok(Form::Replace(Replacement { path, old, new, everywhere }))
        }
        (None, ..) => Err("patch: send `path`, `old_string` and `new_string` (strings) and optionally \
                           `replace_all` (boolean), or `patch` (string) alone"
            .to_owned()),
    }
}

fn carry_out(folder: &Path, arguments: &Arguments, abandoned: &Abandoned) -> Result<String, String> {
    let prepared = match form(arguments)? {
        Form::Replace(replacement) => replacement.change(folder).map(|change| vec![change]),
        Form::Patch(text) => {
            parse::sections(text).and_then(|sections| sections::changes(folder, sections, abandoned))
        }
    };
    let changes = prepared.map_err(|problem| format!("{problem}. Nothing was changed"))?;
    commit::all(&changes, abandoned)?;
    Ok(shown::text(&changes))
}
