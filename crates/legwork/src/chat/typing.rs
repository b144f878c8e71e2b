//! Keys: what they do to the line that is being typed, and what a finished line asks for. Whatever needs the conversation or
//! the engine is handed out as an [`Intent`].

use legwork_core::ids::ChildId;

use super::editor::Editor;
use super::history::History;
use super::rows::{Frame, Look, Row};
use super::slash::{self, Command, Meaning};
use super::sought::{Sought, Wanted};
use super::view::{Sort, View};

/// Columns before the typed text.
pub(super) const PROMPT_COLUMNS: usize = 2;

/// A key, by what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A character, or what was pasted.
    Text(String),
    /// Text from the clipboard: its line ends submit nothing.
    Paste(String),
    /// A line end within the text.
    NewLine,
    /// The text is finished.
    Enter,
    Left,
    Right,
    WordLeft,
    WordRight,
    Home,
    End,
    Up,
    Down,
    Backspace,
    Delete,
    KillToEnd,
    KillToStart,
    KillToSpace,
    KillWordLeft,
    KillWordRight,
    Yank,
    /// Complete a command's name.
    Complete,
    /// Search in what was typed before.
    Search,
    /// Give up what was begun: a search, a question.
    Cancel,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    EndOfInput,
    /// Draw everything again.
    Redraw,
}

/// What the conversation or the engine is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// Say this to the agent.
    Say(String),
    /// Stop the turn that runs, and no subagent.
    StopTurn,
    /// List the subagents as they are now.
    Agents,
    /// Look again whom a person means who is not in the list: another process may have begun it meanwhile.
    Seek(Sought),
    /// Tell a subagent something.
    Steer { child: ChildId, text: String },
    /// Stop a subagent and all below it.
    Stop(ChildId),
    /// Stop all subagents.
    StopAll,
    /// Another model answers from the next turn on.
    UseModel(String),
    /// List the conversations.
    Sessions,
    /// Show the end of a subagent's transcript.
    Transcript(ChildId),
    /// Draw everything again.
    Redraw,
    /// Leave.
    Leave(Leaving),
}

/// How the conversation is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// At once.
    Now,
    /// When all subagents have ended and their results were answered.
    WhenDone,
    /// When all subagents were stopped.
    Stopping,
    /// When a process is there that goes on with the subagents.
    ToWorker,
}

/// What is being typed, and everything around it.
#[derive(Debug, Default)]
pub struct Typing {
    pub(super) editor: Editor,
    pub(super) history: History,
    pub(super) search: Option<Search>,
    pub(super) mode: Mode,
    /// What is said until the next key.
    pub(super) notice: Option<String>,
}

/// A search in what was typed before.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) wanted: String,
    pub(super) found: Option<(usize, String)>,
}

/// What keys mean now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mode {
    /// They type.
    #[default]
    Typing,
    /// The next interrupt leaves.
    Warned,
    /// They answer what becomes of the subagents.
    Asked,
    /// The conversation is being left.
    Leaving(Leaving),
}

impl Typing {
    /// An empty line with a memory of earlier ones.
    pub fn new(history: History) -> Typing {
        Typing { history, ..Typing::default() }
    }
}

impl View {
    /// A key was pressed.
    pub fn key(&mut self, key: Key) -> Option<Intent> {
        self.typing.notice = None;
        match (self.typing.mode, key) {
            (_, Key::Redraw) => return Some(Intent::Redraw),
            (Mode::Asked, key) => return self.answered(&key),
            (Mode::Leaving(Leaving::Stopping | Leaving::ToWorker), _) => return None,
            (Mode::Leaving(Leaving::WhenDone | Leaving::Now), Key::Interrupt | Key::EndOfInput) => {
                return self.leave();
            }
            (_, Key::Interrupt) => return self.interrupted(),
            (_, Key::EndOfInput) if self.typing.editor.is_empty() && self.typing.search.is_none() => {
                return self.leave();
            }
            (_, key) => {
                self.typing.mode = Mode::Typing;
                if self.typing.search.is_some() && !self.searched(&key) {
                    return None;
                }
                match key {
                    Key::Enter => return self.entered(),
                    key => self.edit(key),
                }
            }
        }
        None
    }

    /// A message was not taken: it is given back to be changed.
    pub fn not_said(&mut self, text: &str, why: &str) {
        if self.typing.editor.is_empty() {
            self.typing.editor.set(text);
        }
        self.typing.notice = Some(why.to_owned());
    }

    /// The conversation could not be left: it goes on.
    pub fn stay(&mut self, why: &str) {
        self.typing.mode = Mode::Typing;
        self.failed(why);
    }

