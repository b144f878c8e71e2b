//! `legwork stop`: ends work, with everything below it, in whichever process it runs. The request is a row of the store;
//! the verb waits a bounded time for the ends, and ends itself what loses its process meanwhile. Like every verb that works it
//! ends what commands of dead processes left running.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use legwork_core::ids::{ChildId, DelegationId, RequestId, SessionId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Facts, Filter, Listed};
use legwork_core::record::DelegationRecord;
use legwork_core::steering::{Request, Scope, Wish};
use legwork_engine::recovery::{self, Conclusion, Orphans, Recovered};
use legwork_sqlite::SqliteStore;
use serde_json::json;
use tokio::time::Instant;

use crate::args::StopArgs;
use crate::failure::{CliError, Exit, Kind};
use crate::invocation::Invocation;
use crate::lookup::{self, Target};
use crate::owner::{self, Owner};
use crate::{orphans, state, stderr, stdout};

/// How long the verb waits for the ends. A stop itself is bounded by `delegation.stop_grace_ms`.
const WAIT_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// One thing to stop: what the request is aimed at, and the children whose ends are waited for.
struct Aim {
    scope: Scope,
    delegation: DelegationId,
    children: Vec<ChildId>,
    /// The request, once it is stored.
    asked: Option<RequestId>,
}

/// What is meant: what can be read of it, and what cannot.
#[derive(Default)]
struct Meant {
    aims: Vec<Aim>,
    /// A stop of these is stored as well: a process that runs them needs none of their rows to end them.
    unreadable: Vec<DelegationId>,
}

/// What is answered.
#[derive(Default)]
struct Answer {
    stopped: Vec<ChildId>,
    pending: Vec<ChildId>,
    /// Asked to stop; nobody can read whether they have ended.
    unreadable: Vec<DelegationId>,
    /// Requests that are kept for whoever goes on with the work.
    kept: usize,
}

/// Asks for the stop and waits for it.
///
/// # Errors
/// When there is no such thing, or the store cannot be used.
pub async fn run(invocation: &Invocation, args: &StopArgs) -> Result<Exit, CliError> {
    let Some(store) = state::open_to_look(invocation).await? else {
        return match args.id.first() {
            Some(id) => Err(lookup::unknown(id)),
            None => answer(invocation, &Answer::default()),
        };
    };
    drop(store);
    let store = state::open_to_work(invocation)?;
    let owner = Owner::new();
    let Meant { aims, unreadable } = meant(invocation, &store, args).await?;
    let (mut dead, mut alive): (Vec<Aim>, Vec<Aim>) = split_by_owner(&store, &owner, aims).await?;
    for aim in &mut alive {
        ask(&store, &owner, aim).await?;
    }
    for id in &unreadable {
        store.ask(request(&owner, Scope::Delegation(id.clone()))).await?;
    }
    if !invocation.common.quiet {
        tell_of_silent(&store, &alive).await?;
    }
    let until = Instant::now() + WAIT_MAX;
    let (mut told, mut heir) = (Answer { unreadable, ..Answer::default() }, None);
    loop {
        let orphaned = end_orphaned(invocation, &store, &mut heir, dead).await?;
        // Commands of a turn belong to no delegation, and their process may be dead (invariants 13 and 14).
        recovery::sweep(owner.rescuer(store.as_ref())).await?;
        alive.extend(orphaned.elsewhere);
        told.stopped.extend(orphaned.ended);
        told.pending.extend(orphaned.left);
        told.kept += orphaned.kept;
        let waited = wait(&store, heir.as_ref().unwrap_or(&owner), &alive, until).await?;
        if waited.died.is_empty() {
            told.stopped.extend(waited.settled);
            told.pending.extend(waited.open);
            return answer(invocation, &told);
        }
        (dead, alive) = alive.into_iter().partition(|aim| waited.died.contains(&aim.delegation));
    }
}

/// What became of the stops of work whose process has died.
#[derive(Default)]
struct Orphaned {
    /// Children that have ended.
    ended: Vec<ChildId>,
    /// Those that have not.
    left: Vec<ChildId>,
    /// Requests that are kept for whoever goes on with the work.
    kept: usize,
    /// What somebody else has begun to go on with meanwhile; the request is read there.
    elsewhere: Vec<Aim>,
}

