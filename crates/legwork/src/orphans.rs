//! The work of processes that died, as the verbs go about it: they go on with what they open or name, conclude what is to
//! be reported or stopped, and say so in a line on stderr. Verbs that look do none of this; they say what would.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use legwork_agent::worker::ModelSource;
use legwork_core::batch::Route;
use legwork_core::ids::{ChildId, DelegationId, SessionId};
use legwork_core::outcome::StopReason;
use legwork_core::ports::{Facts, Filter, Store, StoreError, TROUBLE_MAX};
use legwork_core::record::DelegationRecord;
use legwork_engine::Gaps;
use legwork_engine::recovery::{self, Conclusion, Orphans, Recovered, RecoveryError, settle};
use tokio::time::Instant;

use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::outliving::has_worker;
use crate::owner::{Owner, is_dead};
use crate::stderr::{self, Voice};
use crate::wire::{self, Workplace};

/// What goes on with orphaned work, for the lines that name it.
pub const HOW_TO_GO_ON: &str =
    "`legwork results ID --wait` or `legwork worker` goes on with them, and so does opening their session";

/// Between two looks for work of an open session that has lost its process.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// While no other process has any work, only one look in so many reads the session's.
const ALONE_EVERY: u32 = 8;

/// Subagents that a line names at most.
const NAMED_MAX: usize = 4;

/// Between tries of a look at which the store failed.
const FIRST_GAP: Duration = Duration::from_millis(500);
const LONGEST_GAP: Duration = Duration::from_secs(15);

/// Goes on with what dead processes left of `orphans`, also to a worker that has not begun.
///
/// # Errors
/// When the store fails.
pub async fn take_up(
    invocation: &Invocation,
    workplace: &Workplace,
    orphans: &Orphans,
) -> Result<Recovered, CliError> {
    if !invocation.voice().is_aloud() {
        return Ok(workplace.handle.recover(orphans).await?);
    }
    let handed_over = handed_over(invocation, workplace, orphans).await?;
    let recovered = workplace.handle.recover(orphans).await?;
    tell(&recovered, Origin::of(&recovered.taken, &handed_over));
    tell_of_lacking(workplace, &recovered.lacking).await;
    Ok(recovered)
}

/// What of `orphans` is left to a worker that has not begun.
async fn handed_over(
    invocation: &Invocation,
    workplace: &Workplace,
    orphans: &Orphans,
) -> Result<HashSet<DelegationId>, StoreError> {
    let store = &workplace.store;
    let records = match orphans {
        Orphans::All => store.delegations(Filter::Open).await?.rows,
        Orphans::OfSession(session) => store.delegations(Filter::OpenOf(session.clone())).await?.rows,
        Orphans::Of(id) => store.delegation(id).await?.into_iter().collect(),
    };
    let those = records.into_iter().filter(|record| has_worker(invocation, record));
    Ok(those.map(|record| record.accepted.delegation).collect())
}

/// Who left the work that is taken over.
#[derive(Clone, Copy)]
pub enum Origin {
    /// A process that died.
    Died,
    /// One that has ended, in whatever way.
    Ended,
    /// One that started the worker in which this is for it.
    LeftHere,
    /// One that started another worker for it.
    LeftToAWorker,
    /// Both of those.
    Both,
}

impl Origin {
    fn of(taken: &[DelegationId], handed_over: &HashSet<DelegationId>) -> Origin {
        match taken.iter().filter(|id| handed_over.contains(id)).count() {
            0 => Origin::Died,
            all if all == taken.len() => Origin::LeftToAWorker,
            _some => Origin::Both,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Origin::Died => "of a process that died",
            Origin::Ended => "of a process that has ended",
            Origin::LeftHere => "left to this worker",
            Origin::LeftToAWorker => "left to a worker that has not begun",
            Origin::Both => "of a process that died, or left to a worker that has not begun",
        }
    }
}

