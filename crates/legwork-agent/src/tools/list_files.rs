//! Tool `list_files`: what is in a folder and below it, in order, within a bound.

use super::glob::Glob;
use super::off_thread::{self, Abandoned};
use super::place;
use super::port::{Effect, Invocation, Tool, ToolOutput};
use super::walk::Entries;
use crate::models::ToolSpec;
use legwork_core::ports::Pending;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;

/// Entries that are shown.
const SHOWN_MAX: usize = 500;
/// How deep a listing goes when neither a depth nor a glob was sent.
const DEPTH_DEFAULT: usize = 3;
/// The deepest listing that may be asked for.
const DEPTH_MAX: usize = 100;

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListFiles;

#[derive(Debug, Deserialize)]
struct Arguments {
    path: Option<String>,
    glob: Option<String>,
    depth: Option<usize>,
}

impl Tool for ListFiles {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "list_files".to_owned(),
            description:
                "List a folder and what is below it, one path a line; folders end with a slash. What \
                          .gitignore names is left out."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The folder; the working folder when left out."},
                    "glob": {"type": "string", "description": "Only files that match, such as *.rs or src/**/*.rs."},
                    "depth": {"type": "integer", "minimum": 1, "maximum": DEPTH_MAX,
                        "description": "How deep to go; when left out 3, or as deep as there is with a glob."},
                },
                "additionalProperties": false,
            }),
        }
    }

    fn effect(&self) -> Effect {
        Effect::ReadOnly
    }

    fn call(&self, invocation: Invocation) -> Pending<'_, ToolOutput> {
        Box::pin(off_thread::call(self.spec(), invocation, list))
    }
}

fn list(folder: &Path, arguments: &Arguments, abandoned: &Abandoned) -> Result<String, String> {
    let folder = &place::resolve_in(folder, arguments.path.as_deref().unwrap_or("."));
    let facts = folder.metadata().map_err(|error| place::explain(folder, &error))?;
    if !facts.is_dir() {
        return Err(format!("{} is a file, not a folder; use read_file", folder.display()));
    }
    let glob = arguments.glob.as_deref().map(Glob::parse).transpose()?;
    let depth = arguments.depth.or(if glob.is_some() { None } else { Some(DEPTH_DEFAULT) });
    let mut entries = Entries::new(folder, depth, abandoned);
    let mut listing = Listing::default();
    while let Some(entry) = entries.next() {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let relative = entries.relative(&entry);
        let wanted = glob.as_ref().is_none_or(|glob| !is_folder && glob.matches(relative));
        listing.unopened += usize::from(is_folder && Some(entry.depth()) == depth);
        if wanted {
            listing.add(relative, if is_folder { "/" } else { "" });
        }
    }
    Ok(listing.finish(folder, depth, &entries))
}

#[derive(Debug, Default)]
struct Listing {
    text: String,
    count: usize,
    /// Folders at the deepest level, which were not looked into.
    unopened: usize,
}

impl Listing {
    fn add(&mut self, path: &Path, mark: &str) {
        self.count += 1;
        if self.count <= SHOWN_MAX {
            self.text.push_str(&path.to_string_lossy());
            self.text.extend([mark, "\n"]);
        }
    }

    fn finish(mut self, folder: &Path, depth: Option<usize>, entries: &Entries<'_>) -> String {
        let mut notes = Vec::new();
        if self.count == 0 {
            notes.push(format!(
                "nothing to list in {}; files that .gitignore names are left out",
                folder.display()
            ));
        }
        if self.count > SHOWN_MAX {
            notes.push(format!(
                "the first {SHOWN_MAX} of {} entries: send a glob, a path further down or a smaller depth",
                self.count
            ));
        }
        if let (Some(depth), true) = (depth, self.unopened > 0) {
            notes.push(format!(
                "{} folders at depth {depth} were not looked into: send a larger depth",
                self.unopened
            ));
        }
        notes.extend(entries.notes());
        notes.iter().for_each(|note| self.text.push_str(&format!("[{note}]\n")));
        self.text
    }
}