/// Ends work whose process has died: what is meant, with everything below it; the rest of its tree stays for whoever goes on with
/// it. The request is stored before: somebody may be about to go on with the work at this moment, and reads it then.
async fn end_orphaned(
    invocation: &Invocation,
    store: &SqliteStore,
    heir: &mut Option<Owner>,
    dead: Vec<Aim>,
) -> Result<Orphaned, CliError> {
    let mut orphaned = Orphaned::default();
    if dead.is_empty() {
        return Ok(orphaned);
    }
    // What was taken over the last time is this process's, and no dead one's.
    let owner = match heir {
        Some(entered) => &*entered,
        None => heir.insert(owner::enter(store).await?),
    };
    let (mut here, mut below) = (Vec::new(), Reached(Vec::new()));
    for mut aim in dead {
        let request = ask(store, owner, &mut aim).await?;
        let recovered = if is_whole(store, &aim).await? {
            let orphans = Orphans::Of(aim.delegation.clone());
            let conclusion = Conclusion::Stopped(StopReason::Cancelled);
            orphans::conclude(invocation, (store, owner), &orphans, conclusion).await?
        } else {
            orphans::stop_children(invocation, (store, owner), &aim.delegation, &aim.children).await?
        };
        let record = store.delegation(&aim.delegation).await?;
        if record.as_ref().is_none_or(|record| have_ended(record, &aim.children)) {
            store.settle_request(&request, &owner.record.id, owner.now()).await?;
            below.note(store, &recovered).await?;
            here.push(aim);
        } else if record.is_some_and(|record| owner.lives_elsewhere(&record.owner)) {
            orphaned.elsewhere.push(aim);
        } else {
            orphaned.kept += 1;
            here.push(aim);
        }
    }
    let mut reached = Reached::aimed(&here);
    below.0.iter().for_each(|(delegation, child)| reached.add(delegation, child));
    (orphaned.ended, orphaned.left) = reached.sorted(store).await?;
    Ok(orphaned)
}

/// Whether a whole tree is meant.
async fn is_whole(store: &SqliteStore, aim: &Aim) -> Result<bool, CliError> {
    let record = store.delegation(&aim.delegation).await?;
    let is_root = record.is_some_and(|record| record.accepted.lineage.parent.is_none());
    Ok(is_root && matches!(aim.scope, Scope::Delegation(_)))
}

fn have_ended(record: &DelegationRecord, children: &[ChildId]) -> bool {
    let mut meant = record.children.iter().filter(|child| children.contains(&child.id));
    meant.all(|child| child.outcome().is_some())
}

/// Says of processes that seem to live and may stand still why the stop waits for them, and for how long.
async fn tell_of_silent(store: &SqliteStore, aims: &[Aim]) -> Result<(), CliError> {
    let mut told = HashSet::new();
    for aim in aims {
        let Some(record) = store.delegation(&aim.delegation).await? else { continue };
        if !told.insert(record.owner.id.clone()) {
            continue;
        }
        if let Some(suspect) = owner::may_stand_still(store, &record.owner).await? {
            suspect.tell_of_stop(WAIT_MAX);
        }
    }
    Ok(())
}

async fn meant(invocation: &Invocation, store: &SqliteStore, args: &StopArgs) -> Result<Meant, CliError> {
    if args.all {
        return Ok(wholes(invocation, store.delegations(Filter::Open).await?));
    }
    if let Some(session) = &args.session {
        return of_session(invocation, store, session).await;
    }
    let mut meant = Meant::default();
    for typed in &args.id {
        match lookup::find(invocation, store, typed).await? {
            Target::Delegation(record) => meant.aims.push(whole(&record)),
            Target::Unit(record, place) => meant.aims.push(of_unit(&record, place)),
            Target::Child(record, task_index) => meant.aims.push(of_child(&record, task_index)),
            Target::Session(id) => {
                let Meant { aims, unreadable } = open_of(invocation, store, &id).await?;
                meant.aims.extend(aims);
                meant.unreadable.extend(unreadable);
            }
        }
    }
    Ok(meant)
}

