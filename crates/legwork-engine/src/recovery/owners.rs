//! Who of the owners of open work is gone: by its process at once, or by a lease that nobody renews, which takes three of its
//! periods to prove. Each owner is judged once, and all leases that seem to have run out are watched at the same time, so
//! that many owners and many trees take no longer than one.
//!
//! Nobody is watched whose work would be left alone all the same: a process that is declared gone has lost its work.

use super::trees::{Grove, Tree};
use super::{Orphans, Recovered, RecoveryError, Rescuer, trees};
use crate::lease;
use futures::future::try_join_all;
use legwork_core::ids::OwnerId;
use legwork_core::ports::Liveness;
use legwork_core::record::OwnerRecord;
use std::collections::HashMap;

/// The owners that one recovery has met.
pub(super) struct Owners<'a> {
    rescuer: Rescuer<'a>,
    met: HashMap<OwnerId, Standing>,
    /// Whose leases are to be watched.
    suspects: Vec<OwnerRecord>,
    watches_left: u32,
}

/// How often one recovery watches: while it does, further processes may fall silent, and each time takes three periods.
const WATCHES_MAX: u32 = 3;

/// How often the work is read again because another one of its owners turned out to be dead.
const READINGS_MAX: u32 = 3;

/// What an owner is to whoever recovers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Mine,
    Dead,
    Alive,
    Unclear,
    /// As its process says; but its lease looks as if nobody renewed it any more.
    Silent(Liveness),
}

/// Whose a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// All that have a part in it are gone, or this process.
    Nobodys,
    /// That would be so if some leases had run out, which is not proved.
    Doubtful,
    /// A process that lives or may live has a part in it.
    Somebodys,
}

impl<'a> Owners<'a> {
    pub(super) fn new(rescuer: Rescuer<'a>) -> Self {
        Owners { rescuer, met: HashMap::new(), suspects: Vec::new(), watches_left: WATCHES_MAX }
    }

    /// The work, as the dead among its owners left it. A process that ends in good order stores that last, and may do so after the
    /// work was read; so what is theirs is read once they are known to be dead, when nobody writes to it any more.
    pub(super) async fn read(&mut self, orphans: &Orphans) -> Result<Grove, RecoveryError> {
        let store = self.rescuer.store;
        let mut grove = trees::of(store, orphans).await?;
        for _ in 1..READINGS_MAX {
            if !self.meet(&grove).await? {
                break;
            }
            grove = trees::of(store, orphans).await?;
        }
        Ok(grove)
    }

    /// Judges all owners. Says whether one that was not known before is dead.
    async fn meet(&mut self, grove: &Grove) -> Result<bool, RecoveryError> {
        let mut is_news = false;
        for owner in grove.trees.iter().flat_map(Tree::owners) {
            is_news |= !self.met.contains_key(&owner.id) && self.standing(owner).await? == Standing::Dead;
        }
        Ok(is_news)
    }

    pub(super) async fn of(&mut self, tree: &Tree) -> Result<Whose, RecoveryError> {
        let mut whose = Whose::Nobodys;
        for owner in tree.owners() {
            whose = match (self.standing(owner).await?, whose) {
                (Standing::Alive | Standing::Unclear, _) | (_, Whose::Somebodys) => Whose::Somebodys,
                (Standing::Silent(_), _) | (_, Whose::Doubtful) => Whose::Doubtful,
                (Standing::Mine | Standing::Dead, Whose::Nobodys) => Whose::Nobodys,
            };
        }
        Ok(whose)
    }

    /// The tree would be taken if its owners were gone: their leases are to be watched.
    pub(super) fn suspect(&mut self, tree: &Tree) {
        for owner in tree.owners() {
            let is_silent = matches!(self.met.get(&owner.id), Some(Standing::Silent(_)));
            if is_silent && !self.suspects.iter().any(|known| known.id == owner.id) {
                self.suspects.push(owner.clone());
            }
        }
    }

    /// The tree is left alone: names those of its owners of which it cannot be told whether they live.
    pub(super) fn leave(&self, tree: &Tree, recovered: &mut Recovered) {
        for owner in tree.owners() {
            let is_unclear = match self.met.get(&owner.id) {
                Some(Standing::Unclear | Standing::Silent(Liveness::Unclear)) => true,
                Some(
                    Standing::Mine
                    | Standing::Dead
                    | Standing::Alive
                    | Standing::Silent(Liveness::Alive | Liveness::Dead),
                )
                | None => false,
            };
            if is_unclear && !recovered.unclear.contains(owner) {
                recovered.unclear.push(owner.clone());
            }
        }
    }

    /// Watches all suspects at once, until each has renewed its lease or is declared gone. Answers whether there were any:
    /// then the work is to be read again, because a process may have stored something before it stood still, and others may
    /// have fallen silent since. Those that come too late to be watched are named, and their work is left alone.
    pub(super) async fn watch(&mut self, recovered: &mut Recovered) -> Result<bool, RecoveryError> {
        let suspects = std::mem::take(&mut self.suspects);
        if self.watches_left == 0 {
            recovered.unclear.extend(suspects);
            return Ok(false);
        }
        self.watches_left -= 1;
        let Rescuer { store, clock, .. } = self.rescuer;
        let watches = suspects.iter().map(|owner| lease::has_run_out(store, clock, owner));
        let run_out = try_join_all(watches).await?;
        for (owner, has_run_out) in suspects.iter().zip(run_out) {
            let standing = if has_run_out { Standing::Dead } else { self.by_process(owner) };
            self.met.insert(owner.id.clone(), standing);
        }
        Ok(!suspects.is_empty())
    }

    async fn standing(&mut self, owner: &OwnerRecord) -> Result<Standing, RecoveryError> {
        if let Some(standing) = self.met.get(&owner.id) {
            return Ok(*standing);
        }
        let mut standing = self.by_process(owner);
        let liveness = match standing {
            Standing::Alive => Some(Liveness::Alive),
            Standing::Unclear => Some(Liveness::Unclear),
            Standing::Mine | Standing::Dead | Standing::Silent(_) => None,
        };
        if let Some(liveness) = liveness
            && lease::looks_stale(self.rescuer.store, self.rescuer.clock, owner).await?.is_some()
        {
            standing = Standing::Silent(liveness);
        }
        self.met.insert(owner.id.clone(), standing);
        Ok(standing)
    }

    fn by_process(&self, owner: &OwnerRecord) -> Standing {
        if owner.id == self.rescuer.owner.id {
            return Standing::Mine;
        }
        match owner.liveness(self.rescuer.processes) {
            Liveness::Dead => Standing::Dead,
            Liveness::Alive => Standing::Alive,
            Liveness::Unclear => Standing::Unclear,
        }
    }
}
