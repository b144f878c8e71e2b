//! Writes `docs/lifecycle.md` from the machines themselves. The page is compared here; `LEGWORK_BLESS=1` rewrites it.

use crate::alphabet::{child_events, child_states, delivery_events, delivery_states};
use crate::{child_table, delivery_table};
use legwork_core::child::{ChildEvent, ChildState};
use legwork_core::outcome::Outcome;
use std::fmt::Write;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lifecycle.md");

const HEAD: &str = "# Lifecycle

The two state machines of legwork, as the code has them. This page is generated: `LEGWORK_BLESS=1 cargo test -p
legwork-core` writes it anew, and a test fails when it is not current. A dash is a move that does not exist; asking for it
is an error and changes nothing.

The states of a unit and of a delegation are not stored. They are read off their children.
";

const CHILD: &str = "
## A child

`crates/legwork-core/src/child.rs`. A child that is parked waits for its own children; one that is waiting wants its slot
back. Of a stop the first cause stays and the force may only rise. `Requeued` and `GivenUp` are the two answers to a dead
owner. Whatever a runner produced before it ended is kept, even when it had been told to stop.
";

const DELIVERY: &str = "
## A delivery

`crates/legwork-core/src/delivery.rs`. One for each unit: its results on their way to the conversation that asked.
`Acked`, `Released` and `Parked` count only when they come with the claim that is current. `ToldAbove` and `GivenUpAbove` are for
results whose caller, a child, had ended before it had read them: they come to their end with its own. Nothing but `Delivered` and
`Dismissed` may ever be pruned.
";

/// One move: from, by, to.
type Move = (&'static str, &'static str, String);

#[test]
fn the_lifecycle_page_is_current() {
    let page = page();
    if std::env::var_os("LEGWORK_BLESS").is_some() {
        std::fs::write(PATH, &page).expect("docs can be written");
    }
    let stored = std::fs::read_to_string(PATH).unwrap_or_default();
    assert_eq!(stored, page, "run `LEGWORK_BLESS=1 cargo test -p legwork-core` to write the page anew");
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str(CHILD);
    let moves = child_moves();
    table(&mut page, &moves, &CHILD_STATES, &names(&child_events(), |event| child_table::event_name(*event)));
    holdings(&mut page);
    diagram(&mut page, &moves, &CHILD_STATES, &outcomes(&moves, &CHILD_STATES));
    page.push_str(DELIVERY);
    let moves = delivery_moves();
    table(&mut page, &moves, &DELIVERY_STATES, &names(&delivery_events(), delivery_table::event_name));
    diagram(&mut page, &moves, &DELIVERY_STATES, &["Delivered".to_owned(), "Dismissed".to_owned()]);
    page
}

/// In reading order; that none is missing is checked where the moves are made.
const CHILD_STATES: [&str; 6] = ["Queued", "Running", "Parked", "Waiting", "Stopping", "Settled"];
const DELIVERY_STATES: [&str; 6] = ["Held", "Ready", "Claimed", "Parked", "Delivered", "Dismissed"];

