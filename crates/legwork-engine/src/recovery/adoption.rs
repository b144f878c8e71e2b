//! Goes on with orphaned work in a running engine: whole trees are taken over and handed to the book, which queues their
//! children for another attempt. Where one of them cannot be worked on in this process, the tree is left to another one.

use super::owners::{Owners, Whose};
use super::settling::{ChildAt, goes_on, left_by};
use super::toll::Toll;
use super::trees::{Grove, Tree};
use super::{Orphans, Recovered, RecoveryError, Rescuer, trees};
use crate::book::{Adopted, Loss};
use crate::dispatcher::{Heirloom, Message};
use crate::handle::Handle;
use crate::salvage::has_answered;
use legwork_core::child::AfterLoss;
use legwork_core::ids::{ChildId, DelegationId, RequestId};
use legwork_core::outcome::StopReason;
use legwork_core::ports::{Steer, StoreError};
use legwork_core::record::DelegationRecord;
use legwork_core::steering::{Fate, Wish};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tokio::sync::oneshot;

impl Handle {
    /// Takes over what dead owners left of `orphans`, and goes on with it: children that may be resumed are queued for
    /// another attempt over the same journal, the others settle as they stand. A child that lacks something here, such as
    /// the key of its model, stays queued, with those that wait for it; once nothing else of its tree goes on, the tree is
    /// left to another process. A tree of which nothing can go on is not touched. What was running in commands of the dead
    /// is ended before. Returns when the engine has the work; its slots decide when it begins. Limits of the queue do not
    /// bind it, since it was accepted before. What owners left that are dead for certain goes on before the leases of others
    /// are watched, and nobody is declared gone whose work this process could not go on with. What this process gave up itself is
    /// taken up again too; where it was given up more than once, that is left alone for a time that doubles each time.
    ///
    /// # Errors
    /// [`RecoveryError`]; running it again goes on where it ended.
    pub async fn recover(&self, orphans: &Orphans) -> Result<Recovered, RecoveryError> {
        // Asked first: what is given up from now on rests from the next time on.
        let resting = self.ask(Message::Resting).await.ok_or(RecoveryError::Closed)?;
        self.recover_but(orphans, &resting).await
    }

    /// As [`Handle::recover`] for one delegation that somebody asks for by name, and that goes on at once, however often it was
    /// given up here. Whoever calls this again and again must count.
    ///
    /// # Errors
    /// As there.
    pub async fn recover_again(&self, delegation: &DelegationId) -> Result<Recovered, RecoveryError> {
        self.recover_but(&Orphans::Of(delegation.clone()), &HashSet::new()).await
    }

    async fn recover_but(
        &self,
        orphans: &Orphans,
        resting: &HashSet<DelegationId>,
    ) -> Result<Recovered, RecoveryError> {
        let rescuer = self.rescuer();
        let mut recovered = Recovered::default();
        let mut owners = Owners::new(rescuer);
        loop {
            self.take_up(rescuer, &mut owners, (orphans, resting, &mut recovered)).await?;
            if !owners.watch(&mut recovered).await? {
                return Ok(recovered);
            }
        }
    }

    /// Goes on with what is nobody's as far as is known now.
    async fn take_up(
        &self,
        rescuer: Rescuer<'_>,
        owners: &mut Owners<'_>,
        (orphans, resting, recovered): (&Orphans, &HashSet<DelegationId>, &mut Recovered),
    ) -> Result<(), RecoveryError> {
        // One at a time in a process: each takes what it finds in nobody's hand.
        let _turn = self.recovering().acquire().await.map_err(|_| RecoveryError::Closed)?;
        let Grove { trees: mut found, unreadable } = owners.read(orphans).await?;
        found.sort_by_key(Tree::turn);
        recovered.unreadable = unreadable;
        // Asked after the work was read: what was accepted here since then is not among it.
        let in_hand = self.ask(Message::InHand).await.ok_or(RecoveryError::Closed)?;
        // Of a tree that is at work here in part, the other part may be nobody's.
        for tree in found.into_iter().filter_map(|tree| tree.without(&in_hand)) {
            if recovered.tells_of(&tree) || tree.ids().any(|id| resting.contains(id)) {
                continue;
            }
            let whose = owners.of(&tree).await?;
            if whose == Whose::Somebodys {
                owners.leave(&tree, recovered);
                continue;
            }
            let toll = Toll::of(&tree, rescuer).await?;
            let mut withheld = self.withheld(&tree, &toll).await;
            match whose {
                Whose::Nobodys => {
                    recovered.lacking.append(&mut withheld.lacking);
                    if withheld.is_all {
                        continue;
                    }
                    let beside = rescuer.clear(&tree).await?;
                    if beside.is_empty() {
                        let estate = Estate { records: rescuer.take(&tree, &toll).await?, withheld, toll };
                        self.adopt(rescuer, estate, recovered).await?;
                    }
                    recovered.lacking.extend(beside);
                }
                Whose::Doubtful if !withheld.is_all => owners.suspect(&tree),
                Whose::Doubtful | Whose::Somebodys => owners.leave(&tree, recovered),
            }
        }
        Ok(())
    }

    /// What this process lacks to go on with anything of `orphans`, if their owners were gone; `None` where something could go
    /// on. Nothing is touched, and nobody watched.
    ///
    /// # Errors
    /// [`RecoveryError`].
    pub async fn obstacle(&self, orphans: &Orphans) -> Result<Option<String>, RecoveryError> {
        let (rescuer, mut obstacle) = (self.rescuer(), None);
        for tree in trees::of(rescuer.store, orphans).await?.trees {
            let toll = Toll::of(&tree, rescuer).await?;
            let withheld = self.withheld(&tree, &toll).await;
            if !withheld.is_all {
                return Ok(None);
            }
            obstacle = obstacle.or(withheld.lacking.into_iter().next().map(|(_, lacks)| lacks));
        }
        Ok(obstacle)
    }

