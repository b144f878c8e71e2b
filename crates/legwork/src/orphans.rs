//! The work of processes that died, as the verbs go about it: they go on with what they open or name, conclude what is to
//! be reported or stopped, and say so in a line on stderr. Verbs that look do none of this; they say what would.

use legwork_core::ids::DelegationId;
use legwork_core::ports::Store;
use legwork_core::record::DelegationRecord;
use legwork_engine::recovery::{Conclusion, Orphans, Recovered, settle};

use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::owner::{Owner, is_dead};
use crate::stderr;
use crate::wire::{self, Workplace};

/// What goes on with orphaned work, for the lines that name it.
pub const HOW_TO_GO_ON: &str =
    "`legwork results ID --wait` or `legwork worker` goes on with them, and so does opening their session";

/// Goes on with what dead processes left of `orphans`.
///
/// # Errors
/// When the store fails.
pub async fn take_up(workplace: &Workplace, orphans: &Orphans, quiet: bool) -> Result<Recovered, CliError> {
    let recovered = workplace.handle.recover(orphans).await?;
    if !quiet {
        tell(&recovered);
    }
    Ok(recovered)
}

/// Concludes what dead processes left of `orphans` without running anything. Of what was stopped only trouble is told: the
/// verb that stops has its own words for the rest.
///
/// # Errors
/// When the store fails.
pub async fn conclude(
    invocation: &Invocation,
    (store, owner): (&dyn Store, &Owner),
    orphans: &Orphans,
    conclusion: Conclusion,
) -> Result<Recovered, CliError> {
    let quiet = invocation.common.quiet;
    let recovered = settle(owner.rescuer(store), orphans, conclusion).await?;
    wire::tell_hooks_of(invocation, owner, &recovered.ended).await;
    match conclusion {
        Conclusion::Reported | Conclusion::Stopped(_) if quiet => {}
        Conclusion::Reported => tell(&recovered),
        Conclusion::Stopped(_) => tell_trouble(&recovered),
    }
    Ok(recovered)
}

/// The failure of a verb that cannot do without work which this process cannot go on with.
pub fn cannot_go_on(recovered: &Recovered) -> Option<CliError> {
    let (delegation, lacks) = recovered.lacking.first()?;
    let message =
        format!("the process that ran {delegation} has gone, and this one cannot go on with it: {lacks}");
    Some(
        CliError::new(Kind::NoModel, message)
            .with_hint("nothing of it is lost; configure what it needs and run the command again. `legwork results ID` prints what has ended"),
    )
}

/// Says what recovery did, one line each.
pub fn tell(recovered: &Recovered) {
    let Recovered { taken, resumed, lost, stopping, unstarted, .. } = recovered;
    if !taken.is_empty() {
        let mut parts = Vec::new();
        let counts = [
            (*resumed, "go(es) on from the last finished step"),
            (*lost, "lost"),
            (*stopping, "stopped as asked before"),
            (*unstarted, "never started"),
        ];
        parts.extend(
            counts
                .into_iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} subagent(s) {what}")),
        );
        stderr::tell(&format!(
            "note: {} delegation(s) of a process that died: {}",
            taken.len(),
            parts.join(", ")
        ));
    }
    tell_trouble(recovered);
}

/// Says what recovery could not do, one line each.
fn tell_trouble(recovered: &Recovered) {
    let Recovered { lacking, refused, unclear, .. } = recovered;
    for (delegation, lacks) in lacking {
        stderr::tell(&format!("note: {delegation}, of a process that died, waits: {lacks}"));
    }
    for (delegation, refusal) in refused {
        stderr::tell(&format!(
            "note: {delegation}, of a process that died, could not be settled and was left alone: {refusal}"
        ));
    }
    for unclear in unclear {
        stderr::tell(&format!(
            "note: whether process {} still lives cannot be told; its work was left alone",
            unclear.process.pid
        ));
    }
}

/// The note for whoever looks at work that nobody does any more.
pub fn left(id: &DelegationId) -> String {
    format!("note: the process that ran {id} has died; `legwork results {id} --wait` goes on with it")
}

/// Whether the delegation has work that nobody does any more.
pub fn is_orphaned(record: &DelegationRecord) -> bool {
    !record.is_settled() && is_dead(&record.owner)
}