/// Looks, as long as it is polled, for work of a session which this process has open that has lost its process, and
/// goes on with it here: no process tells anybody that it dies (K02). Work is left to whoever may be on the way to it
/// for one look, and to a worker that was started for it for as long as that lives. What was told of the work `before`,
/// when the session was opened, is not told again. A store that fails is looked at less often.
pub async fn keep_watch(
    invocation: &Invocation,
    workplace: &Workplace,
    session: &SessionId,
    before: Recovered,
) -> Infallible {
    let gone = Gone::default();
    let mut watch = Watch { invocation, workplace, session, before, gone, looks: 0 };
    let mut trouble = Trouble::new(invocation.voice());
    let mut pause = LOOK_EVERY;
    loop {
        // Deadline: a process that dies tells nobody, so the store is looked at again.
        tokio::time::sleep(pause).await;
        pause = match watch.look().await {
            Ok(()) => {
                trouble.is_over();
                LOOK_EVERY
            }
            Err(RecoveryError::Store(error)) => trouble.met(&error),
            // Its engine has ended, and the process is about to.
            Err(RecoveryError::Closed) => return std::future::pending().await,
        };
    }
}

/// What a watch has seen.
struct Watch<'a> {
    invocation: &'a Invocation,
    workplace: &'a Workplace,
    session: &'a SessionId,
    /// What the last look did.
    before: Recovered,
    gone: Gone,
    looks: u32,
}

/// What had lost its process at the last look.
#[derive(Default)]
struct Gone(HashSet<DelegationId>);

impl Gone {
    /// Takes in what a look has found. Whether something of it was not there at the one before: somebody may be on the way to it.
    fn is_new(&mut self, found: HashSet<DelegationId>) -> bool {
        let is_new = !found.is_subset(&self.0);
        self.0 = found;
        is_new
    }
}

impl Watch<'_> {
    async fn look(&mut self) -> Result<(), RecoveryError> {
        let (store, myself) = (&self.workplace.store, &self.workplace.owner);
        self.looks = self.looks.wrapping_add(1);
        let is_alone = store.owners_of_open().await?.iter().all(|owner| owner.id == myself.record.id);
        // What this process gave up itself is found too, only not at once.
        if is_alone && !self.looks.is_multiple_of(ALONE_EVERY) {
            return Ok(());
        }
        let open = store.delegations(Filter::OpenOf(self.session.clone())).await?;
        let gone =
            open.rows.iter().filter(|record| record.owner.id != myself.record.id && is_orphaned(record));
        let is_new = self.gone.is_new(gone.map(|record| record.accepted.delegation.clone()).collect());
        let is_left_to_a_worker = || open.rows.iter().any(|record| has_worker(self.invocation, record));
        if open.rows.is_empty() || is_new || is_left_to_a_worker() {
            return Ok(());
        }
        let recovered = self.workplace.handle.recover(&Orphans::OfSession(self.session.clone())).await?;
        if self.invocation.voice().is_aloud() && recovered != self.before {
            tell_anew(self.workplace, Origin::Died, &recovered, &self.before).await;
        }
        self.before = recovered;
        Ok(())
    }
}

/// What a store does to looks that come again by themselves: told once, and looked at less often while it lasts.
pub struct Trouble {
    gaps: Gaps,
    voice: Voice,
    words: Words,
    /// Since when the file is not in its place.
    gone_since: Option<Instant>,
}

/// What cannot be done while it lasts, and is done again when it is over.
#[derive(Clone, Copy)]
struct Words {
    during: &'static str,
    after: &'static str,
}

impl Trouble {
    /// None so far, for looks for what has lost its process.
    pub fn new(voice: Voice) -> Trouble {
        Trouble::with(
            voice,
            Words {
                during: "what has lost its process cannot be looked for now",
                after: "what has lost its process is looked for again",
            },
        )
    }

    /// The same for looks at what is waited for.
    pub fn of_a_wait(voice: Voice) -> Trouble {
        let words = Words {
            during: "what is waited for cannot be read now",
            after: "what is waited for can be read again",
        };
        Trouble::with(voice, words)
    }