    fn rescuer(&self) -> Rescuer<'_> {
        let wiring = self.wiring();
        Rescuer {
            store: wiring.store.as_ref(),
            clock: wiring.clock,
            owner: &wiring.owner,
            processes: wiring.processes.as_ref(),
        }
    }

    /// Which children of the tree cannot go on here: those that lack something, and those that would wait for them.
    async fn withheld(&self, tree: &Tree, toll: &Toll) -> Withheld {
        let mut withheld = Withheld { is_all: true, ..Withheld::default() };
        // Children come before those that wait for them.
        for record in tree.records().iter().rev() {
            let accepted = &record.accepted;
            let mut lacks = None;
            let open = record.children.iter().enumerate().filter(|(_, child)| child.outcome().is_none());
            for (index, child) in open {
                let goes_on = goes_on(record, index, toll);
                let lacking = match goes_on {
                    true => self.lacks(ChildAt { record, index }).await,
                    false => None,
                };
                let waits = goes_on && withheld.parents.contains(&child.id);
                if lacking.is_none() && !waits {
                    withheld.is_all = false;
                    continue;
                }
                withheld.children.insert(child.id.clone());
                withheld.parents.extend(accepted.lineage.parent.clone());
                lacks = lacks.or(lacking);
            }
            withheld.lacking.extend(lacks.map(|lacks| (accepted.delegation.clone(), lacks)));
        }
        withheld.lacking.reverse();
        withheld
    }

    /// What the child of that task lacks here to go on. One that has answered needs nothing any more.
    async fn lacks(&self, ChildAt { record, index }: ChildAt<'_>) -> Option<String> {
        let lacks = self.wiring().worker.lacks(&record.accepted.setting_of(index))?;
        let has_answered = has_answered(self.wiring().store.as_ref(), &record.children[index].id).await;
        (!has_answered).then_some(lacks)
    }

    async fn adopt(
        &self,
        rescuer: Rescuer<'_>,
        estate: Estate,
        recovered: &mut Recovered,
    ) -> Result<(), RecoveryError> {
        let Estate { records, withheld, toll } = estate;
        let mut heirloom = Heirloom::default();
        for record in records {
            let (mut losses, mut here) = (BTreeMap::new(), BTreeSet::new());
            for (index, child) in
                record.children.iter().enumerate().filter(|(_, child)| child.outcome().is_none())
            {
                if goes_on(&record, index, &toll) {
                    if withheld.children.contains(&child.id) {
                        here.insert(index);
                    } else {
                        recovered.resumed += 1;
                    }
                    heirloom.steers.push((child.id.clone(), open_steers(rescuer, &child.id).await?));
                } else {
                    losses.insert(
                        index,
                        lost(rescuer, ChildAt { record: &record, index }, &toll, recovered).await,
                    );
                }
            }
            recovered.taken.push(record.accepted.delegation.clone());
            heirloom.adopted.push(Adopted { record, losses, withheld: here });
        }
        if heirloom.adopted.is_empty() {
            return Ok(());
        }
        let handed = |reply: oneshot::Sender<()>| Message::Adopt(Box::new(heirloom), reply);
        self.ask(handed).await.ok_or(RecoveryError::Closed)
    }
}

/// How a child ends that does not go on.
async fn lost(
    rescuer: Rescuer<'_>,
    ChildAt { record, index }: ChildAt<'_>,
    toll: &Toll,
    recovered: &mut Recovered,
) -> Loss {
    let child = &record.children[index];
    let condemned = toll.why(&child.id);
    match condemned {
        Some(_) => recovered.condemned += 1,
        None => recovered.count_settled(child.state),
    }
    let report = match child.state.has_runner() {
        true => Some(Box::new(left_by(rescuer, ChildAt { record, index }, condemned).await)),
        false => None,
    };
    Loss { after: AfterLoss::GiveUp, stopped: condemned.map(|_| StopReason::OwnerLost), report }
}

/// A tree that was taken, with what was found out about it before.
struct Estate {
    records: Vec<DelegationRecord>,
    withheld: Withheld,
    toll: Toll,
}

/// What of a tree does not go on in this process.
#[derive(Default)]
struct Withheld {
    /// Its children that stay queued.
    children: HashSet<ChildId>,
    /// Those that wait for some of them.
    parents: HashSet<ChildId>,
    /// What is lacking, one reason a delegation.
    lacking: Vec<(DelegationId, String)>,
    /// Whether nothing of it goes on, so that it is left as it is.
    is_all: bool,
}

/// What was said to the child and not read; the news of the store begins after that.
async fn open_steers(rescuer: Rescuer<'_>, child: &ChildId) -> Result<Vec<Steer>, StoreError> {
    let steers = rescuer.store.steers(child).await?;
    if !steers.unreadable.is_empty() {
        let requests: Vec<&str> = steers.unreadable.iter().map(RequestId::as_str).collect();
        tracing::warn!(%child, ?requests, "what was said to it cannot be read, and it goes on without");
    }
    let open = steers.rows.into_iter().filter(|record| record.fate == Fate::Open);
    let steers = open.filter_map(|record| match record.request.wish {
        Wish::Steer { text } => Some(Steer { request: record.request.id, text }),
        Wish::Stop { .. } => None,
    });
    Ok(steers.collect())
}
