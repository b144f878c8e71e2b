//! Whether a change of a journal is stored already, for a write of which it is not known.

use legwork_core::step::{StepChange, StepRecord, StepState};

/// Whether `steps` show the change. Nobody else writes under the same fence, so one that stands there is this one; a step
/// that has ended since began before.
pub(super) fn holds(steps: &[StepRecord], change: &StepChange) -> bool {
    let step = |seq: u32| steps.iter().find(|step| step.seq == seq);
    match change {
        StepChange::Intend { seq, action } => step(*seq).is_some_and(|step| step.action == *action),
        StepChange::Finish { seq, product } => {
            step(*seq).is_some_and(|step| step.state == StepState::Done(product.clone()))
        }
        StepChange::Fail { seq, error } => {
            step(*seq).is_some_and(|step| step.state == StepState::Failed(error.clone()))
        }
    }
}
