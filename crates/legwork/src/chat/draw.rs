//! The block at the bottom of the screen: what may still change, from the end of an answer that arrives to the line that is
//! being typed. It is drawn from the view and nothing else, and is never higher than the screen.

use std::time::Duration;

use super::editor::Layout;
use super::roster::whole_seconds;
use super::rows::{Look, Row};
use super::shelf;
use super::typing::{Leaving, Mode, PROMPT_COLUMNS};
use super::view::{Doing, View};
use crate::{call_label, wording};

/// Running calls and waiting messages that have a row.
const FEW: usize = 4;
/// Where the subagents of a running call are seen.
const MONITOR: &str = "/agents";

/// What is drawn below the scrollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its rows, none wider than the screen.
    pub rows: Vec<Row>,
    /// Row within the block, and column.
    pub cursor: (usize, usize),
}

impl View {
    /// The block as it is now.
    pub fn draw(&self, now: Duration) -> Block {
        let size = self.size;
        let (typed, cursor) = self.typed();
        let mut rows = self.markdown.unfinished(size.columns);
        rows.extend(self.running_calls(now));
        let mut below: Vec<Row> = self.waiting_rows();
        below.extend(self.roster.live(size.columns, self.share()));
        below.extend(self.status(now));
        below.extend(self.question());
        if size.rows >= 12 {
            rows.push(Row::blank());
        }
        rows.extend(below);
        rows.extend(typed);
        // One row stays free for what goes up.
        let over = rows.len().saturating_sub(size.rows.saturating_sub(1).max(1));
        rows.drain(..over);
        let from_end = self.typed_rows() - cursor.0;
        let row = rows.len().saturating_sub(from_end);
        let rows = rows.into_iter().map(|row| row.cut(size.columns)).collect();
        Block { rows, cursor: (row, cursor.1.min(size.columns.saturating_sub(1))) }
    }

    /// How many rows of an answer stay in the block.
    pub(super) fn unfinished_max(&self) -> usize {
        (self.size.rows / 4).max(1)
    }

    /// The part of the screen that subagents may take, and typed text.
    fn share(&self) -> usize {
        (self.size.rows / 3).max(1)
    }

