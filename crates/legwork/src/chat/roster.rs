//! The subagents as the terminal shows them: a row for each that runs, and the whole tree on demand. It asks nobody; what it
//! shows is what it was last given.
//!
//! Each has a number of its own, given at first sight and never used again, so that a person can name it with a few keys.

use std::collections::HashMap;
use std::time::Duration;

use legwork_core::child::ChildState;
use legwork_core::completion::Flaw;
use legwork_core::ids::ChildId;
use legwork_core::outcome::Outcome;
use legwork_core::ports::{ChildView, EndFacts, Runner, SessionView};
use legwork_core::pulse::Phase;
use legwork_core::report::{Cost, Usage};

use super::elsewhere::{self, Places};
use super::rows::{Look, Row};
use crate::wording;

/// A subagent that has not moved for so long is marked.
const QUIET_AFTER: Duration = Duration::from_secs(30);
const GOAL_COLUMNS_MIN: usize = 8;
const TOOL_COLUMNS: usize = 16;
/// From so many columns on phase and tokens are shown beside the time.
const WIDE: usize = 64;

/// All subagents that are known.
#[derive(Debug, Default)]
pub struct Roster {
    children: Vec<ChildView>,
    /// Why those of other processes may be others by now, if they could not be read.
    unreadable: Option<String>,
    /// What is remembered of every subagent that ever was in the list.
    seen: HashMap<ChildId, Seen>,
}

/// What is remembered of a subagent after its end.
#[derive(Debug)]
struct Seen {
    number: usize,
    usage: Usage,
    cost: Cost,
    /// It has ended, and nothing begins it again.
    has_ended: bool,
}

/// How many there are in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// With a runner.
    pub running: usize,
    /// Waiting for their first start.
    pub queued: usize,
}

impl Roster {
    /// Takes the present list over; whoever is missing in it is gone. A list may have been made before an end that is known
    /// here already. Says whether anything is shown differently.
    pub fn replace(&mut self, seen: SessionView) -> bool {
        let SessionView { mut children, unreadable } = seen;
        if unreadable.is_some() {
            // Those of other processes are where they were, as far as is known.
            let known = self.children.iter().filter(|known| known.runner != Runner::Here);
            let gone = known.filter(|known| children.iter().all(|child| child.child != known.child));
            let gone: Vec<ChildView> = gone.cloned().collect();
            children.extend(gone);
        }
        children.retain(|child| !self.seen.get(&child.child).is_some_and(|seen| seen.has_ended));
        for child in &children {
            let seen = self.meet(&child.child);
            (seen.usage, seen.cost) = (child.pulse.usage, child.pulse.cost);
        }
        let children = in_tree_order(children);
        let changed = children != self.children || unreadable != self.unreadable;
        (self.children, self.unreadable) = (children, unreadable);
        changed
    }

    /// A subagent has ended.
    pub fn end(&mut self, child: &ChildId, facts: &EndFacts) {
        self.children.retain(|known| known.child != *child);
        let seen = self.meet(child);
        (seen.usage, seen.cost) = (facts.usage, facts.cost);
        seen.has_ended = true;
    }

    /// How many of them this process has.
    pub fn counts(&self) -> Counts {
        let here = || self.children.iter().filter(|child| child.runner == Runner::Here);
        let count = |is: fn(ChildState) -> bool| here().filter(|child| is(child.state)).count();
        Counts {
            running: count(ChildState::has_runner),
            queued: count(|state| matches!(state, ChildState::Queued { .. })),
        }
    }

    /// Where the others are, in a few words.
    pub fn elsewhere(&self) -> Option<String> {
        Places::of(self.children.iter()).words()
    }

    /// A row for each that runs, as many as fit into `rows_max`; one more row counts those that do not.
    pub fn live(&self, columns: usize, rows_max: usize) -> Vec<Row> {
        let running: Vec<&ChildView> =
            self.children.iter().filter(|child| child.state.has_runner()).collect();
        let fit = if running.len() <= rows_max { running.len() } else { rows_max.saturating_sub(1) };
        let mut rows: Vec<Row> =
            running.iter().take(fit).map(|child| self.live_row(child, columns)).collect();
        let hidden = running.len() - fit;
        if hidden > 0 {
            let more =
                if fit == 0 { format!("{hidden} subagents") } else { format!("… and {hidden} more") };
            rows.push(Row::of(&format!("  {more}, /agents shows all"), Look::Faint).cut(columns));
        }
        rows
    }

    /// All of them, each below the one that sent it out.
    pub fn tree(&self, columns: usize) -> Vec<Row> {
        let mut rows: Vec<Row> =
            self.children.iter().flat_map(|child| self.tree_rows(child, columns)).collect();
        if let Some(why) = &self.unreadable {
            rows.extend(Row::of(&elsewhere::unreadable(why), Look::Warning).wrapped(columns, 2));
        } else if rows.is_empty() {
            rows.push(Row::of("no subagents", Look::Faint));
        }
        rows
    }

