//! The handle of a call whose results come later, as every front door gives it back (OUT-3…6). It holds nothing that could be
//! taken for a result (invariant 20).

use super::UnitResult;
use crate::batch::Ticket;
use crate::ids::{ChildId, DelegationId};
use serde::Serialize;

/// A call that was accepted and goes on in the background.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackgroundHandle {
    status: &'static str,
    mode: &'static str,
    count: usize,
    delegation_id: DelegationId,
    goals: Vec<String>,
    note: String,
    subagent_ids: Vec<ChildId>,
    control_hint: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    units: Vec<UnitResult>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    live_transcripts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    live_transcripts_hint: Option<&'static str>,
}

/// What a front door says in its own words.
#[derive(Debug, Clone)]
pub struct HandleWords {
    /// The goals, each as far as it is repeated.
    pub goals: Vec<String>,
    /// What to do until the results come.
    pub note: String,
    /// How to look after the work.
    pub control_hint: &'static str,
    /// What the transcripts are.
    pub transcripts_hint: &'static str,
}

impl BackgroundHandle {
    /// The handle of a ticket.
    pub fn of(ticket: &Ticket, words: HandleWords) -> BackgroundHandle {
        let live_transcripts: Vec<String> =
            ticket.transcripts.iter().filter(|path| !path.is_empty()).cloned().collect();
        BackgroundHandle {
            status: "dispatched",
            mode: "background",
            count: ticket.children.len(),
            delegation_id: ticket.delegation.clone(),
            goals: words.goals,
            note: words.note,
            subagent_ids: ticket.children.clone(),
            control_hint: words.control_hint,
            units: UnitResult::of_several(ticket.units.iter()),
            live_transcripts_hint: (!live_transcripts.is_empty()).then_some(words.transcripts_hint),
            live_transcripts,
        }
    }
}