async fn of_session(invocation: &Invocation, store: &SqliteStore, typed: &str) -> Result<Meant, CliError> {
    match lookup::find(invocation, store, typed).await? {
        Target::Session(id) => open_of(invocation, store, &id).await,
        Target::Delegation(_) | Target::Unit(..) | Target::Child(..) => {
            Err(CliError::new(Kind::NotFound, format!("{typed} is not a session"))
                .with_hint("leave --session out to stop a delegation, unit or child"))
        }
    }
}

async fn open_of(
    invocation: &Invocation,
    store: &SqliteStore,
    session: &SessionId,
) -> Result<Meant, CliError> {
    Ok(wholes(invocation, store.delegations(Filter::OpenOf(session.clone())).await?))
}

/// What cannot be read is named.
fn wholes(invocation: &Invocation, open: Listed<DelegationRecord, DelegationId>) -> Meant {
    if !invocation.common.quiet {
        orphans::tell_unreadable(&open.unreadable);
    }
    Meant { aims: open.rows.iter().map(whole).collect(), unreadable: open.unreadable }
}

fn whole(record: &DelegationRecord) -> Aim {
    aim(record, Scope::Delegation(record.accepted.delegation.clone()), 0..record.children.len())
}

fn of_unit(record: &DelegationRecord, place: usize) -> Aim {
    let unit = &record.accepted.units[place];
    aim(record, Scope::Unit(unit.id.clone()), unit.task_indexes.iter().copied())
}

fn of_child(record: &DelegationRecord, task_index: usize) -> Aim {
    aim(record, Scope::Child(record.children[task_index].id.clone()), [task_index])
}

fn aim(record: &DelegationRecord, scope: Scope, tasks: impl IntoIterator<Item = usize>) -> Aim {
    let open = tasks.into_iter().map(|task| &record.children[task]).filter(|child| child.outcome().is_none());
    Aim {
        scope,
        delegation: record.accepted.delegation.clone(),
        children: open.map(|child| child.id.clone()).collect(),
        asked: None,
    }
}

/// Nobody can carry a stop out in a process that is gone.
async fn split_by_owner(
    store: &SqliteStore,
    owner: &Owner,
    aims: Vec<Aim>,
) -> Result<(Vec<Aim>, Vec<Aim>), CliError> {
    let (mut dead, mut alive) = (Vec::new(), Vec::new());
    for aim in aims.into_iter().filter(|aim| !aim.children.is_empty()) {
        let record = store.delegation(&aim.delegation).await?;
        let lives = record.is_some_and(|record| owner.lives_elsewhere(&record.owner));
        if lives { alive.push(aim) } else { dead.push(aim) }
    }
    Ok((dead, alive))
}

/// Stores the request of a stop, once.
async fn ask(store: &SqliteStore, owner: &Owner, aim: &mut Aim) -> Result<RequestId, CliError> {
    if let Some(asked) = &aim.asked {
        return Ok(asked.clone());
    }
    let request = request(owner, aim.scope.clone());
    let id = request.id.clone();
    store.ask(request).await?;
    aim.asked = Some(id.clone());
    Ok(id)
}

fn request(owner: &Owner, scope: Scope) -> Request {
    Request {
        id: RequestId::from_bits((owner.bits)()),
        at: owner.now(),
        scope,
        wish: Wish::Stop { reason: StopReason::Cancelled, force: Force::Ask },
    }
}

/// The children that a stop reaches, in the order in which they were found.
struct Reached(Vec<(DelegationId, ChildId)>);

impl Reached {
    /// Those that it is aimed at, each once.
    fn aimed(aims: &[Aim]) -> Reached {
        let mut reached = Reached(Vec::new());
        for aim in aims {
            aim.children.iter().for_each(|child| reached.add(&aim.delegation, child));
        }
        reached
    }

    fn add(&mut self, delegation: &DelegationId, child: &ChildId) {
        if !self.holds(child) {
            self.0.push((delegation.clone(), child.clone()));
        }
    }

    fn holds(&self, child: &ChildId) -> bool {
        self.0.iter().any(|(_, known)| known == child)
    }

    /// Adds what was settled without an engine.
    async fn note(&mut self, store: &SqliteStore, recovered: &Recovered) -> Result<(), CliError> {
        for (delegation, index) in &recovered.ended {
            let record = store.delegation(delegation).await?;
            if let Some(child) = record.as_ref().and_then(|record| record.children.get(*index)) {
                self.add(delegation, &child.id);
            }
        }
        Ok(())
    }