    /// Whom a person means: by number, by id, or by the beginning of an id.
    ///
    /// # Errors
    /// What to say when it is nobody, or several.
    pub fn find(&self, typed: &str) -> Result<&ChildView, String> {
        if let Ok(number) = typed.trim_start_matches('@').parse::<usize>() {
            let child = self.children.iter().find(|child| self.number(child) == number);
            return child.ok_or_else(|| self.nobody(&format!("@{number}")));
        }
        let shown = wording::one_line_of_columns(typed, 40);
        let id = |child: &&ChildView| child.child.as_str().starts_with(typed);
        let exact = self.children.iter().find(|child| child.child.as_str() == typed);
        let mut found = self.children.iter().filter(id);
        match (exact, found.next(), found.next()) {
            (Some(child), _, _) | (None, Some(child), None) => Ok(child),
            (None, Some(_), Some(_)) => {
                Err(format!("several subagents' ids begin with {shown}; type more of it"))
            }
            (None, None, _) => Err(self.nobody(&shown)),
        }
    }

    fn nobody(&self, typed: &str) -> String {
        let unreadable =
            self.unreadable.as_deref().map(|why| format!(", and {}", elsewhere::unreadable(why)));
        format!("there is no subagent {typed}{}; /agents lists them", unreadable.unwrap_or_default())
    }

    /// What all subagents took so far, on top of something else.
    pub fn spent(&self, besides: (Usage, Cost)) -> (Usage, Cost) {
        let (mut usage, mut cost) = besides;
        for seen in self.seen.values() {
            usage += seen.usage;
            cost = cost.plus(seen.cost);
        }
        (usage, cost)
    }

    /// Gives it a number at first sight.
    fn meet(&mut self, child: &ChildId) -> &mut Seen {
        let number = self.seen.len() + 1;
        let new = Seen { number, usage: Usage::default(), cost: Cost::Unknown, has_ended: false };
        self.seen.entry(child.clone()).or_insert(new)
    }

    fn child(&self, id: &ChildId) -> Option<&ChildView> {
        self.children.iter().find(|child| child.child == *id)
    }

    fn number(&self, child: &ChildView) -> usize {
        self.seen.get(&child.child).map_or(0, |seen| seen.number)
    }

    fn live_row(&self, view: &ChildView, columns: usize) -> Row {
        let quiet = is_quiet(view);
        let (glyph, look) = glyph(view);
        let facts = facts(view, columns);
        let indent = "  ".repeat(self.depth(view).min(4));
        let number = format!("{:>4} ", format!("@{}", self.number(view)));
        let width = view.task_count.to_string().len();
        let place = format!(" {:>width$}/{} ", view.task_index + 1, view.task_count);
        let row =
            Row::of(&indent, Look::Plain).and(&number, Look::Faint).and(glyph, look).and(&place, Look::Faint);
        let room = columns.saturating_sub(row.columns() + facts.chars().count() + 1).max(GOAL_COLUMNS_MIN);
        let goal = wording::one_line_of_columns(&view.goal, room);
        let pad = " ".repeat(room.saturating_sub(Row::of(&goal, Look::Plain).columns()) + 1);
        let facts_look = if quiet { Look::Warning } else { Look::Faint };
        row.and(&goal, Look::Plain).and(&pad, Look::Plain).and(&facts, facts_look).cut(columns)
    }

    fn tree_rows(&self, view: &ChildView, columns: usize) -> Vec<Row> {
        let (glyph, look) = glyph(view);
        let indent = "  ".repeat(self.depth(view).min(8));
        let usage = view.pulse.usage;
        let mut facts = vec![state(view), wording::duration(view.elapsed)];
        facts.extend(place(view));
        if is_quiet(view) {
            facts.push(format!("quiet {}", wording::duration(view.quiet)));
        }
        facts.push(format!("{} tok", wording::count(usage.input + usage.output)));
        facts.extend(wording::cost(view.pulse.cost));
        facts.extend([view.model.clone(), view.child.to_string()]);
        let head = Row::of(&format!("{indent}{:>4} ", format!("@{}", self.number(view))), Look::Faint)
            .and(glyph, look)
            .and(&format!(" {}/{} ", view.task_index + 1, view.task_count), Look::Faint)
            .and(&wording::one_line(&view.goal, 200), Look::Plain);
        let below = Row::of(&format!("{indent}       {}", facts.join(" · ")), Look::Faint);
        let mut rows = head.wrapped(columns, indent.len() + 7);
        rows.extend(below.wrapped(columns, indent.len() + 7));
        rows
    }

    fn depth(&self, child: &ChildView) -> usize {
        let mut depth = 0;
        let mut at = child;
        // A tree of ours is not deeper than this; a circle cannot be, and would end here.
        while let Some(parent) = at.parent.as_ref().and_then(|parent| self.child(parent))
            && depth < 8
        {
            depth += 1;
            at = parent;
        }
        depth
    }
}