    fn with(voice: Voice, words: Words) -> Trouble {
        Trouble { gaps: Gaps::new(FIRST_GAP, LONGEST_GAP), voice, words, gone_since: None }
    }

    /// Whether a worker looks again after its store has failed like that. A file that is gone is put back within [`TROUBLE_MAX`],
    /// for which what runs is kept, or never.
    pub fn is_worth_another_look(&mut self, error: &StoreError) -> bool {
        match error {
            StoreError::Gone(_) => self.gone_since.get_or_insert_with(Instant::now).elapsed() < TROUBLE_MAX,
            // It has changed since it was read; the next look reads it anew.
            StoreError::Conflict(_) => true,
            StoreError::Locked(_)
            | StoreError::Full(_)
            | StoreError::ReadOnly(_)
            | StoreError::Io(_)
            | StoreError::Corrupt(_)
            | StoreError::Newer { .. }
            | StoreError::Fenced(_)
            | StoreError::Closed => error.may_pass(),
        }
    }

    /// The store failed: how long to leave it alone.
    pub fn met(&mut self, error: &StoreError) -> Duration {
        if self.gaps.is_closed() {
            self.voice.tell(&format!("note: {}; it is tried again: {error}", self.words.during));
        }
        self.gaps.widen()
    }

    /// The store works.
    pub fn is_over(&mut self) {
        self.gone_since = None;
        if self.gaps.close() {
            self.voice.tell(&format!("note: {}", self.words.after));
        }
    }
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
    let voice = invocation.voice();
    let recovered = settle(owner.rescuer(store), orphans, conclusion).await?;
    wire::tell_hooks_of(invocation, owner, &recovered.ended).await;
    match conclusion {
        Conclusion::Reported | Conclusion::Stopped(_) if voice == Voice::Quiet => {}
        Conclusion::Reported => tell(&recovered, Origin::Died),
        Conclusion::Stopped(_) => tell_trouble(&recovered),
    }
    Ok(recovered)
}

/// Settles children of work that nobody does any more as stopped, with everything below them. Only trouble is told.
///
/// # Errors
/// When the store fails.
pub async fn stop_children(
    invocation: &Invocation,
    (store, owner): (&dyn Store, &Owner),
    delegation: &DelegationId,
    children: &[ChildId],
) -> Result<Recovered, CliError> {
    let recovered =
        recovery::stop_children(owner.rescuer(store), delegation, children, StopReason::Cancelled).await?;
    wire::tell_hooks_of(invocation, owner, &recovered.ended).await;
    if invocation.voice().is_aloud() {
        tell_trouble(&recovered);
    }
    Ok(recovered)
}

/// The failure of a verb that cannot do without work which this process cannot go on with.
pub async fn cannot_go_on(workplace: &Workplace, recovered: &Recovered) -> Option<CliError> {
    let (delegation, lacks) = recovered.lacking.first()?;
    let message =
        format!("the process that ran {delegation} has gone, and this one cannot go on with it: {lacks}");
    let how = match Waiting::of(workplace, delegation).await.way_on {
        Some(line) => format!("{line} goes on with it, where that model and its key are to be had"),
        None => "configure what it needs and run the command again".to_owned(),
    };
    Some(CliError::new(Kind::NoModel, message).with_hint(format!(
        "nothing of it is lost; {how}. `legwork results {delegation}` prints what has ended"
    )))
}

/// What a delegation of which this process cannot go on with all waits for.
#[derive(Default)]
struct Waiting {
    /// The subagents whose model is not to be had here.
    children: Vec<ChildId>,
    /// The command that goes on with them. `None` where it is not the choice of the model that is lacking but its key
    /// or its address, or a table of the configuration decides about it.
    way_on: Option<String>,
}

