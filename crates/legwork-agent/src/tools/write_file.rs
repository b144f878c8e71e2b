//! Tool `write_file`: a whole file, written beside its place and then put there in one move, so that nobody ever
//! finds half of it.

use super::beside::{Beside, target};
use super::off_thread::{self, Abandoned};
use super::place;
use super::port::{Effect, Invocation, Tool, ToolOutput};
use crate::models::ToolSpec;
use legwork_core::ports::Pending;
use serde::Deserialize;
use serde_json::json;
use std::fs;
use std::path::Path;

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteFile;

#[derive(Debug, Deserialize)]
struct Arguments {
    path: String,
    content: String,
}

impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_file".to_owned(),
            description:
                "Write a whole text file. Missing folders are made; a file that is there is replaced."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The file, relative to the working folder or absolute."},
                    "content": {"type": "string", "description": "All of its new content."},
                },
                "required": ["path", "content"],
                "additionalProperties": false,
            }),
        }
    }

    fn effect(&self) -> Effect {
        Effect::Changes
    }

    fn call(&self, invocation: Invocation) -> Pending<'_, ToolOutput> {
        Box::pin(off_thread::call(self.spec(), invocation, write))
    }
}

fn write(folder: &Path, arguments: &Arguments, abandoned: &Abandoned) -> Result<String, String> {
    let path = place::resolve_in(folder, &arguments.path);
    put(&path, &arguments.content, abandoned).map_err(|problem| format!("{problem}. Nothing was written"))
}

fn put(path: &Path, content: &str, abandoned: &Abandoned) -> Result<String, String> {
    let target = target(path)?;
    let folder = target.parent().ok_or_else(|| format!("{} is a folder", path.display()))?;
    let made_folder = !folder.exists();
    fs::create_dir_all(folder).map_err(|error| place::explain(folder, &error))?;
    let before = target.metadata().ok();
    let beside = Beside::create(folder).map_err(|error| place::explain(folder, &error))?;
    let mode = before.as_ref().map(fs::Metadata::permissions);
    beside.fill(content, mode).map_err(|error| place::explain(path, &error))?;
    if abandoned.is_set() {
        return Err("the call was given up".to_owned());
    }
    beside.put(&target).map_err(|error| place::explain(path, &error))?;
    let place = match (before, made_folder) {
        (Some(before), _) => format!("replacing {} bytes", before.len()),
        (None, true) => format!("a new file in the new folder {}", folder.display()),
        (None, false) => "a new file".to_owned(),
    };
    Ok(format!(
        "wrote {} bytes ({} lines) to {}, {place}",
        content.len(),
        content.lines().count(),
        path.display()
    ))
}