/// Each directly behind the one that sent it out, else in the order in which they came.
fn in_tree_order(children: Vec<ChildView>) -> Vec<ChildView> {
    let known: HashMap<&ChildId, usize> =
        children.iter().enumerate().map(|(place, child)| (&child.child, place)).collect();
    let mut below: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (place, child) in children.iter().enumerate() {
        let parent = child.parent.as_ref().and_then(|parent| known.get(parent).copied());
        below.entry(parent.filter(|parent| *parent != place)).or_default().push(place);
    }
    let mut order = Vec::with_capacity(children.len());
    let mut next: Vec<usize> = below.remove(&None).unwrap_or_default();
    next.reverse();
    while let Some(place) = next.pop() {
        order.push(place);
        next.extend(below.remove(&Some(place)).unwrap_or_default().into_iter().rev());
    }
    let mut children: Vec<Option<ChildView>> = children.into_iter().map(Some).collect();
    order.into_iter().filter_map(|place| children.get_mut(place)?.take()).collect()
}

fn is_quiet(view: &ChildView) -> bool {
    let waits_for_others = view.pulse.phase == Phase::Children || view.pulse.pausing(view.quiet).is_some();
    // Of one that another process runs is known only what that stores now and then.
    let is_here = view.runner == Runner::Here;
    is_here && view.state.has_runner() && !waits_for_others && view.quiet >= QUIET_AFTER
}

fn glyph(view: &ChildView) -> (&'static str, Look) {
    match view.state {
        ChildState::Queued { .. } => ("·", Look::Faint),
        ChildState::Running { .. } if is_quiet(view) => ("○", Look::Warning),
        ChildState::Running { .. } => ("●", Look::Good),
        ChildState::Parked { .. } | ChildState::Waiting { .. } => ("◌", Look::Plain),
        ChildState::Stopping { .. } => ("■", Look::Warning),
        ChildState::Settled(Outcome::Succeeded) => ("✓", Look::Good),
        ChildState::Settled(outcome) => {
            let flaw = Flaw::of(outcome, None);
            let look = if flaw.is_some() { Look::Warning } else { Look::Bad };
            (outcome.status().icon(flaw), look)
        }
    }
}

fn state(view: &ChildView) -> String {
    match view.state {
        ChildState::Queued { .. } => "queued".to_owned(),
        ChildState::Running { .. } => match wording::pause(&view.pulse, view.quiet) {
            Some(awaited) => format!("waits for {awaited}"),
            None => phase(view),
        },
        ChildState::Parked { .. } => "waits for its subagents".to_owned(),
        ChildState::Waiting { .. } => "waits for a slot".to_owned(),
        ChildState::Stopping { .. } => "stopping".to_owned(),
        ChildState::Settled(outcome) => outcome.status().as_str().to_owned(),
    }
}

fn phase(view: &ChildView) -> String {
    match (&view.state, &view.pulse.phase) {
        (ChildState::Stopping { .. }, _) => "stopping".to_owned(),
        (ChildState::Waiting { .. }, _) => "waiting".to_owned(),
        (ChildState::Parked { .. }, _) | (_, Phase::Children) => "subagents".to_owned(),
        (_, Phase::Starting) => "starting".to_owned(),
        (_, Phase::Model) => match view.pulse.pausing(view.quiet) {
            Some((reason, _)) => wording::failing(reason).to_owned(),
            None => "model".to_owned(),
        },
        (_, Phase::Tool(name)) => wording::one_line_of_columns(name, TOOL_COLUMNS),
    }
}

/// Which process runs it, if that is not this one.
fn place(view: &ChildView) -> Option<String> {
    match view.runner {
        Runner::Here => None,
        Runner::Elsewhere { pid } => Some(format!("in process {pid}")),
        Runner::Nobody => Some("without a process".to_owned()),
    }
}

/// A duration that is shown anew every second.
pub(super) fn whole_seconds(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..10 => format!("{seconds}s"),
        seconds => wording::duration(Duration::from_secs(seconds)),
    }
}

/// Phase, time, tokens: as much of it as a terminal of so many columns has room for.
fn facts(view: &ChildView, columns: usize) -> String {
    let elapsed = whole_seconds(view.elapsed);
    let usage = view.pulse.usage;
    let tokens = match usage.input + usage.output {
        0 => String::new(),
        tokens => format!("{} tok", wording::count(tokens)),
    };
    let quiet = is_quiet(view).then(|| format!("quiet {}", wording::duration(view.quiet)));
    let doing = match quiet {
        Some(quiet) if columns >= WIDE => format!("{}, {quiet}", phase(view)),
        Some(quiet) => quiet,
        None => place(view).unwrap_or_else(|| phase(view)),
    };
    if columns >= WIDE { format!("{doing}  {elapsed:>6}  {tokens:>9}") } else { format!("{doing} {elapsed}") }
}
