//! Accepts work that another process is to do: it is durable when the ticket comes back, and nothing of it begins here. Whoever
//! goes on with the work of processes that are gone finds it as soon as this one has ended.

use crate::book::{NewIds, accepted};
use crate::offering::{Became, Offered, offer};
use crate::wiring::Wiring;
use legwork_core::batch::{Completions, NewBatch, Ticket};
use legwork_core::fact::{Append, Fact};
use legwork_core::ids::{ChildId, DelegationId, Epoch};
use legwork_core::ports::{AppendError, DispatchError, Heading, Refusal};
use std::slice;

/// How often ids are drawn for one call while those that were drawn belong to older work.
pub(crate) const DRAWS_MAX: usize = 8;

/// Records a call without running it. Its limits are those of whoever runs it.
///
/// # Errors
/// [`DispatchError`].
pub(crate) async fn accept(
    wiring: &Wiring,
    batch: NewBatch,
    completions: Completions,
) -> Result<Ticket, DispatchError> {
    for _ in 1..DRAWS_MAX {
        let drawn = try_to_accept(wiring, batch.clone(), completions).await;
        if drawn != Err(DispatchError::Refused(Refusal::IdsInUse)) {
            return drawn;
        }
    }
    try_to_accept(wiring, batch, completions).await
}

async fn try_to_accept(
    wiring: &Wiring,
    batch: NewBatch,
    completions: Completions,
) -> Result<Ticket, DispatchError> {
    let ids = drawn(wiring, &batch).with_transcripts(wiring, &batch);
    let at = wiring.clock.now().wall;
    let accepted = accepted(batch, ids, completions);
    let ticket = accepted.ticket();
    let append = Append {
        delegation: accepted.delegation.clone(),
        expected_seq: 0,
        owner: wiring.owner.id.clone(),
        epoch: Epoch(1),
        at,
        facts: vec![Fact::Accepted(Box::new(accepted))],
    };
    let Offered { fates, error } = offer(wiring.store.as_ref(), slice::from_ref(&append)).await;
    let id_taken = matches!(fates.first(), Some(Became::Refused(AppendError::IdTaken(_))));
    if !matches!(fates.first(), Some(Became::Recorded | Became::Unclear)) && !id_taken {
        wiring.transcripts.discard(&append.delegation);
    }
    let failure = error.map(|error| error.to_string()).unwrap_or_default();
    match fates.into_iter().next() {
        Some(Became::Recorded) => Ok(ticket),
        Some(Became::Refused(AppendError::NoSession(session))) => Err(DispatchError::NoSession(session)),
        Some(Became::Refused(AppendError::IdTaken(_))) => Err(DispatchError::Refused(Refusal::IdsInUse)),
        Some(Became::Refused(error)) => Err(DispatchError::Store(error.to_string())),
        Some(Became::Absent) | None => Err(DispatchError::Store(failure)),
        Some(Became::Unclear) => Err(DispatchError::Unclear { why: failure, delegation: append.delegation }),
    }
}

/// Ids for a new delegation. They may be in use.
pub(crate) fn drawn(wiring: &Wiring, batch: &NewBatch) -> NewIds {
    // 32 of the 64 bits are what an id has room for.
    let bits = || (wiring.bits)() as u32;
    let delegation = DelegationId::from_bits(bits());
    let children = (0..batch.tasks.len()).map(|index| ChildId::from_bits(index, bits())).collect();
    NewIds { delegation, children, transcripts: Vec::new() }
}

impl NewIds {
    /// The same, with transcripts that were just created.
    pub(crate) fn with_transcripts(self, wiring: &Wiring, batch: &NewBatch) -> NewIds {
        let at = wiring.clock.now().wall;
        let heading = |(task_index, child): (usize, &ChildId)| Heading {
            delegation: self.delegation.clone(),
            child: child.clone(),
            task_index,
            goal: batch.tasks[task_index].goal.clone(),
            context: batch.context_of(task_index).map(str::to_owned),
            model: batch.tasks[task_index].route_within(&batch.setting).model.clone(),
            at,
        };
        let headings: Vec<Heading> = self.children.iter().enumerate().map(heading).collect();
        let transcripts = wiring.transcripts.create(&headings).unwrap_or_else(|error| {
            tracing::warn!(delegation = %self.delegation, %error, "the delegation goes on without transcripts");
            Vec::new()
        });
        NewIds { transcripts, ..self }
    }
}
