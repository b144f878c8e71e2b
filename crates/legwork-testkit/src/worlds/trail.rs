//! Events and effects on one short line each, for whoever reads how a world broke.

use legwork_core::fact::{Append, Fact};
use legwork_engine::book::{Effect, Event};

pub(super) fn event(event: &Event) -> String {
    match event {
        Event::Dispatch { batch, ids, reply } => {
            let (lineage, tasks) = (&batch.lineage, batch.tasks.len());
            let by = lineage.parent.as_ref().map_or(lineage.session.as_str(), |parent| parent.as_str());
            format!("Dispatch {} of {tasks} tasks by {by} ({})", ids.delegation, reply.0)
        }
        Event::Returned(child, report) => format!("Returned {child} {:?}", report.ending),
        Event::Heard(child, pulse) => format!("Heard {child} beat {} {:?}", pulse.beat, pulse.phase),
        Event::Stop { scope, notice, reply } => {
            format!("Stop {scope:?} {:?} {:?} ({reply:?})", notice.reason, notice.force)
        }
        Event::Parked(child) => format!("Parked {child}"),
        Event::Unparked(child) => format!("Unparked {child}"),
        Event::Paused | Event::Resumed | Event::Released | Event::Tick => format!("{event:?}"),
        Event::Withdrawn(delegation) => format!("Withdrawn {delegation}"),
        Event::Adopted(adopted) => format!("Adopted {}", adopted.len()),
    }
}

pub(super) fn effects(effects: &[Effect]) -> String {
    let lines = effects.iter().map(|effect| format!("\n    {}", self::effect(effect)));
    lines.collect()
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Record(append) => record(append),
        Effect::Accept(reply, ticket) => format!("Accept ({}) {}", reply.0, ticket.delegation),
        Effect::Refuse(reply, refusal) => format!("Refuse ({}) {refusal:?}", reply.0),
        Effect::Start(child) => format!("Start {child}"),
        Effect::GrantSlot(child) => format!("GrantSlot {child}"),
        Effect::Settled(child, outcome) => format!("Settled {child} {outcome:?}"),
        Effect::AllSettled(delegation) => format!("AllSettled {delegation}"),
        Effect::Ask(child, notice) => format!("Ask {child} {:?}", notice.reason),
        Effect::Warn(child, _) => format!("Warn {child}"),
        Effect::Abort(child) => format!("Abort {child}"),
        Effect::LetGo(delegations) => format!("LetGo {delegations:?}"),
        Effect::Stopped(reply, children) => {
            let children: Vec<&str> = children.iter().map(|child| child.as_str()).collect();
            format!("Stopped ({}) {}", reply.0, children.join(" "))
        }
    }
}

fn record(append: &Append) -> String {
    let facts = append.facts.iter().map(|fact| match fact {
        Fact::Accepted(accepted) => format!("accepted {} children", accepted.children.len()),
        Fact::Moved { child, event, .. } => format!("{child} {event:?}"),
        Fact::Noticed { child } => format!("{child} failed early"),
        Fact::UnitSettled { unit } => format!("unit {unit} settled"),
    });
    let facts: Vec<String> = facts.collect();
    format!("Record {} from {}: {}", append.delegation, append.expected_seq, facts.join(", "))
}