    /// How the conversation is being left, if it is.
    pub fn leaving(&self) -> Option<Leaving> {
        match self.typing.mode {
            Mode::Leaving(leaving) => Some(leaving),
            Mode::Typing | Mode::Warned | Mode::Asked => None,
        }
    }

    /// Nobody is asked any more what becomes of subagents that are not there.
    pub(super) fn reconsider(&mut self) {
        if self.typing.mode == Mode::Asked && !self.has_children() {
            self.typing.mode = Mode::Typing;
            self.typing.notice = Some("all subagents have ended; Ctrl-D leaves".to_owned());
        }
    }

    pub(super) fn frame(&self) -> Frame {
        let columns = self.size.columns.saturating_sub(PROMPT_COLUMNS + 1).max(2);
        Frame { first: columns, further: columns }
    }

    fn interrupted(&mut self) -> Option<Intent> {
        let typing = &mut self.typing;
        if typing.search.take().is_some() {
            return None;
        }
        match &mut self.turn {
            Some(turn) if !turn.stopping => {
                turn.stopping = true;
                return Some(Intent::StopTurn);
            }
            Some(_) | None => {}
        }
        if !typing.editor.is_empty() {
            typing.editor.take();
            typing.history.leave();
            return None;
        }
        if typing.mode == Mode::Warned {
            return self.leave();
        }
        typing.mode = Mode::Warned;
        None
    }

    fn leave(&mut self) -> Option<Intent> {
        if self.has_children() {
            self.typing.mode = Mode::Asked;
            return None;
        }
        self.leave_by(Leaving::Now)
    }

    fn leave_by(&mut self, leaving: Leaving) -> Option<Intent> {
        if leaving == Leaving::Now
            && let Some(words) = self.roster.elsewhere()
        {
            self.note(&format!(
                "not ended: {words}; `legwork ps` shows them, and their results wait for this conversation"
            ));
        }
        self.typing.mode = Mode::Leaving(leaving);
        Some(Intent::Leave(leaving))
    }

    fn answered(&mut self, key: &Key) -> Option<Intent> {
        let Key::Text(text) = key else {
            self.typing.mode = Mode::Typing;
            return None;
        };
        match text.as_str() {
            "w" | "W" => self.leave_by(Leaving::WhenDone),
            "s" | "S" => self.leave_by(Leaving::Stopping),
            "l" | "L" => self.leave_by(Leaving::ToWorker),
            _ => {
                self.typing.mode = Mode::Typing;
                None
            }
        }
    }

    fn edit(&mut self, key: Key) {
        let frame = self.frame();
        let typing = &mut self.typing;
        let editor = &mut typing.editor;
        let mut fits = true;
        match key {
            Key::Text(text) | Key::Paste(text) => fits = editor.insert(&text),
            Key::NewLine => fits = editor.insert("\n"),
            Key::Left => editor.left(),
            Key::Right => editor.right(),
            Key::WordLeft => editor.word_left(),
            Key::WordRight => editor.word_right(),
            Key::Home => editor.home(),
            Key::End => editor.end(),
            Key::Up if !editor.up(&frame) => {
                if let Some(entry) = typing.history.back(editor.text()) {
                    let entry = entry.to_owned();
                    editor.set(&entry);
                }
            }
            Key::Down if !editor.down(&frame) => {
                if let Some(entry) = typing.history.forward() {
                    let entry = entry.to_owned();
                    editor.set(&entry);
                }
            }
            Key::Up | Key::Down => {}
            Key::Backspace => editor.backspace(),
            Key::Delete | Key::EndOfInput => editor.delete(),
            Key::KillToEnd => editor.kill_to_end(),
            Key::KillToStart => editor.kill_to_start(),
            Key::KillToSpace => editor.kill_back_to_space(),
            Key::KillWordLeft => editor.kill_word_left(),
            Key::KillWordRight => editor.kill_word_right(),
            Key::Yank => fits = editor.yank(),
            Key::Complete => {
                if let Some(whole) = slash::completed(editor.text()) {
                    editor.set(&whole);
                }
            }
            Key::Search => typing.search = Some(Search::default()),
            Key::Enter | Key::Cancel | Key::Interrupt | Key::Redraw => {}
        }
        if !fits {
            typing.notice = Some("that is too long to be typed; put it into a file and name that".to_owned());
        }
    }

