//! The report of a run that cannot go on, from what its journal holds: an answer that is stored is the answer, whatever
//! is lacking by now, and what else was done is not lost either.
//!
//! It asks nobody and stores nothing.

use super::correction::Earlier;
use super::tally::Tally;
use super::way::exhausted;
use super::{TurnLimits, steers};
use crate::contract::Contract;
use crate::journal::Recorded;
use legwork_core::batch::Setting;
use legwork_core::message::ToolResult;
use legwork_core::outcome::{Ending, FailureKind, Limit};
use legwork_core::report::{Conformance, Report, TraceItem};

/// Said of a call that was under way.
const CUT_OFF: &str = "it was cut off";

/// What holds for a run that cannot go on.
pub(crate) struct Terms<'a> {
    /// Why it cannot.
    pub(crate) problem: &'a str,
    /// What its answer must meet, or why that is not known.
    pub(crate) contract: Result<Option<Contract>, String>,
    pub(crate) setting: &'a Setting,
    pub(crate) limits: TurnLimits,
}

/// The report: with the answer, if there is one, also one that was being corrected; as cut short, if a limit had ended the run;
/// else as failed for what is lacking, with what had been done.
pub(crate) async fn concluded(recorded: &Recorded, terms: Terms<'_>) -> Report {
    let mut tally = Tally::of(terms.setting.route.model.clone(), terms.limits.same_failure_max);
    tally.resume(recorded);
    cut_off(&mut tally, recorded);
    let corrected = recorded.corrected.as_ref().map(Earlier::of);
    let limit = terms.setting.allowance.exhausted_by(recorded.model_calls).filter(|_| had_ended(recorded));
    let mut unanswered = None;
    let ((ending, error), remark) = match (&recorded.answer, &corrected, limit) {
        (Some(_), None, _) => (tally.with_answer(), None),
        (Some(_), Some(_), _) if !tally.is_blank => (tally.with_answer(), None),
        (Some(_) | None, Some(earlier), _) => {
            tally.take_back(earlier);
            let remark =
                format!("it was asked once to correct its answer, and cannot go on: {}", terms.problem);
            (tally.with_answer(), Some(remark))
        }
        (None, None, Some(limit)) => ((Ending::CutShort(limit), Some(exhausted(limit, terms.setting))), None),
        (None, None, None) => match recorded.answered.as_ref().map(Earlier::of) {
            Some(earlier) => {
                tally.take_back(&earlier);
                unanswered = Some(steers::remark(&format!("cannot go on: {}", terms.problem)));
                (tally.with_answer(), None)
            }
            None => ((Ending::Failed(FailureKind::Setup), Some(terms.problem.to_owned())), None),
        },
    };
    let answer = match ending {
        Ending::Answered | Ending::CutShort(Limit::Output) => steers::marked(tally.answer(), unanswered),
        Ending::CutShort(Limit::Steps | Limit::Spend) | Ending::Failed(_) | Ending::Interrupted => {
            tally.last_text()
        }
    };
    let conformance = match (ending, tally.last_text()) {
        (Ending::Answered | Ending::CutShort(_), Some(text)) => {
            let said = Said { text, retries: u32::from(corrected.is_some()), remark };
            conformance(said, terms).await
        }
        (Ending::Answered | Ending::CutShort(_) | Ending::Failed(_) | Ending::Interrupted, _) => None,
    };
    Report { answer, error, conformance, ..tally.into_report(ending) }
}

/// Whether nothing was under way any more.
fn had_ended(recorded: &Recorded) -> bool {
    recorded.unfinished.is_empty() && recorded.exchange.is_none()
}

/// Counts the calls that were under way, and whose results nobody knows.
fn cut_off(tally: &mut Tally, recorded: &Recorded) {
    for step in &recorded.unfinished {
        let Some((call, repeat)) = step.action.call() else { continue };
        let result = ToolResult { call_id: call.id.clone(), content: CUT_OFF.to_owned(), is_error: true };
        tally.cut_off(TraceItem::of(call, &result), repeat);
    }
}

/// An answer, and what became of its correction.
struct Said {
    text: String,
    retries: u32,
    remark: Option<String>,
}

/// How the answer stands to its schema, if there is one.
async fn conformance(said: Said, terms: Terms<'_>) -> Option<Conformance> {
    let Said { text, retries, remark } = said;
    let checked = match terms.contract {
        Ok(contract) => contract?.checked(&text, terms.limits.schema_check_max).await,
        Err(problem) => Err(problem),
    };
    let errors = match checked {
        Ok(errors) => errors,
        Err(unknown) => return Some(Conformance { errors: vec![unknown], retries, remark }),
    };
    let not_asked = || {
        (retries == 0).then(|| format!("it was not asked to correct its answer, because {}", terms.problem))
    };
    let remark = remark.or_else(not_asked).filter(|_| !errors.is_empty());
    Some(Conformance { errors, retries, remark })
}
