//! The system texts of agents. Of siblings everything but the last section is the same, so that a provider can cache it.
//!
//! It does not know tools or models, and it does not write the goal: that is the first user message (BUILD-16).

use crate::excerpt::head_of;
use serde_json::Value;
use std::fmt::Write;
use std::io::ErrorKind;
use std::io::Read;
use std::path::Path;

/// Files that bind whoever works in a folder; the first one that exists counts (BUILD-18).
const CONTEXT_FILES: [&str; 4] = [".legwork.md", "AGENTS.md", "CLAUDE.md", ".cursorrules"];

/// Bytes of a context file that are shown.
pub const CONTEXT_FILE_BYTES_MAX: usize = 32 * 1024;

/// The rules that a project has for agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectContext {
    /// The file's name.
    pub file: &'static str,
    /// Its text, with a note at the end when it was cut.
    pub text: String,
}

/// How far below an agent others may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Standing {
    /// The agent's own depth: 0 for the agent of a session.
    pub depth: u32,
    /// `delegation.max_spawn_depth`.
    pub depth_max: u32,
}

impl Standing {
    /// Whether the agent may delegate (BUILD-3).
    pub fn may_delegate(self) -> bool {
        self.depth < self.depth_max
    }

    /// Whether those it delegates to may do so too.
    fn children_may_delegate(self) -> bool {
        self.depth.saturating_add(1) < self.depth_max
    }
}

/// The part of a child's system text that all its siblings have.
pub fn for_children(folder: &Path, context: Option<&ProjectContext>, standing: Option<Standing>) -> String {
    let mut text = format!(
        "You are a focused subagent. You were given one task, in the first message, and you work on it alone until it is \
         done. You know nothing of the conversation that it comes from, and you cannot ask anybody: where something is \
         unclear, choose the most sensible reading and say so at the end.\n\n\
         You work in the folder {}. Relative paths start there; do not assume any other folder, such as /workspace.\n",
        folder.display(),
    );
    write_context(&mut text, context);
    text.push_str(
        "\n## When you are done\n\n\
         Your last message is the only thing that comes back, so it must stand for itself. Say what you did, what you \
         found, which files you touched, and what went wrong or is left open. Keep it compact. Claim nothing that you \
         have not seen happen.\n",
    );
    if let Some(standing) = standing {
        write_orchestrator(&mut text, standing);
    }
    text
}

/// The same for a model with little room.
pub fn for_children_briefly(folder: &Path) -> String {
    format!(
        "You do one task with the tools you have, in the folder {}. Then you answer with what you found, in a few \
         sentences.\n",
        folder.display(),
    )
}

/// What stands behind the text that siblings share: the task's context (BUILD-16, BUILD-21), and last the schema that its
/// answer must meet (BUILD-22). Nothing where the task has neither.
pub fn own(context: Option<&str>, schema: Option<&Value>) -> Option<String> {
    let mut text = String::new();
    if let Some(context) = context.filter(|context| !context.trim().is_empty()) {
        push(&mut text, format_args!("\n## Context of your task\n\n{context}\n"));
    }
    if let Some(schema) = schema {
        push(
            &mut text,
            format_args!(
                "\n## The form of your answer\n\n\
                 Your last message must be a single JSON value and nothing else: no words around it, whatever was said above \
                 about your last message. It must be valid against this JSON Schema:\n\n```json\n{schema}\n```\n",
            ),
        );
    }
    (!text.is_empty()).then_some(text)
}

/// The system text of the agent of a session.
pub fn for_session(folder: &Path, context: Option<&ProjectContext>, standing: Option<Standing>) -> String {
    let mut text = format!(
        "You are an agent that works for the person who writes to you, in the folder {}. Relative paths start there. Use \
         your tools to look and to act instead of guessing, and say plainly when something failed or is left open.\n",
        folder.display(),
    );
    write_context(&mut text, context);
    if let Some(standing) = standing {
        write_orchestrator(&mut text, standing);
    }
    text
}