    /// A key while a search goes on. Says whether the key means something to the found line, too.
    fn searched(&mut self, key: &Key) -> bool {
        let typing = &mut self.typing;
        let Some(mut search) = typing.search.take() else { return true };
        let before = match key {
            Key::Text(text) => {
                search.wanted.push_str(text);
                search.found.as_ref().map(|(place, _)| place + 1)
            }
            Key::Backspace => {
                search.wanted.pop();
                None
            }
            Key::Search => search.found.as_ref().map(|(place, _)| *place),
            Key::Cancel => return false,
            _ => {
                if let Some((_, found)) = search.found {
                    typing.editor.set(&found);
                }
                return *key != Key::Enter;
            }
        };
        let found =
            (!search.wanted.is_empty()).then(|| typing.history.search(&search.wanted, before)).flatten();
        let found = found.map(|(place, entry)| (place, entry.to_owned()));
        search.found = match key {
            // There is no older one: the last one stays.
            Key::Search => found.or(search.found),
            _ => found,
        };
        typing.search = Some(search);
        false
    }

    fn entered(&mut self) -> Option<Intent> {
        let editor = &mut self.typing.editor;
        if editor.before().len() == editor.text().len() && editor.text().ends_with('\\') {
            editor.backspace();
            editor.insert("\n");
            return None;
        }
        let text = editor.take();
        if text.trim().is_empty() {
            self.typing.history.leave();
            return None;
        }
        if let Err(error) = self.typing.history.add(&text) {
            tracing::debug!(%error, "what was typed could not be kept");
        }
        match slash::meaning(&text) {
            Meaning::Say(text) => Some(Intent::Say(text)),
            Meaning::Wrong(why) => {
                self.typing.editor.set(&text);
                self.typing.notice = Some(why);
                None
            }
            Meaning::Do(command) => match self.carry_out(command, &text) {
                Ok(intent) => intent,
                Err(why) => {
                    self.typing.editor.set(&text);
                    self.typing.notice = Some(why);
                    None
                }
            },
        }
    }

    fn carry_out(&mut self, command: Command, typed: &str) -> Result<Option<Intent>, String> {
        let columns = self.size.columns;
        let intent = match command {
            Command::Help => {
                let rows = help(columns);
                self.answer_to(typed, rows);
                return Ok(None);
            }
            Command::Agents => Intent::Agents,
            Command::Model => {
                let row = Row::of(&self.who.model, Look::Plain);
                self.answer_to(typed, vec![row.cut(columns)]);
                return Ok(None);
            }
            Command::Open(number) => {
                let rows = self.opened(number)?;
                self.answer_to(typed, rows);
                return Ok(None);
            }
            Command::Quit => return Ok(self.leave()),
            Command::Agent(agent) => return Ok(Some(self.aimed(agent, Wanted::Transcript, typed))),
            Command::Steer { agent, text } => {
                return Ok(Some(self.aimed(agent, Wanted::Steer(text), typed)));
            }
            Command::Stop(agent) => return Ok(Some(self.aimed(agent, Wanted::Stop, typed))),
            Command::StopAll => Intent::StopAll,
            Command::UseModel(name) => Intent::UseModel(name),
            Command::Sessions => Intent::Sessions,
        };
        self.answer_to(typed, Vec::new());
        Ok(Some(intent))
    }

    /// All subagents, as they were last looked at.
    pub fn list_agents(&mut self) {
        let rows = self.roster.tree(self.size.columns);
        self.give(Sort::Listing, rows);
    }

    /// The typed command, and what is said to it.
    pub(super) fn answer_to(&mut self, typed: &str, rows: Vec<Row>) {
        let typed = typed.trim().lines().next().unwrap_or_default();
        let echo = Row::of("› ", Look::Faint).and(typed, Look::Faint).cut(self.size.columns);
        self.give(Sort::Person, vec![echo]);
        if !rows.is_empty() {
            self.give(Sort::Listing, rows);
        }
    }

    fn opened(&self, number: usize) -> Result<Vec<Row>, String> {
        let columns = self.size.columns;
        let item = self.shelf.get(number)?;
        let mut rows = Row::of(&item.title, Look::Strong).wrapped(columns, 2);
        for (heading, text) in &item.texts {
            rows.push(Row::of(heading, Look::Faint));
            for line in text.lines() {
                rows.extend(Row::of("  ", Look::Plain).and(line, Look::Plain).wrapped(columns, 2));
            }
        }
        Ok(rows)
    }
}

fn help(columns: usize) -> Vec<Row> {
    let width =
        slash::HELP.iter().chain(&slash::KEYS).map(|(usage, _)| usage.chars().count()).max().unwrap_or(0);
    let width = if columns < 60 { 0 } else { width };
    let row = |(usage, does): &(&str, &str)| {
        let pad = " ".repeat(width.saturating_sub(usage.chars().count()) + 2);
        let row = Row::of(usage, Look::Code).and(&pad, Look::Plain).and(does, Look::Plain);
        row.wrapped(columns, width + 2)
    };
    let commands = slash::HELP.iter().flat_map(row);
    let keys = slash::KEYS.iter().flat_map(row);
    commands.chain([Row::blank()]).chain(keys).collect()
}