fn names<E>(events: &[E], name: impl Fn(&E) -> &'static str) -> Vec<&'static str> {
    let mut names = Vec::new();
    for event in events {
        if !names.contains(&name(event)) {
            names.push(name(event));
        }
    }
    names
}

fn child_moves() -> Vec<Move> {
    let mut moves = Vec::new();
    for state in child_states() {
        let from = child_table::state_name(state);
        assert!(CHILD_STATES.contains(&from), "{from} is missing on the page");
        for event in child_events() {
            if let Ok(next) = state.apply(event) {
                add(&mut moves, (from, child_table::event_name(event), child_word(event, next)));
            }
        }
    }
    moves
}

fn child_word(event: ChildEvent, next: ChildState) -> String {
    let word = match next {
        ChildState::Settled(Outcome::Succeeded) => "Succeeded",
        ChildState::Settled(Outcome::Partial(_)) => "Partial",
        ChildState::Settled(Outcome::Failed(_)) => "Failed",
        ChildState::Settled(Outcome::Stopped(_)) => "Stopped",
        ChildState::Settled(Outcome::Lost) => "Lost",
        open => child_table::state_name(open),
    };
    assert!(!matches!(event, ChildEvent::Started) || word == "Running", "a start leads to a run");
    word.to_owned()
}

fn delivery_moves() -> Vec<Move> {
    let mut moves = Vec::new();
    for state in delivery_states() {
        let from = delivery_table::state_name(&state);
        assert!(DELIVERY_STATES.contains(&from), "{from} is missing on the page");
        for event in delivery_events() {
            let by = delivery_table::event_name(&event);
            if let Ok(next) = state.apply(event) {
                add(&mut moves, (from, by, delivery_table::state_name(&next).to_owned()));
            }
        }
    }
    moves
}

/// All states of one name must answer an event alike, or the page would need another line.
fn add(moves: &mut Vec<Move>, new: Move) {
    let known = moves.iter().find(|(from, by, _)| (*from, *by) == (new.0, new.1));
    match known {
        Some((from, by, to)) => assert_eq!(*to, new.2, "{from} takes {by} in two ways"),
        None => moves.push(new),
    }
}

fn table(page: &mut String, moves: &[Move], states: &[&str], events: &[&str]) {
    let head = events.join(" | ");
    let rule = "---|".repeat(events.len() + 1);
    write!(page, "\n| in \\ event | {head} |\n|{rule}\n").expect("text takes text");
    for state in states {
        let cells: Vec<&str> = events.iter().map(|event| target(moves, state, event)).collect();
        writeln!(page, "| {state} | {} |", cells.join(" | ")).expect("text takes text");
    }
}

fn target<'a>(moves: &'a [Move], state: &str, event: &str) -> &'a str {
    let found = moves.iter().find(|(from, by, _)| (*from, *by) == (state, event));
    found.map_or("-", |(_, _, to)| to)
}

fn holdings(page: &mut String) {
    page.push_str("\n| state | has a runner | holds a slot |\n|---|---|---|\n");
    for name in CHILD_STATES {
        let states: Vec<ChildState> =
            child_states().into_iter().filter(|state| child_table::state_name(*state) == name).collect();
        let runner = word(states.iter().map(|state| state.has_runner()));
        let slot = word(states.iter().map(|state| state.holds_slot()));
        writeln!(page, "| {name} | {runner} | {slot} |").expect("text takes text");
    }
}

fn word(mut answers: impl Iterator<Item = bool> + Clone) -> &'static str {
    match (answers.clone().all(|yes| yes), answers.any(|yes| yes)) {
        (true, _) => "yes",
        (false, true) => "if it was running when the stop came",
        (false, false) => "no",
    }
}

/// The targets that are no open state.
fn outcomes(moves: &[Move], states: &[&str]) -> Vec<String> {
    let mut outcomes: Vec<String> = Vec::new();
    for (_, _, to) in moves {
        if !states.contains(&to.as_str()) && !outcomes.contains(to) {
            outcomes.push(to.clone());
        }
    }
    outcomes
}

fn diagram(page: &mut String, moves: &[Move], states: &[&str], ends: &[String]) {
    write!(page, "\n```mermaid\nstateDiagram-v2\n    [*] --> {}\n", states[0]).expect("text takes text");
    for from in states {
        let mut drawn: Vec<&str> = Vec::new();
        for (_, _, to) in moves.iter().filter(|(state, _, _)| state == from) {
            if !drawn.contains(&to.as_str()) {
                drawn.push(to);
                let along = moves.iter().filter(|(state, _, target)| state == from && target == to);
                let events: Vec<&str> = along.map(|(_, by, _)| *by).collect();
                writeln!(page, "    {from} --> {to}: {}", events.join(", ")).expect("text takes text");
            }
        }
    }
    for end in ends {
        writeln!(page, "    {end} --> [*]").expect("text takes text");
    }
    page.push_str("```\n");
}