    /// Adds what runs below them.
    async fn grow(&mut self, store: &SqliteStore) -> Result<(), CliError> {
        let mut open = store.delegations(Filter::Open).await?.rows;
        loop {
            let below = |record: &mut DelegationRecord| {
                record.accepted.lineage.parent.as_ref().is_some_and(|parent| self.holds(parent))
            };
            let found: Vec<DelegationRecord> = open.extract_if(.., below).collect();
            if found.is_empty() {
                return Ok(());
            }
            for record in found {
                let running = record.children.iter().filter(|child| child.outcome().is_none());
                running.for_each(|child| self.add(&record.accepted.delegation, &child.id));
            }
        }
    }

    /// Which of them have settled and which have not.
    async fn sorted(&self, store: &SqliteStore) -> Result<(Vec<ChildId>, Vec<ChildId>), CliError> {
        let mut ended = HashSet::new();
        let delegations: BTreeSet<&DelegationId> = self.0.iter().map(|(delegation, _)| delegation).collect();
        for delegation in delegations {
            let record = store.delegation(delegation).await?;
            let children = record.into_iter().flat_map(|record| record.children);
            ended.extend(children.filter(|child| child.outcome().is_some()).map(|child| child.id));
        }
        let all = self.0.iter().map(|(_, child)| child.clone());
        Ok(all.partition(|child| ended.contains(child)))
    }
}

/// What came of waiting for ends.
struct Waited {
    settled: Vec<ChildId>,
    open: Vec<ChildId>,
    /// Work with something open whose process died meanwhile, so that nobody carries the stop out.
    died: BTreeSet<DelegationId>,
}

/// Waits until everything that the stop reaches has settled, the time is over, or a process that was to carry it out has died.
async fn wait(store: &SqliteStore, owner: &Owner, aims: &[Aim], until: Instant) -> Result<Waited, CliError> {
    let mut reached = Reached::aimed(aims);
    loop {
        // A child that was being born when it was looked for is found the next time.
        reached.grow(store).await?;
        let (settled, open) = reached.sorted(store).await?;
        if open.is_empty() || Instant::now() >= until {
            return Ok(Waited { settled, open, died: BTreeSet::new() });
        }
        let died = died(store, owner, aims).await?;
        if !died.is_empty() {
            return Ok(Waited { settled, open, died });
        }
        // Deadline: the ends are rows that another process writes, so this one looks again until then.
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What of these has something open and no process that lives.
async fn died(store: &SqliteStore, owner: &Owner, aims: &[Aim]) -> Result<BTreeSet<DelegationId>, CliError> {
    let mut died = BTreeSet::new();
    for aim in aims {
        let Some(record) = store.delegation(&aim.delegation).await? else { continue };
        if !have_ended(&record, &aim.children) && !owner.lives_elsewhere(&record.owner) {
            died.insert(aim.delegation.clone());
        }
    }
    Ok(died)
}

fn answer(invocation: &Invocation, answer: &Answer) -> Result<Exit, CliError> {
    let Answer { stopped, pending, unreadable, kept } = answer;
    if invocation.common.json {
        stdout::print_json(&json!({"stopped": stopped, "pending": pending, "unreadable": unreadable}))?;
    } else {
        let ids = |children: &[ChildId]| children.iter().map(ChildId::as_str).collect::<Vec<_>>().join(", ");
        if !stopped.is_empty() {
            stdout::print(&format!("stopped: {}", ids(stopped)))?;
        }
        if !pending.is_empty() {
            stdout::print(&format!("asked to stop, not ended yet: {}", ids(pending)))?;
        }
        if !unreadable.is_empty() {
            let ids: Vec<&str> = unreadable.iter().map(DelegationId::as_str).collect();
            stdout::print(&format!(
                "asked to stop, and nobody can read whether it has ended: {}",
                ids.join(", ")
            ))?;
        }
        if stopped.is_empty() && pending.is_empty() && unreadable.is_empty() {
            stdout::print("nothing was running there")?;
        }
    }
    if *kept > 0 && !invocation.common.quiet {
        stderr::tell(&format!(
            "note: {kept} of these belonged to a process that has died; what is not ended is stopped when somebody goes on with it"
        ));
    }
    Ok(Exit::Success)
}