impl Waiting {
    async fn of(workplace: &Workplace, id: &DelegationId) -> Waiting {
        let record = match workplace.store.delegation(id).await {
            Ok(Some(record)) => record,
            Ok(None) => return Waiting::default(),
            Err(error) => {
                tracing::debug!(%id, %error, "which model is lacking cannot be read");
                return Waiting::default();
            }
        };
        let models = &workplace.models;
        let open = record.children.iter().enumerate().filter(|(_, child)| child.outcome().is_none());
        let asking = open.map(|(index, child)| (child.id.clone(), record.accepted.setting_of(index).route));
        let (children, routes): (Vec<ChildId>, Vec<Route>) =
            asking.filter(|(_, route)| models.model(route).is_err()).unzip();
        let first = routes.first().filter(|route| route.table.is_none() && models.leads_to(route));
        Waiting { way_on: first.map(|route| with_model(id, &route.model)), children }
    }

    /// Who waits, for a line that names the delegation.
    fn who(&self, id: &DelegationId) -> String {
        let more = self.children.len().saturating_sub(NAMED_MAX);
        let named: Vec<&str> = self.children.iter().take(NAMED_MAX).map(ChildId::as_str).collect();
        match (named.is_empty(), more) {
            (true, _) => id.to_string(),
            (false, 0) => format!("{} of {id}", named.join(", ")),
            (false, more) => format!("{} and {more} more of {id}", named.join(", ")),
        }
    }
}

/// The command that goes on with a delegation with this model.
pub fn with_model(id: &DelegationId, model: &str) -> String {
    format!("`legwork results {id} --wait --model {model}`")
}

/// Says what recovery did and what it could not do, one line each. What cannot be read, and what waits for something
/// that is lacking here, was named `before` where it is the same.
pub async fn tell_anew(workplace: &Workplace, origin: Origin, recovered: &Recovered, before: &Recovered) {
    let mut new = recovered.clone();
    new.unreadable.retain(|id| !before.unreadable.contains(id));
    new.lacking.retain(|lacking| !before.lacking.contains(lacking));
    tell(&new, origin);
    tell_of_lacking(workplace, &new.lacking).await;
}

/// Says what recovery did, one line each.
fn tell(recovered: &Recovered, origin: Origin) {
    let Recovered { taken, resumed, lost, stopping, condemned, unstarted, .. } = recovered;
    if !taken.is_empty() {
        let mut parts = Vec::new();
        let counts = [
            (*resumed, "go(es) on from the last finished step"),
            (*lost, "lost"),
            (*stopping, "stopped as asked before"),
            (*condemned, "given up, because their process died at the same step again and again"),
            (*unstarted, "never started"),
        ];
        parts.extend(
            counts
                .into_iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} subagent(s) {what}")),
        );
        stderr::tell(&format!(
            "note: {} delegation(s) {}: {}",
            taken.len(),
            origin.words(),
            parts.join(", ")
        ));
    }
    tell_trouble(recovered);
}

/// Says what this process cannot go on with, and what can, one line each.
async fn tell_of_lacking(workplace: &Workplace, lacking: &[(DelegationId, String)]) {
    for (delegation, lacks) in lacking {
        let waiting = Waiting::of(workplace, delegation).await;
        let who = waiting.who(delegation);
        let how = waiting.way_on.map(|line| format!("; {line} goes on with it")).unwrap_or_default();
        stderr::tell(&format!("note: {who} waits for somebody who can go on with it: {lacks}{how}"));
    }
}

