//! The results of a delegation as `delegate` and `results` print them, and the exit code that follows from them.

use legwork_core::below::{Below, Unread};
use legwork_core::completion::{BatchResult, Entry, UnitResult};
use legwork_core::ids::{ChildId, UnitId};
use legwork_core::record::DelegationRecord;
use serde_json::{Value, json};

use crate::failure::Exit;
use crate::wording;
use std::time::Duration;

const GROUP_WIDTH: usize = 60;

/// The results so far, in task order.
pub struct Outcomes<'a> {
    record: &'a DelegationRecord,
    batch: BatchResult,
    /// The tasks that were asked for.
    wanted: Vec<usize>,
}

impl<'a> Outcomes<'a> {
    /// Those of the whole delegation.
    pub fn all(record: &'a DelegationRecord) -> Self {
        Outcomes::of(record, (0..record.children.len()).collect())
    }

    /// Those of some of its tasks.
    pub fn of(record: &'a DelegationRecord, wanted: Vec<usize>) -> Self {
        let batch = BatchResult::of_tasks(record, &wanted);
        Outcomes { record, batch, wanted }
    }

    /// With what was said to the children too late for them to read.
    pub fn with_missed(self, missed: &[(ChildId, String)]) -> Self {
        Outcomes { batch: self.batch.with_missed(self.record, missed), ..self }
    }

    /// With what the children have sent out themselves.
    pub fn with_below(self, below: &Below) -> Self {
        Outcomes { batch: self.batch.with_below(self.record, below), ..self }
    }

    /// Whether every task that was asked for has ended.
    pub fn are_complete(&self) -> bool {
        self.batch.results.len() == self.wanted.len()
    }

    /// 0 when all are whole answers, else 1.
    pub fn exit(&self) -> Exit {
        if self.batch.is_success(self.wanted.len()) { Exit::Success } else { Exit::Incomplete }
    }

    /// The shape of `delegate --json`.
    pub fn to_json(&self) -> Value {
        json!(self.batch)
    }

    /// The shape of `results --json`.
    pub fn to_json_with_delivery(&self) -> Value {
        let mut value = self.to_json();
        if let Value::Object(fields) = &mut value {
            fields.insert("complete".to_owned(), json!(self.are_complete()));
            fields.insert("delivery".to_owned(), json!(self.delivery()));
        }
        value
    }

    /// The delivery of the unit, or of each when there are several.
    fn delivery(&self) -> Value {
        let units = self.record.accepted.units.iter().zip(&self.record.deliveries);
        let asked_for =
            units.filter(|(unit, _)| unit.task_indexes.iter().any(|task| self.wanted.contains(task)));
        let states: Vec<&str> = asked_for.map(|(_, delivery)| delivery.state.as_str()).collect();
        match states.as_slice() {
            [one] => json!(one),
            several => json!(several),
        }
    }

    /// The text for people: a head and a body for each task, those of each unit under a line of its own when there are
    /// several, then a line that counts.
    pub fn to_text(&self) -> String {
        self.rest_text(&[])
    }

    /// As [`Outcomes::to_text`], without the units that were `printed` before; what counts counts them, too.
    pub fn rest_text(&self, printed: &[UnitId]) -> String {
        let mut parts = Vec::new();
        if self.batch.units.is_empty() {
            parts.extend(self.batch.results.iter().map(|entry| self.entry_text(entry)));
        }
        for unit in self.batch.units.iter().filter(|unit| !printed.contains(&unit.delegation_id)) {
            parts.extend(self.parts_of(unit));
        }
        parts.extend(self.open_text());
        parts.push(self.closing_line());
        parts.join("\n\n")
    }

    /// One of several units, as the text for people has it.
    pub fn unit_text(&self, unit: &UnitId) -> String {
        let unit = self.batch.units.iter().find(|known| known.delegation_id == *unit);
        unit.map(|unit| self.parts_of(unit).join("\n\n")).unwrap_or_default()
    }

    /// The line of a unit and what its tasks have brought; nothing before one of them has ended.
    fn parts_of(&self, unit: &UnitResult) -> Vec<String> {
        let of_unit = self.batch.results.iter().filter(|entry| unit.task_indexes.contains(&entry.task_index));
        let mut parts: Vec<String> = of_unit.map(|entry| self.entry_text(entry)).collect();
        if !parts.is_empty() {
            parts.insert(0, unit_text(unit));
        }
        parts
    }

    fn entry_text(&self, entry: &Entry) -> String {
        let goal = &self.record.accepted.tasks[entry.task_index].goal;
        let (number, of) = (entry.task_index + 1, self.record.children.len());
        let took = wording::duration(Duration::from_secs_f64(entry.duration_seconds.max(0.0)));
        let flaw = entry.flaw().map(|flaw| format!(", {}", flaw.words())).unwrap_or_default();
        let whole = entry.subtree.as_ref().map(|whole| {
            let tokens = wording::count(whole.tokens.input + whole.tokens.output);
            format!(", {tokens} with its {} subagents", whole.subagents - 1)
        });
        let head = format!(
            "{} {number}/{of}  {}  ({}{flaw}, {took}, {} tokens{})",
            entry.status.icon(entry.flaw()),
            wording::one_line(goal, 70),
            entry.status.as_str(),
            wording::count(entry.tokens.input + entry.tokens.output),
            whole.unwrap_or_default(),
        );
        let mut lines = vec![head];
        lines.extend(entry.schema_errors.iter().flatten().map(|error| indented(&format!("schema: {error}"))));
        lines.extend(entry.error.as_deref().map(|error| indented(&format!("error: {error}"))));
        lines.extend(entry.summary.as_deref().map(indented));
        lines.extend(entry.unread_results.iter().map(|unread| indented(&unread_text(unread))));
        lines.join("\n")
    }

    fn open_text(&self) -> Option<String> {
        let open = self.wanted.len() - self.batch.results.len();
        (open > 0).then(|| format!("{open} of {} tasks have not ended yet", self.wanted.len()))
    }

    fn closing_line(&self) -> String {
        let whole = self.batch.results.iter().filter(|entry| entry.is_whole()).count();
        let total = Duration::from_secs_f64(self.batch.total_duration_seconds.max(0.0));
        format!(
            "{}: {whole} of {} completed in {}",
            self.batch.delegation_id,
            self.wanted.len(),
            wording::duration(total)
        )
    }
}

/// What a subagent of a subagent has brought that this one had not read.
fn unread_text(unread: &Unread) -> String {
    let mut lines = vec![format!(
        "{}  {}  ({}; {} had not read this when it ended)",
        unread.subagent_id,
        wording::one_line(&unread.goal, 70),
        unread.status.as_str(),
        unread.asked_by,
    )];
    lines.extend(unread.error.as_deref().map(|error| indented(&format!("error: {error}"))));
    lines.extend(unread.summary.as_deref().map(indented));
    lines.join("\n")
}

fn unit_text(unit: &UnitResult) -> String {
    let group =
        unit.group.as_deref().map(|group| format!("  group {}", wording::one_line(group, GROUP_WIDTH)));
    format!("{}{}", unit.delegation_id, group.unwrap_or_default())
}

fn indented(text: &str) -> String {
    let plain = wording::plain(text);
    let lines: Vec<String> = plain.trim_end().lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}
