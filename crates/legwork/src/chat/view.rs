//! What the terminal of a conversation shows: fed with what happens and what is typed, it gives rows for the scrollback and the
//! block below them. It has no clock, no terminal and no channel; `now` is the time since the conversation was opened.

use std::collections::VecDeque;
use std::time::Duration;

use legwork_agent::session::{Cause, SessionEvent};
use legwork_core::message::Author;
use legwork_core::outcome::{Ending, Limit};
use legwork_core::ports::SessionView;
use legwork_core::pulse::LineEvent;
use legwork_core::report::{Cost, Report, Usage};

use super::markdown::Markdown;
use super::roster::Roster;
use super::rows::{Colours, Look, Row};
use super::shelf::{self, Item, Shelf};
use super::typing::Typing;
use crate::progress::Sets;
use crate::{call_label, wording};

const ERROR_COLUMNS: usize = 400;
const TOOL_COLUMNS: usize = 40;

/// Columns and rows of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// What is said of the conversation itself.
#[derive(Debug, Clone, Default)]
pub struct Who {
    /// The model that answers.
    pub model: String,
    /// The conversation's name, or its id.
    pub session: String,
}

/// Everything that is shown.
#[derive(Debug)]
pub struct View {
    pub(super) size: Size,
    pub(super) who: Who,
    pub(super) typing: Typing,
    pub(super) turn: Option<Turn>,
    pub(super) calls: Vec<RunningCall>,
    /// What was said and has not begun a turn.
    pub(super) waiting: VecDeque<String>,
    pub(super) roster: Roster,
    pub(super) sets: Sets,
    pub(super) shelf: Shelf,
    pub(super) markdown: Markdown,
    pub(super) spent: (Usage, Cost),
    above: Above,
}

/// A turn that runs.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) since: Duration,
    pub(super) doing: Doing,
    /// It was told to stop.
    pub(super) stopping: bool,
    /// Whether any text of an answer arrived.
    wrote: bool,
}

/// What the agent does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// It waits for the model.
    Asking,
    /// The model thinks; what it thinks is not shown.
    Thinking,
    /// Text arrives.
    Writing,
    /// Tools run.
    Tools,
    /// The next try comes after a pause; a stop gives it up.
    Pausing,
}

impl Turn {
    fn new(doing: Doing, now: Duration) -> Turn {
        Turn { since: now, doing, stopping: false, wrote: false }
    }
}

/// A tool call that runs.
#[derive(Debug)]
pub(super) struct RunningCall {
    id: String,
    pub(super) tool: String,
    pub(super) arguments: String,
    pub(super) since: Duration,
}

/// Rows on their way to the scrollback.
#[derive(Debug, Default)]
struct Above {
    rows: Vec<Row>,
    last: Option<Sort>,
    /// Blank rows that are shown once something follows them.
    blanks: usize,
}

/// Between two sorts of rows there is a blank one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Person,
    Answer,
    /// Calls, notes, and what subagents did.
    Aside,
    /// What a command of legwork says.
    Listing,
}

impl View {
    /// A conversation in which nothing has happened yet.
    pub fn new(colours: Colours, size: Size, who: Who, typing: Typing) -> View {
        View {
            size,
            who,
            typing,
            turn: None,
            calls: Vec::new(),
            waiting: VecDeque::new(),
            roster: Roster::default(),
            sets: Sets::default(),
            shelf: Shelf::default(),
            markdown: Markdown::new(colours),
            spent: (Usage::default(), Cost::Unknown),
            above: Above::default(),
        }
    }

    /// The terminal has this size from now on.
    pub fn resize(&mut self, size: Size) {
        self.size = size;
    }

    /// Another model answers from now on.
    pub fn use_model(&mut self, model: String) {
        self.who.model = model;
    }

