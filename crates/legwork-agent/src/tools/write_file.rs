//! Tool `write_file`: a whole file, written beside its place and then put there in one move, so that nobody ever
//! finds half of it.

use super::arguments;
use super::off_thread::{Abandoned, off_thread};
use super::place;
use super::port::{Effect, Invocation, Tool, ToolOutput};
use crate::models::ToolSpec;
use crate::spill::random;
use legwork_core::ports::Pending;
use serde::Deserialize;
use serde_json::json;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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
        Box::pin(async move {
            let arguments: Arguments = match arguments::read(&self.spec(), invocation.arguments) {
                Ok(arguments) => arguments,
                Err(problem) => return ToolOutput::error(problem),
            };
            let path = place::resolve(&invocation.site, &arguments.path);
            off_thread(move |abandoned| match write(&path, &arguments.content, abandoned) {
                Ok(text) => ToolOutput::ok(text),
                Err(text) => ToolOutput::error(format!("{text}. Nothing was written")),
            })
            .await
        })
    }
}

fn write(path: &Path, content: &str, abandoned: &Abandoned) -> Result<String, String> {
    let target = target(path)?;
    let folder = target.parent().ok_or_else(|| format!("{} is a folder", path.display()))?;
    let made_folder = !folder.exists();
    fs::create_dir_all(folder).map_err(|error| place::explain(folder, &error))?;
    let before = target.metadata().ok();
    let beside = Beside::create(folder).map_err(|error| place::explain(folder, &error))?;
    beside.fill(content, before.as_ref()).map_err(|error| place::explain(path, &error))?;
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

/// Where the bytes go: behind links, to the file that they lead to. What is no file is refused.
fn target(path: &Path) -> Result<PathBuf, String> {
    let shown = path.display();
    let is_link = path.symlink_metadata().is_ok_and(|facts| facts.is_symlink());
    let target = if is_link {
        fs::canonicalize(path).map_err(|_| format!("{shown} is a link to something that does not exist"))?
    } else {
        path.to_owned()
    };
    match target.metadata() {
        Ok(facts) if facts.is_dir() => Err(format!("{shown} is a folder; name a file in it")),
        Ok(facts) if !facts.is_file() => Err(format!("{shown} is not a regular file")),
        Ok(_) | Err(_) => Ok(target),
    }
}

/// The new content, not yet in its place. Dropping it removes it.
struct Beside {
    path: PathBuf,
    file: File,
    placed: bool,
}

impl Beside {
    fn create(folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!(".legwork-{:08x}.tmp", random()?));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Beside { path, file, placed: false })
    }

    /// A file that is replaced keeps its mode.
    fn fill(&self, content: &str, before: Option<&fs::Metadata>) -> io::Result<()> {
        if let Some(before) = before {
            self.file.set_permissions(before.permissions())?;
        }
        (&self.file).write_all(content.as_bytes())
    }

    fn put(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.placed
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "a temporary file could not be removed");
        }
    }
}
