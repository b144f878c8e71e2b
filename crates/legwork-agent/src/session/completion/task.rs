//! One task of a completion: a line of counted facts, then what was asked for and what came of it, quoted (EVT-10…13).

use super::quoted::{cut, name};
use super::{head::age, remains::Remains, title::Line, whereabouts};
use crate::excerpt::excerpt;
use crate::quoted::{one_line, quote};
use crate::shares::fair;
use legwork_core::aftermath::Worktree;
use legwork_core::below::Unread;
use legwork_core::completion::{Entry, Flaw, process_notes};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{Outcome, WireStatus};
use legwork_core::report::TraceItem;
use std::time::Duration;

/// Quoted bytes of a goal, of a context, of an error, and of what came too late.
const GOAL_BYTES_MAX: usize = 480;
const CONTEXT_BYTES_MAX: usize = 240;
const ERROR_BYTES_MAX: usize = 1024;
const MISSED_BYTES_MAX: usize = 480;
/// Quoted bytes of what its own subagents have brought and it had not read, and of one of them.
const UNREAD_BYTES_MAX: usize = 8192;
const UNREAD_EACH_BYTES_MAX: usize = 2048;
const UNREAD_GOAL_BYTES_MAX: usize = 160;
/// Quoted bytes of the end of a transcript.
const TAIL_BYTES_MAX: usize = 4096;
/// Quoted bytes of the list of calls that were cut off.
const DOUBTS_BYTES_MAX: usize = 480;
/// Quoted bytes of what git says.
const GIT_BYTES_MAX: usize = 1024;
const PROCESSES_BYTES_MAX: usize = 2048;
/// What the note of a cut takes at most, apart from the folder of a file.
const NOTE_BYTES_MAX: usize = 256;

/// A task that has settled.
pub(super) struct Task<'a> {
    pub(super) entry: Entry,
    pub(super) outcome: Outcome,
    pub(super) child: &'a ChildId,
    pub(super) delegation: &'a DelegationId,
    /// How many tasks the call had.
    pub(super) of: usize,
    pub(super) goal: &'a str,
    pub(super) context: Option<&'a str>,
    /// What was said to the child too late.
    pub(super) missed: String,
    /// What its own subagents have brought and it had not read.
    pub(super) unread: Vec<Unread>,
    /// What is left to tell when its end is not known.
    pub(super) remains: Option<&'a Remains>,
    /// What is quoted of all this; see [`Task::quoted`].
    pub(super) sections: Vec<Section>,
}

/// A quoted text with the line that introduces it.
pub(super) struct Section {
    label: &'static str,
    quoted: String,
    /// Quoted bytes that it gets at most; the answer gets what is left.
    bytes_max: usize,
    /// Bytes before it was quoted.
    bytes: usize,
}

