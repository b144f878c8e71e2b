//! Whom a command means, also somebody whom another process has begun since the subagents were looked at last.

use legwork_core::ids::ChildId;

use super::typing::Intent;
use super::view::View;

/// Somebody who is not in the list of subagents, and what is wanted of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sought {
    /// As it was typed.
    agent: String,
    wanted: Wanted,
    /// The whole line.
    typed: String,
}

/// What is wanted of a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The end of its transcript.
    Transcript,
    /// That it reads this.
    Steer(String),
    /// Its end.
    Stop,
}

impl Wanted {
    fn of(self, child: ChildId) -> Intent {
        match self {
            Wanted::Transcript => Intent::Transcript(child),
            Wanted::Steer(text) => Intent::Steer { child, text },
            Wanted::Stop => Intent::Stop(child),
        }
    }
}

impl View {
    /// What is asked for of the subagent that a person means, or a look for it where it is not known.
    pub(super) fn aimed(&mut self, agent: String, wanted: Wanted, typed: &str) -> Intent {
        match self.roster.find(&agent).map(|view| view.child.clone()) {
            Ok(child) => {
                self.answer_to(typed, Vec::new());
                wanted.of(child)
            }
            Err(_) => Intent::Seek(Sought { agent, wanted, typed: typed.to_owned() }),
        }
    }

    /// The list of subagents is as new as can be: whoever was not in it before is there now, or nobody is meant.
    pub fn sought(&mut self, sought: Sought) -> Option<Intent> {
        let Sought { agent, wanted, typed } = sought;
        match self.roster.find(&agent).map(|view| view.child.clone()) {
            Ok(child) => {
                self.answer_to(&typed, Vec::new());
                Some(wanted.of(child))
            }
            Err(why) => {
                self.not_said(&typed, &why);
                None
            }
        }
    }
}
