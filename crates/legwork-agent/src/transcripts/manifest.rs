//! The manifest of a delegation's transcripts (LIVE-8): replaced whole, so that a reader never sees half of one.
//!
//! It does not know when it is written; the writer keeps that rare.

use super::line::{self, Role};
use crate::redact::redact;
use legwork_core::outcome::Outcome;
use legwork_core::ports::Heading;
use legwork_core::time::Timestamp;
use nix::fcntl::OFlag;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The manifest while its delegation runs.
#[derive(Serialize)]
pub(super) struct Manifest {
    delegation_id: String,
    started: Timestamp,
    task_count: usize,
    model: String,
    provider: String,
    tasks: Vec<Task>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed: Option<Timestamp>,
    #[serde(skip)]
    path: PathBuf,
    #[serde(skip)]
    open: usize,
    /// Whether the file on disk is behind.
    #[serde(skip)]
    pub(super) dirty: bool,
}

#[derive(Serialize)]
struct Task {
    index: usize,
    goal: String,
    log: String,
    status: &'static str,
    exit_reason: Option<&'static str>,
}

impl Manifest {
    /// The manifest of transcripts that were just created in `folder`. `None` without a single one.
    pub(super) fn new(folder: &Path, headings: &[Heading]) -> Option<Self> {
        let first = headings.first()?;
        let (provider, _) = first.model.split_once('/').unwrap_or(("", ""));
        let task = |heading: &Heading| Task {
            index: heading.task_index,
            goal: line::one_line(&redact(&heading.goal), Role::User.width(), 0),
            log: file_name(heading.task_index),
            status: "running",
            exit_reason: None,
        };
        Some(Manifest {
            delegation_id: first.delegation.to_string(),
            started: first.at,
            task_count: headings.len(),
            model: first.model.clone(),
            provider: provider.to_owned(),
            tasks: headings.iter().map(task).collect(),
            completed: None,
            path: folder.join("manifest.json"),
            open: headings.len(),
            dirty: true,
        })
    }

    /// A child has ended.
    pub(super) fn ended(&mut self, task_index: usize, outcome: Outcome, at: Timestamp) {
        let Some(task) = self.tasks.iter_mut().find(|task| task.index == task_index) else { return };
        task.status = outcome.status().as_str();
        task.exit_reason = Some(outcome.exit_reason());
        self.open -= 1;
        self.dirty = true;
        if self.open == 0 {
            self.completed = Some(at);
        }
    }

    /// Whether every child has ended.
    pub(super) fn is_complete(&self) -> bool {
        self.open == 0
    }

    /// Replaces the file.
    pub(super) fn write(&mut self) -> io::Result<()> {
        self.dirty = false;
        let text = serde_json::to_vec_pretty(self)?;
        let beside = self.path.with_extension("json.new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(&beside)?;
        file.write_all(&text)?;
        std::fs::rename(&beside, &self.path)
    }
}

/// The name of a task's transcript within the delegation's folder.
pub(super) fn file_name(task_index: usize) -> String {
    format!("task-{task_index}.log")
}