impl Task<'_> {
    /// The same task with all that others wrote quoted.
    pub(super) fn quoted(mut self) -> Self {
        self.sections = self.sections();
        self
    }

    pub(super) fn title_line(&self) -> Line<'_> {
        Line { entry: &self.entry, outcome: self.outcome, goal: self.goal }
    }

    /// The line of counted facts. Nothing of it comes from a child's text.
    pub(super) fn header(&self) -> String {
        let entry = &self.entry;
        let mark = match entry.flaw() {
            Some(Flaw::StepLimit | Flaw::OutputLimit) => " (TRUNCATED)",
            Some(Flaw::SchemaMissed) => " (SCHEMA NOT MET)",
            None => "",
        };
        let reason = entry.failure_reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let model =
            entry.model.as_deref().map(|model| format!(", model {}", name(model))).unwrap_or_default();
        format!(
            "{} TASK {}/{}: {}{reason}{mark}, {}, model calls: {}, tool calls: {}, took {}{model}\n",
            entry.status.icon(entry.flaw()),
            entry.task_index + 1,
            self.of,
            entry.status.as_str(),
            self.child,
            entry.api_calls,
            entry.tool_trace.len(),
            age(Duration::try_from_secs_f64(entry.duration_seconds).unwrap_or_default()),
        )
    }

    /// Where it last stood, when its end is not known.
    fn known(&self) -> String {
        self.remains.map(|remains| format!("{}\n", remains.known)).unwrap_or_default()
    }

    /// Lines of ours: paths that we made, and counts.
    fn footer(&self) -> String {
        let aside = &self.entry.aside;
        let mut text = String::new();
        if let Some(worktree) = &aside.worktree {
            text.push_str(&worktree_line(worktree));
        }
        if !aside.stale_paths.is_empty() {
            let paths: Vec<String> = aside.stale_paths.iter().map(|path| one_line(path)).collect();
            text.push_str(&format!(
                "Files that you had read and it has changed since: {}\n",
                paths.join(", ")
            ));
        }
        if let Some(path) = self.entry.live_transcript.as_deref() {
            text.push_str(&format!("Live transcript: {}\n", one_line(path)));
        }
        text + "\n"
    }

    /// What it takes apart from the quoted texts; `folder` is the length of the path where files go.
    pub(super) fn fixed_bytes(&self, folder: usize) -> usize {
        let labels: usize =
            self.sections.iter().map(|section| section.label.len() + 2 + NOTE_BYTES_MAX / 4).sum();
        self.header().len() + self.known().len() + labels + self.footer().len() + folder + NOTE_BYTES_MAX
    }

    /// The quoted bytes that it would take with enough room.
    pub(super) fn wants(&self) -> usize {
        self.sections.iter().map(Section::wants).sum()
    }

    /// The task with all that is known of it.
    pub(super) fn whole(&self) -> String {
        self.rendered(|section| section.quoted.clone())
    }

    /// The task with `share` quoted bytes. `keep` puts an answer that must be cut somewhere and says where.
    pub(super) fn within(&self, share: usize, keep: impl FnOnce(&str) -> Option<String>) -> String {
        let sections = &self.sections;
        let small: Vec<usize> =
            sections.iter().filter(|section| !section.is_answer()).map(Section::wants).collect();
        let answer: usize = sections.iter().filter(|section| section.is_answer()).map(Section::wants).sum();
        // An answer never leaves the others less than half, and takes no room that it does not need.
        let small_max = (share / 2).max(share.saturating_sub(answer));
        let small = fair(small_max, &small);
        let answer_max = share - small.iter().sum::<usize>();
        let (mut small, mut keep) = (small.into_iter(), Some(keep));
        self.rendered(|section| {
            if !section.is_answer() {
                return section.cut(small.next().unwrap_or_default(), "");
            }
            if section.quoted.len() <= answer_max {
                return section.quoted.clone();
            }
            let answer = self.entry.summary.as_deref().unwrap_or_default();
            let file = keep.take().and_then(|keep| keep(answer));
            section.cut(answer_max, &whereabouts(file.as_deref(), self.delegation))
        })
    }

    fn rendered(&self, mut shown: impl FnMut(&Section) -> String) -> String {
        let mut text = self.header() + &self.known();
        for section in &self.sections {
            for line in [section.label, &shown(section)] {
                text.push_str(line);
                text.push('\n');
            }
        }
        text.push_str(&self.footer());
        text
    }

    /// The calls whose effect is not known, one a line.
    fn doubts(&self) -> String {
        let line = |item: &TraceItem| match item.input_summary.targets.as_slice() {
            [] => item.tool.clone(),
            targets => format!("{}: {}", item.tool, targets.join(", ")),
        };
        self.entry.in_doubt.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// What its own subagents have brought, one after another.
    fn unread(&self) -> String {
        let one = |unread: &Unread| {
            let Unread { subagent_id, delegation_id, goal, status, summary, error, .. } = unread;
            let brought = [summary, error].into_iter().flatten().cloned().collect::<Vec<_>>().join("\n");
            let note = |left_out| format!("{left_out} bytes left out");
            let brought = excerpt(&brought, UNREAD_EACH_BYTES_MAX, note).unwrap_or(brought);
            format!(
                "{subagent_id} ({}), whole with `legwork results {delegation_id}`: {}\n{brought}",
                status.as_str(),
                excerpt(&one_line(goal), UNREAD_GOAL_BYTES_MAX, note).unwrap_or_else(|| one_line(goal)),
            )
        };
        self.unread.iter().map(one).collect::<Vec<_>>().join("\n")
    }

    fn sections(&self) -> Vec<Section> {
        let entry = &self.entry;
        let answer = entry.summary.as_deref().filter(|text| !text.trim().is_empty());
        let answer_label = match (entry.status == WireStatus::Completed, entry.flaw()) {
            (false, _) => "Partial output; it did not complete:",
            (true, None) => "Answer:",
            (true, Some(Flaw::StepLimit)) => {
                "What it had said when the step limit (delegation.max_iterations) cut it off; it may not be whole:"
            }
            (true, Some(Flaw::OutputLimit)) => {
                "Its answer, which the provider's limit of output tokens cut off; it is not whole:"
            }
            (true, Some(Flaw::SchemaMissed)) => {
                "Its answer as raw text, which does not meet the schema; use it as it is instead of running the task again:"
            }
        };
        let errors = entry.schema_errors.as_ref().map(|errors| errors.join("\n"));
        let error_label = if answer.is_some() { "Error:" } else { "It gave no answer. Error:" };
        let missed = (!self.missed.is_empty()).then_some(self.missed.as_str());
        let doubts = self.doubts();
        let doubts = (!doubts.is_empty()).then_some(doubts.as_str());
        let unread = self.unread();
        let unread = (!unread.is_empty()).then_some(unread.as_str());
        let processes = process_notes(self.child, entry).join("\n");
        let processes = (!processes.is_empty()).then_some(processes.as_str());
        let texts = [
            ("Goal:", Some(self.goal), GOAL_BYTES_MAX),
            ("Context:", self.context, CONTEXT_BYTES_MAX),
            (error_label, entry.error.as_deref(), ERROR_BYTES_MAX),
            ("What of the answer does not fit its schema:", errors.as_deref(), ERROR_BYTES_MAX),
            (answer_label, answer, usize::MAX),
            (
                "Git in its folder, as it is now:",
                self.remains.and_then(|remains| remains.git.as_deref()),
                GIT_BYTES_MAX,
            ),
            (
                "The end of its transcript:",
                self.remains.and_then(|remains| remains.tail.as_deref()),
                TAIL_BYTES_MAX,
            ),
            ("Calls that were cut off, whose effect is not known:", doubts, DOUBTS_BYTES_MAX),
            ("Its background processes:", processes, PROCESSES_BYTES_MAX),
            ("What its own subagents have brought, which it had not read:", unread, UNREAD_BYTES_MAX),
            ("Said to it too late, so it has not read this:", missed, MISSED_BYTES_MAX),
        ];
        let sections = texts.into_iter().filter_map(|(label, text, bytes_max)| {
            let text = text?;
            Some(Section { label, quoted: quote(text), bytes_max, bytes: text.len() })
        });
        sections.collect()
    }
}

impl Section {
    fn is_answer(&self) -> bool {
        self.bytes_max == usize::MAX
    }

    fn wants(&self) -> usize {
        self.quoted.len().min(self.bytes_max)
    }

    fn cut(&self, bytes_max: usize, where_whole: &str) -> String {
        let note = format!("cut: the text has {} bytes. {where_whole}", self.bytes);
        cut(&self.quoted, bytes_max, note.trim_end())
    }
}

fn worktree_line(worktree: &Worktree) -> String {
    let Worktree { path, branch, commits, dirty, pruned, note, .. } = worktree;
    let (path, branch) = (one_line(path), one_line(branch));
    if *pruned {
        return format!("Worktree: it changed nothing in {path}, which is removed\n");
    }
    let changed = if *dirty { "something is not committed" } else { "everything is committed" };
    let note = note.as_deref().map(|note| format!("; {}", one_line(note))).unwrap_or_default();
    format!("Worktree: {path}, branch {branch}, commits: {commits}, {changed}{note}\n")
}