/// Says what else recovery could not do, one line each.
fn tell_trouble(recovered: &Recovered) {
    let Recovered { refused, unclear, unreadable, .. } = recovered;
    tell_unreadable(unreadable);
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

/// What to do about delegations that cannot be read, for the lines that name them.
const HOW_TO_MEND: &str =
    "everything else goes on. Keep a copy of the state folder; `legwork doctor` says more, and what to do";

/// Names delegations that cannot be read.
pub fn tell_unreadable(ids: &[DelegationId]) {
    ids.iter().for_each(|id| stderr::tell(&format!("warning: {}", unreadable(id))));
}

/// What is said of a delegation that cannot be read.
pub fn unreadable(id: &DelegationId) -> String {
    format!("what is stored of {id} cannot be read, so that nobody can go on with it; {HOW_TO_MEND}")
}

/// The failure of a verb that is about work of which some cannot be read.
pub fn is_unreadable(ids: &[DelegationId]) -> Option<CliError> {
    let ids: Vec<&str> = ids.iter().map(DelegationId::as_str).collect();
    let first = ids.first()?;
    let message = match ids.len() {
        1 => format!("what is stored of {first} cannot be read"),
        several => format!("what is stored of {first} and {} more cannot be read", several - 1),
    };
    Some(CliError::new(Kind::State, message).with_hint(HOW_TO_MEND))
}

/// The note for whoever looks at work that nobody does any more.
pub fn left(id: &DelegationId) -> String {
    format!("note: the process that ran {id} has died; `legwork results {id} --wait` goes on with it")
}

/// Whether the delegation has work that nobody does any more.
pub fn is_orphaned(record: &DelegationRecord) -> bool {
    !record.is_settled() && is_dead(&record.owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k02_what_has_lost_its_process_is_left_for_one_look_to_whoever_is_on_the_way() {
        let found = |ids: &[u32]| ids.iter().copied().map(DelegationId::from_bits).collect();
        let mut gone = Gone::default();
        assert!(!gone.is_new(found(&[])), "there is nothing");
        assert!(gone.is_new(found(&[1])), "it has just lost its process");
        assert!(!gone.is_new(found(&[1])), "nobody came for it");
        assert!(gone.is_new(found(&[1, 2])), "now another one");
        assert!(!gone.is_new(found(&[2])), "somebody came for the first");
        assert!(gone.is_new(found(&[1])), "whoever came for it has died in its turn");
    }

    #[tokio::test(start_paused = true)]
    async fn k35_trouble_of_the_store_is_told_once_each_time_and_looked_at_more_and_more_seldom() {
        let (mut lines, _diverted) = stderr::divert();
        let locked = StoreError::Locked("another process writes".to_owned());
        let (mut trouble, mut quiet) = (Trouble::new(Voice::Aloud), Trouble::new(Voice::Quiet));
        for _ in 0..2 {
            let pauses: Vec<u128> = (0..7).map(|_| trouble.met(&locked).as_millis()).collect();
            assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 15000, 15000]);
            trouble.is_over();
            trouble.is_over();
            quiet.met(&locked);
            quiet.is_over();
        }
        let all = std::iter::from_fn(|| lines.try_recv().ok());
        let told: Vec<bool> = all
            .filter(|line| line.contains("what has lost its process"))
            .map(|line| line.contains("cannot be looked for now"))
            .collect();
        assert_eq!(told, [true, false, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn k35_a_worker_waits_for_a_file_that_is_gone_as_long_as_for_what_it_runs() {
        let gone = StoreError::Gone("it was moved".to_owned());
        let mut trouble = Trouble::new(Voice::Quiet);
        let almost = TROUBLE_MAX - Duration::from_secs(1);
        for _ in 0..2 {
            assert!(trouble.is_worth_another_look(&gone));
            tokio::time::advance(almost).await;
            assert!(trouble.is_worth_another_look(&gone));
            // It was back for a moment.
            trouble.is_over();
        }
        assert!(trouble.is_worth_another_look(&gone));
        tokio::time::advance(TROUBLE_MAX).await;
        assert!(!trouble.is_worth_another_look(&gone));
    }

    #[test]
    fn k35_a_worker_waits_for_the_end_of_what_passes_and_for_no_end_of_damage() {
        let text = || "why".to_owned();
        let mut trouble = Trouble::new(Voice::Quiet);
        for error in [StoreError::Locked(text()), StoreError::Full(text()), StoreError::Conflict(text())] {
            assert!(trouble.is_worth_another_look(&error), "{error}");
        }
        let damaged = StoreError::Corrupt(text());
        assert!(!trouble.is_worth_another_look(&damaged), "nobody mends it meanwhile");
    }
}