    /// What goes into the scrollback now.
    pub fn take_above(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.above.rows)
    }

    /// How many rows wait to go there.
    pub fn above_count(&self) -> usize {
        self.above.rows.len()
    }

    /// The first rows: who is here.
    pub fn greet(&mut self, version: &str) {
        let text = format!("legwork {version} · {} · {}", self.who.model, self.who.session);
        self.give(Sort::Aside, Row::of(&text, Look::Faint).wrapped(self.size.columns, 0));
    }

    /// What was said before, when a conversation is opened again.
    pub fn past(&mut self, messages: &[(Author, String)]) {
        for (author, text) in messages {
            match author {
                Author::User => self.person(text),
                Author::Assistant => {
                    self.write(text);
                    self.end_text();
                }
                Author::System | Author::Tool | Author::Completion | Author::Summary => {
                    self.aside("◆", Look::Faint, &wording::one_line(text, ERROR_COLUMNS));
                }
            }
        }
    }

    /// Something happened in the conversation.
    pub fn apply(&mut self, event: SessionEvent, now: Duration) {
        match event {
            SessionEvent::TurnBegan(cause) => self.turn_began(cause, now),
            SessionEvent::CameIn { title, text, .. } => {
                self.end_text();
                self.came_back(title, text);
            }
            SessionEvent::Told(event) => self.told(event, now),
            SessionEvent::Compacted { messages, tokens_before, tokens_after } => {
                self.compacted(messages, tokens_before, tokens_after);
            }
            SessionEvent::TurnEnded(report) => self.turn_ended(&report),
            SessionEvent::TryingAgain { pause, tries } => {
                self.end_text();
                let pause = wording::duration(pause);
                let text = format!("try {tries} failed; the next in {pause}, or with your next message");
                self.aside("·", Look::Warning, &text);
                self.turn = Some(Turn::new(Doing::Pausing, now));
            }
            SessionEvent::Idle => {
                self.end_text();
                self.turn = None;
                self.calls.clear();
                self.waiting.clear();
            }
        }
    }

    /// The present list of subagents. Says whether anything is shown differently.
    pub fn set_children(&mut self, seen: SessionView) -> bool {
        let changed = self.roster.replace(seen);
        self.reconsider();
        changed
    }

    /// The size of the terminal.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Whether any subagent runs or waits in this process.
    pub fn has_children(&self) -> bool {
        let counts = self.roster.counts();
        counts.running + counts.queued > 0
    }

    /// Whether something on the screen changes with time alone.
    pub fn is_moving(&self) -> bool {
        self.turn.is_some() || self.has_children() || self.roster.elsewhere().is_some()
    }

    /// Whether no turn runs, nothing waits and no subagent is left in this process.
    pub fn is_idle(&self) -> bool {
        self.turn.is_none() && !self.has_children() && self.waiting.is_empty()
    }

    /// A message was taken; it waits for its turn.
    pub fn said(&mut self, text: String) {
        self.waiting.push_back(text);
    }

    /// A line that the program says of itself.
    pub fn note(&mut self, text: &str) {
        self.aside("·", Look::Faint, text);
    }

    /// A command could not be carried out.
    pub fn failed(&mut self, text: &str) {
        self.aside("✗", Look::Bad, text);
    }

    /// The answer to a command: rows of text, broken where they are too long.
    pub fn listing(&mut self, lines: &[String]) {
        let columns = self.size.columns;
        let rows = lines.iter().flat_map(|line| Row::of(line, Look::Plain).wrapped(columns, 2));
        self.give(Sort::Listing, rows.collect());
    }

    pub(super) fn give(&mut self, sort: Sort, rows: Vec<Row>) {
        if self.above.last.is_some_and(|last| last != sort || sort == Sort::Person) {
            self.above.rows.push(Row::blank());
            self.above.blanks = 0;
        }
        self.above.last = Some(sort);
        self.above.rows.extend(rows);
    }

    fn turn_began(&mut self, cause: Cause, now: Duration) {
        self.end_text();
        self.turn = Some(Turn::new(Doing::Asking, now));
        match cause {
            Cause::User(text) => {
                if let Some(place) = self.waiting.iter().position(|waiting| *waiting == text) {
                    self.waiting.remove(place);
                }
                self.person(&text);
            }
            Cause::Completion { unit, title, text } => {
                self.came_back(title, text);
                tracing::debug!(%unit, "results came back");
            }
            Cause::ProcessEnded { title, text } => self.came_back(title, text),
            Cause::Unanswered => self.aside("·", Look::Faint, "goes on with what was left unanswered"),
        }
    }

    /// A row that can be opened, for what the agent hears by itself.
    fn came_back(&mut self, title: String, text: String) {
        let number = self.shelf.put(Item { title: title.clone(), texts: vec![("what came back", text)] });
        let row = self.openable(("◆ ", Look::Accent), (&title, Look::Strong), &format!(" #{number}"));
        self.give(Sort::Aside, vec![row]);
    }

    fn told(&mut self, event: LineEvent, now: Duration) {
        match event {
            LineEvent::ModelCalled => self.doing(Doing::Asking),
            LineEvent::Thinking(_) => self.doing(Doing::Thinking),
            LineEvent::Text(text) => {
                self.doing(Doing::Writing);
                if let Some(turn) = &mut self.turn {
                    turn.wrote |= !text.trim().is_empty();
                }
                self.write(&text);
            }
            LineEvent::Replied { usage, cost } => {
                self.end_text();
                self.spent.0 += usage;
                self.spent.1 = self.spent.1.plus(cost);
            }
            LineEvent::Retrying { error, pause_ms, .. } => {
                self.end_text();
                self.doing(Doing::Pausing);
                let pause = wording::duration(Duration::from_millis(pause_ms));
                self.aside(
                    "·",
                    Look::Warning,
                    &format!("trying again in {pause}: {}", wording::one_line(&error, ERROR_COLUMNS)),
                );
            }
            LineEvent::ToolStarted { call: id, tool, arguments } => {
                self.end_text();
                self.doing(Doing::Tools);
                self.calls.push(RunningCall { id, tool, arguments, since: now });
            }
            LineEvent::ToolMoved => {}
            LineEvent::ToolEnded { call, tool, result, is_error, took_ms } => {
                let arguments = self.call_ended(&call);
                self.tool_ended((tool, arguments), result, is_error, Duration::from_millis(took_ms));
            }
            LineEvent::Compacted { messages, tokens_before, tokens_after, usage, cost } => {
                self.end_text();
                self.spent.0 += usage;
                self.spent.1 = self.spent.1.plus(cost);
                self.compacted(messages, tokens_before, tokens_after);
            }
            LineEvent::Note(note) => self.aside("·", Look::Faint, &wording::one_line(&note, ERROR_COLUMNS)),
        }
    }

    fn compacted(&mut self, messages: usize, before: u64, after: u64) {
        let (before, after) = (wording::count(before), wording::count(after));
        let text = format!(
            "{messages} earlier messages were summarised: {before} → {after} tokens; all stay stored"
        );
        self.aside("·", Look::Faint, &text);
    }

    /// Takes a call off those that run, and gives its arguments: several of one tool may run at once.
    fn call_ended(&mut self, id: &str) -> String {
        let place = self.calls.iter().position(|call| call.id == id);
        let arguments = place.map(|place| self.calls.remove(place).arguments).unwrap_or_default();
        if self.calls.is_empty() {
            self.doing(Doing::Asking);
        }
        arguments
    }

    fn tool_ended(
        &mut self,
        (tool, arguments): (String, String),
        result: String,
        is_error: bool,
        took: Duration,
    ) {
        let short = wording::one_line(&shelf::arguments_in_short(&arguments), ERROR_COLUMNS);
        let name = wording::one_line(&tool, TOOL_COLUMNS);
        let why = wording::one_line(&result, ERROR_COLUMNS);
        let goes_on = call_label::handed_off(&tool, &result).filter(|_| !is_error);
        let number = self.shelf.put(Item {
            title: format!("{name} {short}"),
            texts: vec![("arguments", shelf::arguments_in_full(&arguments)), ("result", result)],
        });
        let mark = if is_error { ("✗ ", Look::Bad) } else { ("✓ ", Look::Good) };
        let tail = format!(" ({}) #{number}", wording::duration(took));
        let mut rows = vec![self.openable(mark, (&format!("{name} {short}"), Look::Plain), &tail)];
        if is_error {
            rows.push(Row::of(&format!("  {why}"), Look::Bad).cut(self.size.columns));
        }
        self.give(Sort::Aside, rows);
        if let Some(goes_on) = goes_on {
            self.note(&goes_on);
        }
    }

    fn turn_ended(&mut self, report: &Report) {
        self.end_text();
        self.calls.clear();
        let turn = self.turn.take();
        let error = report.error.as_deref().map(|error| wording::one_line(error, ERROR_COLUMNS));
        match report.ending {
            Ending::Answered => {
                let answer = report.answer.as_deref().unwrap_or_default();
                if turn.is_some_and(|turn| !turn.wrote) && !answer.trim().is_empty() {
                    self.write(answer);
                    self.end_text();
                }
            }
            Ending::CutShort(limit) => {
                let limit = match limit {
                    Limit::Steps => "the limit of model calls (delegation.max_iterations)",
                    Limit::Spend => "the spending limit",
                    Limit::Output => "the provider's limit of output tokens",
                };
                self.aside(
                    "⚠",
                    Look::Warning,
                    &format!("cut short by {limit}; your next message goes on from here"),
                );
            }
            Ending::Interrupted => self.aside("■", Look::Warning, "stopped"),
            Ending::Failed(_) => self.failed(&error.unwrap_or_else(|| "the turn failed".to_owned())),
        }
    }

    fn doing(&mut self, doing: Doing) {
        if let Some(turn) = &mut self.turn {
            turn.doing = doing;
        }
    }

    /// Text of the agent arrives. Blank rows are shown once something follows them.
    fn write(&mut self, text: &str) {
        let rows = self.markdown.push(text, self.size.columns, self.unfinished_max());
        self.answer(rows);
    }

    /// No more text arrives for now.
    fn end_text(&mut self) {
        let rows = self.markdown.finish(self.size.columns);
        self.answer(rows);
        self.above.blanks = 0;
    }

    fn answer(&mut self, rows: Vec<Row>) {
        for row in rows {
            if row == Row::blank() {
                self.above.blanks += usize::from(self.above.last == Some(Sort::Answer));
                continue;
            }
            let blanks = std::mem::take(&mut self.above.blanks);
            if self.above.last == Some(Sort::Answer) {
                self.above.rows.extend(vec![Row::blank(); blanks]);
            }
            self.give(Sort::Answer, vec![row]);
        }
    }

    fn person(&mut self, text: &str) {
        let columns = self.size.columns;
        let mut rows = Vec::new();
        for line in text.trim_end().lines() {
            let mark = if rows.is_empty() { "› " } else { "  " };
            rows.extend(Row::of(mark, Look::Accent).and(line, Look::Accent).wrapped(columns, 2));
        }
        self.give(Sort::Person, rows);
    }

    fn aside(&mut self, mark: &str, look: Look, text: &str) {
        let row = Row::of(&format!("{mark} "), look).and(text, look);
        let rows = row.wrapped(self.size.columns, 2);
        self.give(Sort::Aside, rows);
    }

    /// A row whose middle gives way when there is no room for all of it.
    pub(super) fn openable(&self, mark: (&str, Look), text: (&str, Look), tail: &str) -> Row {
        let columns = self.size.columns;
        let (mark, tail) = (Row::of(mark.0, mark.1), Row::of(tail, Look::Faint));
        let room = columns.saturating_sub(mark.columns() + tail.columns());
        let middle = wording::one_line_of_columns(text.0, room.max(8));
        let row = mark.and(&middle, text.1).and(&tail.text(), Look::Faint);
        row.cut(columns)
    }
}
