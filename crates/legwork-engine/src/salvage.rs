//! What can still be said of a run that handed in no report: read from its journal, which holds every finished step.

use legwork_core::aftermath::ChildProcesses;
use legwork_core::handover;
use legwork_core::ids::ChildId;
use legwork_core::message::{Message, ToolResult};
use legwork_core::outcome::Ending;
use legwork_core::ports::Store;
use legwork_core::pulse::Pulse;
use legwork_core::report::{Report, TraceItem};
use legwork_core::step::{Action, Actor, Product, Repeat, Reply, StepRecord, StepState};

/// A report with what the journal knows; with the pulse's counts where there is none, or it cannot be read.
pub(crate) async fn salvage(store: &dyn Store, child: &ChildId, ending: Ending, pulse: &Pulse) -> Report {
    match store.steps(&Actor::Child(child.clone())).await {
        Ok(steps) if steps.is_empty() => from_pulse(pulse, ending),
        Ok(steps) => Report { processes: handed_over(child, &steps), ..from_steps(&steps, ending) },
        Err(error) => {
            tracing::warn!(%child, %error, "the journal of a cut-off run could not be read");
            from_pulse(pulse, ending)
        }
    }
}

/// Whether nothing but its journal is needed to conclude a child: the last thing in it is its answer. One whose journal cannot be
/// read counts as one that goes on.
pub(crate) async fn has_answered(store: &dyn Store, child: &ChildId) -> bool {
    match store.steps(&Actor::Child(child.clone())).await {
        Ok(steps) => ends_with_answer(&steps),
        Err(error) => {
            tracing::warn!(%child, %error, "whether it has answered cannot be read");
            false
        }
    }
}

fn ends_with_answer(steps: &[StepRecord]) -> bool {
    // Which model was asked is noted behind the call that it answered.
    let last = steps.iter().rev().find(|step| !matches!(step.action, Action::Switch { .. }));
    last.is_some_and(|step| match &step.state {
        StepState::Done(Product::Reply(reply)) => reply.message.calls().next().is_none(),
        StepState::Done(
            Product::Opened(_)
            | Product::Compacted(_)
            | Product::Steered(_)
            | Product::Output(_)
            | Product::Switched,
        )
        | StepState::Intended
        | StepState::Failed(_) => false,
    })
}

fn from_pulse(pulse: &Pulse, ending: Ending) -> Report {
    Report { model_calls: pulse.model_calls, usage: pulse.usage, cost: pulse.cost, ..Report::bare(ending) }
}

fn from_steps(steps: &[StepRecord], ending: Ending) -> Report {
    let mut report = Report::bare(ending);
    for step in steps {
        report.model_calls += u32::from(matches!(step.action, Action::Model));
        match &step.state {
            StepState::Done(Product::Reply(reply)) => replied(&mut report, reply),
            StepState::Done(Product::Compacted(summary)) => {
                report.usage += summary.usage;
                report.cost = report.cost.plus(summary.cost);
            }
            StepState::Done(Product::Output(result)) => {
                let call = step.action.call();
                report.tool_trace.extend(call.map(|(call, _)| TraceItem::of(call, result)));
            }
            StepState::Failed(error) => cut_off(&mut report, &step.action, error),
            StepState::Intended => cut_off(&mut report, &step.action, "it was cut off"),
            StepState::Done(Product::Opened(_) | Product::Steered(_) | Product::Switched) => {}
        }
    }
    report
}

/// What the child had given to whoever asked for it. It ended with the process that ran both, at the latest.
fn handed_over(child: &ChildId, steps: &[StepRecord]) -> ChildProcesses {
    let mut handed_off = handover::handed_over(child, steps);
    handed_off.iter_mut().for_each(|process| process.ended = true);
    ChildProcesses { handed_off, ..ChildProcesses::default() }
}

/// A call that was begun and whose result is not known; any other step counts for nothing.
fn cut_off(report: &mut Report, action: &Action, error: &str) {
    let Some((call, repeat)) = action.call() else { return };
    let result = ToolResult { call_id: call.id.clone(), content: error.to_owned(), is_error: true };
    let item = TraceItem::of(call, &result);
    if repeat == Repeat::InDoubt {
        report.in_doubt.push(item.clone());
    }
    report.tool_trace.push(item);
}

fn replied(report: &mut Report, reply: &Reply) {
    report.usage += reply.usage;
    report.cost = report.cost.plus(reply.cost);
    report.model = reply.model.clone().or_else(|| report.model.take());
    report.answer = last_text(&reply.message).or_else(|| report.answer.take());
}

fn last_text(message: &Message) -> Option<String> {
    let text = message.plain_text();
    (!text.trim().is_empty()).then_some(text)
}
