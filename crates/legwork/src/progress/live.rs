//! Live lines on a terminal: one for each running child, as many as fit, and one that counts the rest.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use legwork_core::child::ChildState;
use legwork_core::ports::ChildView;

use unicode_width::UnicodeWidthStr;

use crate::{stderr, wording};

/// Lines that stay free for what is printed above.
const ROWS_FREE: usize = 6;
const DRAWS_A_SECOND: u8 = 10;

/// The lines that change in place.
pub struct Live {
    area: MultiProgress,
    lines: Vec<ProgressBar>,
    /// What is left of the unit that last lost a child (PROG-9).
    left: Option<String>,
    colours: bool,
}

impl Live {
    /// An empty area at the bottom of the terminal that stderr is.
    pub fn new(colours: bool) -> Live {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS_A_SECOND);
        Live { area: MultiProgress::with_draw_target(target), lines: Vec::new(), left: None, colours }
    }

    /// Prints a line above the area.
    pub fn line(&self, text: &str) {
        if self.area.println(text).is_err() {
            // Where nothing can be drawn a plain line may still arrive; the results are not shown here.
            stderr::tell(&format!("  {text}"));
        }
    }

    /// What is left of a unit; the next refresh shows it.
    pub fn left(&mut self, text: Option<String>) {
        self.left = text;
    }

    /// Shows what runs now.
    pub fn refresh(&mut self, views: &[ChildView]) {
        let mut texts = texts(views, terminal());
        if !texts.is_empty() {
            texts.extend(self.left.clone());
        }
        while self.lines.len() > texts.len() {
            if let Some(line) = self.lines.pop() {
                line.finish_and_clear();
                self.area.remove(&line);
            }
        }
        while self.lines.len() < texts.len() {
            let line = ProgressBar::no_length().with_style(self.style());
            self.lines.push(self.area.add(line));
        }
        for (line, text) in self.lines.iter().zip(texts) {
            line.set_message(text);
            line.tick();
        }
    }

    /// Takes the area off the terminal.
    pub fn clear(&mut self) {
        self.refresh(&[]);
        self.area.clear().ok();
    }

    fn style(&self) -> ProgressStyle {
        let template = if self.colours { "{spinner:.cyan} {msg}" } else { "{spinner} {msg}" };
        ProgressStyle::with_template(template).expect("BUG: the template is constant and right")
    }
}

/// Rows and columns of the terminal that stderr is.
/// What fits on the terminal, in letters.
#[derive(Clone, Copy)]
struct Extent {
    rows: usize,
    columns: usize,
}

fn terminal() -> Extent {
    match terminal_size::terminal_size_of(std::io::stderr()) {
        Some((columns, rows)) => Extent { rows: rows.0.into(), columns: columns.0.into() },
        None => Extent { rows: 24, columns: 80 },
    }
}

fn texts(views: &[ChildView], Extent { rows, columns }: Extent) -> Vec<String> {
    let running: Vec<&ChildView> = views.iter().filter(|view| view.state.has_runner()).collect();
    let waiting = views.iter().filter(|view| matches!(view.state, ChildState::Queued { .. })).count();
    let fit = rows.saturating_sub(ROWS_FREE).max(1);
    let mut texts: Vec<String> =
        running.iter().take(fit).map(|view| child(view, columns.saturating_sub(3))).collect();
    let hidden = running.len().saturating_sub(fit);
    if hidden + waiting > 0 {
        texts.push(rest(hidden, waiting));
    }
    texts
}

fn rest(hidden: usize, waiting: usize) -> String {
    match (hidden, waiting) {
        (0, waiting) => format!("{waiting} waiting"),
        (hidden, 0) => format!("{hidden} more running"),
        (hidden, waiting) => format!("{hidden} more running, {waiting} waiting"),
    }
}

/// Goal, elapsed, last activity, tokens, cost.
fn child(view: &ChildView, columns: usize) -> String {
    let usage = view.pulse.usage;
    let pauses = view.pulse.pausing(view.quiet).is_some();
    let quiet = if view.quiet >= Duration::from_secs(10) && !pauses {
        format!(", quiet {}", wording::duration(view.quiet))
    } else {
        String::new()
    };
    let cost = wording::cost(view.pulse.cost).map(|cost| format!("  {cost}")).unwrap_or_default();
    let facts = format!(
        "  {}  {}{quiet}  {} tok{cost}",
        wording::duration(view.elapsed),
        activity(view),
        wording::count(usage.input + usage.output),
    );
    let number = format!("{}  ", view.task_index + 1);
    let room = columns.saturating_sub(number.len() + facts.width()).max(8);
    let goal = wording::one_line_of_columns(&view.goal, room);
    format!("{number}{goal}{facts}")
}

fn activity(view: &ChildView) -> String {
    match view.state {
        ChildState::Stopping { .. } => "stopping".to_owned(),
        ChildState::Queued { .. }
        | ChildState::Running { .. }
        | ChildState::Parked { .. }
        | ChildState::Waiting { .. }
        | ChildState::Settled(_) => match wording::pause(&view.pulse, view.quiet) {
            Some(awaited) => format!("waits for {awaited}"),
            None => view.pulse.phase_text(),
        },
    }
}
