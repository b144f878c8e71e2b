//! What other processes of the store run for a conversation: shown as it is stored, and stopped by a request that its
//! owner reads.
//!
//! It takes nothing over and carries nothing out.

use crate::wiring::Wiring;
use legwork_core::ids::{ChildId, DelegationId, RequestId, SessionId};
use legwork_core::ports::{
    ChildView, Filter, Found, Liveness, Runner, StopNotice, Stopped, Store, StoreError,
};
use legwork_core::record::DelegationRecord;
use legwork_core::spans::Sight;
use legwork_core::steering::{Request, Scope, Wish};

/// The children of `session` that have not settled and that this process does not run.
pub(crate) async fn views(wiring: &Wiring, session: &SessionId) -> Result<Vec<ChildView>, StoreError> {
    let records = wiring.store.delegations(Filter::OpenOf(session.clone())).await?.rows;
    let now = wiring.clock.now().mono;
    let mut views = Vec::new();
    for record in records.iter().filter(|record| record.owner.id != wiring.owner.id) {
        let liveness = record.owner.liveness(wiring.processes.as_ref());
        let runner = match liveness {
            Liveness::Alive | Liveness::Unclear => Runner::Elsewhere { pid: record.owner.process.pid },
            Liveness::Dead => Runner::Nobody,
        };
        let sight = Sight::of(record, liveness, &wiring.owner.process, now);
        let open = (0..record.children.len()).filter(|&index| record.children[index].outcome().is_none());
        views.extend(open.map(|task_index| view(record, task_index, runner, sight)));
    }
    Ok(views)
}

fn view(record: &DelegationRecord, task_index: usize, runner: Runner, sight: Sight) -> ChildView {
    let (accepted, child) = (&record.accepted, &record.children[task_index]);
    ChildView {
        state: child.state,
        runner,
        pulse: child.pulse.as_ref().map(|(pulse, _)| pulse.clone()).unwrap_or_default(),
        elapsed: child.worked(sight),
        quiet: child.quiet(sight),
        ..ChildView::accepted(accepted, task_index, child.id.clone())
    }
}

/// Asks the process that runs what `scope` names to end it, and says whom that reaches: nobody when there is no such
/// thing, or it has settled.
pub(crate) async fn stop(wiring: &Wiring, scope: Scope, notice: StopNotice) -> Stopped {
    match asked(wiring, scope, notice).await {
        Ok(children) => Stopped { children, untold: None },
        Err(error) => Stopped { children: Vec::new(), untold: Some(error.to_string()) },
    }
}

async fn asked(wiring: &Wiring, scope: Scope, notice: StopNotice) -> Result<Vec<ChildId>, StoreError> {
    // Also for a row of this process that it has not in hand: it had given the work up or is about to leave it, and whoever
    // takes it up hears of the stop.
    let Some(record) = record(wiring.store.as_ref(), &scope).await? else { return Ok(Vec::new()) };
    let children = open_in(&record, &scope);
    if !children.is_empty() {
        let request = Request {
            id: RequestId::from_bits((wiring.bits)()),
            at: wiring.clock.now().wall,
            scope,
            wish: Wish::Stop { reason: notice.reason, force: notice.force },
        };
        wiring.store.ask(request).await?;
    }
    Ok(children)
}

/// The delegation that `scope` names or names a part of. A session and everything are no one delegation.
async fn record(store: &dyn Store, scope: &Scope) -> Result<Option<DelegationRecord>, StoreError> {
    let id = match scope {
        Scope::Delegation(id) => Some(id.clone()),
        Scope::Unit(id) => found(store, id.as_str()).await?,
        Scope::Child(id) => found(store, id.as_str()).await?,
        Scope::Session(_) | Scope::All => None,
    };
    match id {
        Some(id) => store.delegation(&id).await,
        None => Ok(None),
    }
}

/// The delegation that the thing with this id belongs to. The id must be whole: the beginning of one is nobody.
pub(crate) async fn found(store: &dyn Store, id: &str) -> Result<Option<DelegationId>, StoreError> {
    let found = store.find(id).await?.into_iter().find_map(|found| match found {
        Found::Child(delegation, child) => (child.as_str() == id).then_some(delegation),
        Found::Unit(delegation, unit) => (unit.as_str() == id).then_some(delegation),
        Found::Delegation(delegation) => (delegation.as_str() == id).then_some(delegation),
        Found::Session(_) => None,
    });
    Ok(found)
}

fn open_in(record: &DelegationRecord, scope: &Scope) -> Vec<ChildId> {
    let is_meant = |task_index: usize, child: &ChildId| match scope {
        Scope::Delegation(id) => *id == record.accepted.delegation,
        Scope::Unit(id) => {
            let unit = record.accepted.units.iter().find(|unit| unit.id == *id);
            unit.is_some_and(|unit| unit.task_indexes.contains(&task_index))
        }
        Scope::Child(id) => id == child,
        Scope::Session(_) | Scope::All => false,
    };
    let open = record.children.iter().enumerate().filter(|(_, child)| child.outcome().is_none());
    open.filter(|(index, child)| is_meant(*index, &child.id)).map(|(_, child)| child.id.clone()).collect()
}
