//! What one agent has running in the background, what it has given away, and what it has to hear.
//!
//! It starts and ends nothing.

use super::background::{Known, RUNNING_MAX};
use super::entry::Entry;
use super::notices::Notices;
use super::wording;
use crate::process::End;
use legwork_core::aftermath::{HAND_OVERS_MAX, HandedOff};
use legwork_core::handover;
use legwork_core::record::ProcessGroup;
use legwork_core::step::Actor;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Those that have ended and are still known; the oldest goes first.
const ENDED_MAX: usize = 16;

/// The agents of a program, as far as their background processes go.
#[derive(Default)]
pub(super) struct Agents {
    /// Nothing starts any more.
    pub(super) closed: bool,
    /// Whether whoever asked for a subagent hears of the ends of its processes.
    pub(super) surfaces: bool,
    pub(super) by_actor: BTreeMap<Actor, Owned>,
    /// Agents of sessions that are open here.
    pub(super) present: BTreeSet<Actor>,
    /// Subagents that run, with whom they work for.
    pub(super) known: BTreeMap<Actor, Known>,
    pub(super) notices: Notices,
}

/// What one agent has.
#[derive(Default)]
pub(super) struct Owned {
    pub(super) started: u32,
    pub(super) held: Vec<Held>,
    /// What it has given to whom it works for.
    pub(super) handed: Vec<Handed>,
}

/// A process and the task that runs it.
pub(super) struct Held {
    pub(super) entry: Arc<Entry>,
    /// Dropping it kills the process.
    _task: JoinSet<()>,
    /// The subagent that has handed it over.
    from: Option<String>,
}

/// A process that was given away.
pub(super) struct Handed {
    pub(super) told: HandedOff,
    pub(super) group: ProcessGroup,
}

impl Held {
    pub(super) fn new(entry: Arc<Entry>, task: JoinSet<()>) -> Self {
        Held { entry, _task: task, from: None }
    }
}

impl Owned {
    /// Forgets the oldest processes of too many that have ended.
    pub(super) fn forget(&mut self) {
        let ended = self.held.iter().filter(|held| held.entry.ended().is_some()).count();
        let mut surplus = ended.saturating_sub(ENDED_MAX);
        self.held.retain(|held| {
            let goes = surplus > 0 && held.entry.ended().is_some();
            surplus -= usize::from(goes);
            !goes
        });
    }
}

impl Agents {
    pub(super) fn check_room(&self, actor: &Actor) -> Result<(), String> {
        if self.closed {
            return Err("the program is ending; nothing was run".to_owned());
        }
        let running = self.running(actor);
        if running.len() < RUNNING_MAX {
            return Ok(());
        }
        Err(format!(
            "nothing was run: an agent may have {RUNNING_MAX} background processes running, and these do: {}; \
             end one with the tool `process` and the action `kill`, or wait for one",
            running.join(", ")
        ))
    }

    fn running(&self, actor: &Actor) -> Vec<String> {
        let held = self.by_actor.get(actor).map(|owned| owned.held.as_slice()).unwrap_or_default();
        held.iter()
            .map(|held| &held.entry)
            .filter(|entry| entry.ended().is_none())
            .map(|entry| entry.id())
            .collect()
    }

    /// Gives a running process to whom its agent works for.
    pub(super) fn hand_off(&mut self, from: &Actor, id: &str, purpose: String) -> Result<HandedOff, String> {
        let heir = self.known.get(from).map(|known| known.parent.clone());
        let heir =
            heir.ok_or("process: you work for nobody to whom it could be handed over; it ends with you")?;
        if !self.is_here(&heir) {
            return Err(absent(id));
        }
        let given = self.by_actor.get(from).map_or(0, |owned| owned.handed.len());
        if given >= HAND_OVERS_MAX {
            return Err(format!(
                "process: a subagent may hand over {HAND_OVERS_MAX} processes, and you have; kill this one, or let it end with you"
            ));
        }
        if self.running(&heir).len() >= RUNNING_MAX {
            return Err(format!(
                "process: whoever gave you your task has {RUNNING_MAX} processes running already and can take no more"
            ));
        }
        let owned = self.by_actor.get_mut(from).ok_or("process: you have no background processes")?;
        let place = owned.held.iter().position(|held| held.entry.id() == id && held.entry.ended().is_none());
        let place = place.ok_or_else(|| {
            format!("process: {id} has ended, and only a running process can be handed over; say in your answer what it gave")
        })?;
        let mut held = owned.held.remove(place);
        held.from = Some(from.as_str().to_owned());
        let command = held.entry.command.clone();
        let group = held.entry.group.clone();
        let session_id = handover::id_of_heir(id, from.as_str());
        held.entry.rename(session_id.clone());
        let told = HandedOff { session_id, command, purpose, ended: false, left: false };
        owned.handed.push(Handed { told: told.clone(), group });
        self.by_actor.entry(heir).or_default().held.push(held);
        Ok(told)
    }

    /// Whether an agent works in this process: only then what is given to it goes on.
    fn is_here(&self, actor: &Actor) -> bool {
        self.present.contains(actor) || self.known.contains_key(actor)
    }

    /// A process has ended by itself: who has to hear of it does.
    pub(super) fn note_end(&mut self, entry: &Arc<Entry>) {
        let is_by_itself = entry.ended().is_some_and(|ended| ended.end != End::Stopped);
        let found = self.by_actor.iter().find_map(|(actor, owned)| {
            let held = owned.held.iter().find(|held| Arc::ptr_eq(&held.entry, entry))?;
            Some((actor.clone(), held.from.clone()))
        });
        let (Some((actor, from)), true) = (found, is_by_itself) else { return };
        if let Some(child) = from {
            let text = wording::ended_for_heir(entry, &child);
            self.notices.add(actor, (wording::end_title(entry), text), Some(Arc::clone(entry)));
        } else if let Some(known) = self.known.get(&actor).filter(|_| self.surfaces) {
            let text = wording::ended_below(entry, actor.as_str(), known);
            self.notices.add(known.parent.clone(), (wording::end_title(entry), text), None);
        }
    }

    /// Nothing more is known of an agent that has ended.
    pub(super) fn forget(&mut self, actor: &Actor) -> Option<Owned> {
        self.known.remove(actor);
        self.present.remove(actor);
        self.notices.forget(actor);
        self.by_actor.remove(actor)
    }
}

/// Why nobody takes a process over, and what to do instead.
fn absent(id: &str) -> String {
    format!(
        "process: {id} cannot be handed over: whoever gave you your task is not at work in this process of legwork, which ends \
         all that it runs when it ends. {id} is still yours and ends with you. If something has to go on after you, say in your \
         answer which command is to be started, in which folder and what for, so that whoever reads it can start it"
    )
}