    fn running_calls(&self, now: Duration) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for call in self.calls.iter().take(FEW) {
            let tail = format!(" {}", whole_seconds(now.saturating_sub(call.since)));
            let tool = wording::one_line(&call.tool, 40);
            let label = call_label::running(&call.tool, &call.arguments, MONITOR);
            let label =
                label.unwrap_or_else(|| wording::one_line(&shelf::arguments_in_short(&call.arguments), 400));
            let text = format!("{tool} {label}");
            rows.push(self.openable(("… ", Look::Faint), (&text, Look::Plain), &tail));
        }
        let more = self.calls.len().saturating_sub(FEW);
        if more > 0 {
            rows.push(Row::of(&format!("  and {more} more calls"), Look::Faint));
        }
        rows
    }

    /// What was said and waits. A message that begins its turn at once is not shown twice.
    fn waiting_rows(&self) -> Vec<Row> {
        let waiting = if self.turn.is_some() { self.waiting.len() } else { 0 };
        let shown = self.waiting.iter().take(waiting.min(FEW));
        let row = |text: &String| {
            let line = wording::one_line_of_columns(text, self.size.columns.saturating_sub(12).max(8));
            Row::of("› ", Look::Faint).and(&line, Look::Faint).and(" (waits)", Look::Faint)
        };
        shown.map(row).collect()
    }

    fn status(&self, now: Duration) -> Option<Row> {
        let (counts, elsewhere) = (self.roster.counts(), self.roster.elsewhere());
        if self.turn.is_none() && counts.running + counts.queued == 0 && elsewhere.is_none() {
            return None;
        }
        let mut facts = Vec::new();
        match (counts.running, counts.queued) {
            (0, 0) => {}
            (0, queued) => facts.push(format!("{queued} queued")),
            (running, 0) => facts.push(format!("{running} running")),
            (running, queued) => facts.push(format!("{running} running, {queued} queued")),
        }
        facts.extend(elsewhere);
        if self.waiting.len() > FEW {
            facts.push(format!("{} messages wait", self.waiting.len()));
        }
        let (usage, cost) = self.roster.spent(self.spent);
        if usage.input + usage.output > 0 {
            facts.push(format!("{} tok", wording::count(usage.input + usage.output)));
        }
        facts.extend(wording::cost(cost));
        facts.extend([self.who.model.clone(), self.who.session.clone()]);
        let facts = facts.join(" · ");
        let row = match &self.turn {
            None => Row::of(&facts, Look::Faint),
            Some(turn) => {
                let doing = match turn.doing {
                    _ if turn.stopping => "stopping",
                    Doing::Asking => "waiting for the model",
                    Doing::Thinking => "thinking",
                    Doing::Writing => "writing",
                    Doing::Tools => "working",
                    Doing::Pausing => "trying again",
                };
                let doing = format!("{doing} {}", whole_seconds(now.saturating_sub(turn.since)));
                Row::of(&doing, Look::Warning).and(&format!(" · {facts}"), Look::Faint)
            }
        };
        Some(row.cut(self.size.columns))
    }

    /// What is asked, warned of, or being done about leaving.
    fn question(&self) -> Vec<Row> {
        let columns = self.size.columns;
        let counts = self.roster.counts();
        let (text, look) = match self.typing.mode {
            Mode::Asked => (
                format!(
                    "{}: [w]ait for them, [s]top them, [l]eave them to a worker, or stay (any other key)?{}",
                    subagents(counts.running, counts.queued),
                    self.roster.elsewhere().map(|words| format!(" Not meant: {words}")).unwrap_or_default(),
                ),
                Look::Strong,
            ),
            Mode::Warned => ("Ctrl-C again or Ctrl-D leaves".to_owned(), Look::Faint),
            Mode::Leaving(Leaving::WhenDone) => {
                ("leaving when all of them have ended; type to stay".to_owned(), Look::Strong)
            }
            Mode::Leaving(Leaving::Stopping) => ("stopping them …".to_owned(), Look::Strong),
            Mode::Leaving(Leaving::ToWorker) => ("leaving them to a worker …".to_owned(), Look::Strong),
            Mode::Leaving(Leaving::Now) | Mode::Typing => match &self.typing.notice {
                Some(notice) => (notice.clone(), Look::Warning),
                None => return Vec::new(),
            },
        };
        Row::of(&text, look).wrapped(columns, 0)
    }

    fn typed_rows(&self) -> usize {
        self.typed().0.len()
    }

    /// The rows of the line that is being typed, as many as fit, and the place in them.
    fn typed(&self) -> (Vec<Row>, (usize, usize)) {
        if let Some(search) = &self.typing.search {
            let found = search.found.as_ref().map_or("", |(_, found)| found.as_str());
            let head = Row::of(&format!("search: {}", search.wanted), Look::Accent);
            let column = head.columns();
            let row = head.and("  ", Look::Plain).and(&wording::one_line(found, 400), Look::Faint);
            return (vec![row.cut(self.size.columns)], (0, column));
        }
        let editor = &self.typing.editor;
        let Layout { rows, cursor: (row, column) } = editor.layout(&self.frame());
        let fit = self.share();
        let top = row.saturating_sub(fit / 2).min(rows.len().saturating_sub(fit));
        let last = rows.len().min(top + fit);
        let shown = (top..last).map(|place| {
            let mark = match place {
                0 => "› ",
                _ if place == top => "↑ ",
                _ if place + 1 == last && last < rows.len() => "↓ ",
                _ => "  ",
            };
            Row::of(mark, Look::Accent).and(&editor.text()[rows[place].clone()], Look::Plain)
        });
        (shown.collect(), (row - top, PROMPT_COLUMNS + column))
    }
}

fn subagents(running: usize, queued: usize) -> String {
    let are =
        |count: usize| if count == 1 { "1 subagent is".to_owned() } else { format!("{count} subagents are") };
    match (running, queued) {
        (running, 0) => format!("{} running", are(running)),
        (0, queued) => format!("{} queued", are(queued)),
        (running, queued) => format!("{} running and {queued} queued", are(running)),
    }
}
