//! Goes on with orphaned work in a running engine: whole trees are taken over and handed to the book, which queues their
//! children for another attempt. Where one of them cannot be worked on in this process, the tree is left to another one.

use super::owners::{Owners, Whose};
use super::settling::left_by;
use super::trees::Tree;
use super::{Orphans, Recovered, RecoveryError, Rescuer, trees};
use crate::book::{Adopted, Loss};
use crate::dispatcher::{Heirloom, Message};
use crate::handle::Handle;
use legwork_core::batch::OnCrash;
use legwork_core::child::{AfterLoss, ChildState};
use legwork_core::ids::{ChildId, DelegationId, Epoch};
use legwork_core::ports::{Steer, StoreError};
use legwork_core::record::DelegationRecord;
use legwork_core::steering::{Fate, Wish};
use std::collections::{BTreeMap, HashSet};
use tokio::sync::oneshot;

impl Handle {
    /// Takes over what dead owners left of `orphans`, and goes on with it: children that may be resumed are queued for
    /// another attempt over the same journal, the others settle as they stand. What was running in commands of the dead
    /// is ended before. Returns when the engine has the work; its slots decide when it begins. Limits of the queue do not
    /// bind it, since it was accepted before. What owners left that are dead for certain goes on before the leases of others
    /// are watched, and nobody is declared gone whose work this process could not go on with.
    ///
    /// # Errors
    /// [`RecoveryError`]; running it again goes on where it ended.
    pub async fn recover(&self, orphans: &Orphans) -> Result<Recovered, RecoveryError> {
        let wiring = self.wiring();
        let rescuer = Rescuer {
            store: wiring.store.as_ref(),
            clock: wiring.clock,
            owner: &wiring.owner,
            processes: wiring.processes.as_ref(),
        };
        let mut recovered = Recovered::default();
        let mut owners = Owners::new(rescuer);
        self.take_up(rescuer, &mut owners, (orphans, &mut recovered)).await?;
        if owners.watch().await? {
            self.take_up(rescuer, &mut owners, (orphans, &mut recovered)).await?;
        }
        Ok(recovered)
    }

    /// Goes on with what is nobody's as far as is known now.
    async fn take_up(
        &self,
        rescuer: Rescuer<'_>,
        owners: &mut Owners<'_>,
        (orphans, recovered): (&Orphans, &mut Recovered),
    ) -> Result<(), RecoveryError> {
        let known = self.known().await?;
        for tree in trees::of(rescuer.store, orphans).await? {
            if recovered.tells_of(&tree) || is_at_work(rescuer, &tree, &known) {
                continue;
            }
            let whose = owners.of(&tree).await?;
            let lacking = if whose == Whose::Somebodys { None } else { self.lacking(&tree) };
            match (whose, lacking) {
                (Whose::Nobodys, None) => {
                    let records = rescuer.take(&tree).await?;
                    self.adopt(rescuer, records, recovered).await?;
                }
                (Whose::Nobodys, Some(lacking)) => recovered.lacking.push(lacking),
                (Whose::Doubtful, None) => owners.suspect(&tree),
                (Whose::Doubtful, Some(_)) | (Whose::Somebodys, _) => owners.leave(&tree, recovered),
            }
        }
        Ok(())
    }

    /// The delegations that run in this engine.
    async fn known(&self) -> Result<HashSet<DelegationId>, RecoveryError> {
        let views = self.ask(|reply| Message::View(None, reply)).await.ok_or(RecoveryError::Closed)?;
        Ok(views.into_iter().map(|view| view.delegation).collect())
    }

    /// What this process lacks for a child of the tree that would go on.
    fn lacking(&self, tree: &Tree) -> Option<(DelegationId, String)> {
        tree.records().iter().find_map(|record| {
            let accepted = &record.accepted;
            let mut open = (0..record.children.len()).filter(|index| goes_on(record, *index));
            let lacks = open.find_map(|index| self.wiring().worker.lacks(&accepted.setting_of(index)));
            lacks.map(|lacks| (accepted.delegation.clone(), lacks))
        })
    }

    async fn adopt(
        &self,
        rescuer: Rescuer<'_>,
        records: Vec<DelegationRecord>,
        recovered: &mut Recovered,
    ) -> Result<(), RecoveryError> {
        let mut heirloom = Heirloom::default();
        for record in records {
            let mut losses = BTreeMap::new();
            for (index, child) in
                record.children.iter().enumerate().filter(|(_, child)| child.outcome().is_none())
            {
                if goes_on(&record, index) {
                    recovered.resumed += 1;
                    heirloom.steers.push((child.id.clone(), open_steers(rescuer, &child.id).await?));
                } else {
                    recovered.count_settled(child.state);
                    let report = match child.state.has_runner() {
                        true => Some(Box::new(left_by(rescuer, child).await)),
                        false => None,
                    };
                    losses.insert(index, Loss { after: AfterLoss::GiveUp, report });
                }
            }
            recovered.taken.push(record.accepted.delegation.clone());
            heirloom.adopted.push(Adopted { record, losses });
        }
        if heirloom.adopted.is_empty() {
            return Ok(());
        }
        let handed = |reply: oneshot::Sender<()>| Message::Adopt(Box::new(heirloom), reply);
        self.ask(handed).await.ok_or(RecoveryError::Closed)
    }
}

/// Whether a part of the tree runs in this engine: then all of it does, or it was not this process that took it over.
fn is_at_work(rescuer: Rescuer<'_>, tree: &Tree, known: &HashSet<DelegationId>) -> bool {
    tree.records().iter().any(|record| {
        let is_mine = record.owner.id == rescuer.owner.id;
        is_mine && (record.epoch == Epoch(1) || known.contains(&record.accepted.delegation))
    })
}

/// Whether the child of that task gets another attempt.
fn goes_on(record: &DelegationRecord, index: usize) -> bool {
    match record.children[index].state {
        ChildState::Queued { .. }
        | ChildState::Running { .. }
        | ChildState::Parked { .. }
        | ChildState::Waiting { .. } => record.accepted.on_crash(index) == OnCrash::Resume,
        ChildState::Stopping { .. } | ChildState::Settled(_) => false,
    }
}

/// What was said to the child and not read; the news of the store begins after that.
async fn open_steers(rescuer: Rescuer<'_>, child: &ChildId) -> Result<Vec<Steer>, StoreError> {
    let records = rescuer.store.steers(child).await?;
    let open = records.into_iter().filter(|record| record.fate == Fate::Open);
    let steers = open.filter_map(|record| match record.request.wish {
        Wish::Steer { text } => Some(Steer { request: record.request.id, text }),
        Wish::Stop { .. } => None,
    });
    Ok(steers.collect())
}