/// The same for a model with little room.
pub fn for_session_briefly(folder: &Path) -> String {
    format!("You help with one request, with the tools you have, in the folder {}.\n", folder.display())
}

fn write_context(text: &mut String, context: Option<&ProjectContext>) {
    if let Some(ProjectContext { file, text: rules }) = context {
        push(
            text,
            format_args!(
                "\n## Rules of this project ({file})\n\nThese rules bind you.\n\n{}\n",
                rules.trim_end()
            ),
        );
    }
}

fn write_orchestrator(text: &mut String, standing: Standing) {
    let Standing { depth, depth_max } = standing;
    let children = if standing.children_may_delegate() {
        "they may delegate in turn"
    } else {
        "they must do their work themselves and cannot delegate"
    };
    push(
        text,
        format_args!(
            "\n## Delegating\n\n\
             You may hand independent pieces of work to subagents with `delegate_task`. You stand at depth {depth} of at \
             most {depth_max}; your subagents stand one deeper: {children}. They know only what you write into their \
             goal and context. What they report about the world outside is their word; check what matters.\n",
        ),
    );
}

fn push(text: &mut String, piece: std::fmt::Arguments<'_>) {
    text.write_fmt(piece).expect("writing into a string cannot fail");
}

/// Reads the rules that bind agents in `folder`. It blocks on the file system.
///
/// # Errors
/// What went wrong with a file that exists: rules that cannot be read must not be passed over.
pub fn project_context(folder: &Path) -> Result<Option<ProjectContext>, String> {
    for file in CONTEXT_FILES {
        let path = folder.join(file);
        if !path.is_file() {
            continue;
        }
        match read_start(&path) {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => return Ok(Some(ProjectContext { file, text })),
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(format!("the project rules in {} cannot be read: {error}", path.display()));
            }
        }
    }
    Ok(None)
}

fn read_start(path: &Path) -> std::io::Result<String> {
    let limit = CONTEXT_FILE_BYTES_MAX as u64 + 1;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    if bytes.len() <= CONTEXT_FILE_BYTES_MAX {
        return Ok(text.into_owned());
    }
    let shown = head_of(&text, CONTEXT_FILE_BYTES_MAX);
    Ok(format!("{shown}\n[cut after {} bytes; read the rest from the file itself]", shown.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_18_the_first_of_four_files_counts_and_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(project_context(folder.path()), Ok(None));
        std::fs::write(folder.path().join("SOUL.md"), "a persona").expect("written");
        for file in CONTEXT_FILES.iter().rev() {
            std::fs::write(folder.path().join(file), format!("rules of {file}")).expect("written");
            let found = project_context(folder.path()).expect("it can be read").expect("there is one");
            assert_eq!((found.file, found.text), (*file, format!("rules of {file}")));
        }
        let context = project_context(folder.path()).expect("it can be read");
        let text = for_children(folder.path(), context.as_ref(), None);
        assert!(text.contains("These rules bind you.") && !text.contains("persona"), "{text}");
    }

    #[test]
    fn build_19_a_child_is_told_what_to_end_with() {
        let text = for_children(Path::new("/the/folder"), None, None);
        for words in
            ["what you did", "found", "which files you touched", "went wrong", "compact", "/the/folder"]
        {
            assert!(text.contains(words), "{words:?} is missing in {text}");
        }
        assert!(text.contains("do not assume any other folder, such as /workspace"), "{text}");
        assert!(!text.contains("## Delegating"), "{text}");
    }

    #[test]
    fn build_20_who_may_delegate_is_told_its_depth_and_what_its_children_are() {
        let text = |depth, depth_max| for_children(Path::new("/"), None, Some(Standing { depth, depth_max }));
        assert!(
            text(1, 3).contains("depth 1 of at most 3") && text(1, 3).contains("they may delegate in turn")
        );
        assert!(text(2, 3).contains("they must do their work themselves and cannot delegate"));
    }
}
