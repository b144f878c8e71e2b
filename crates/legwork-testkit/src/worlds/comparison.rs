//! Compares the book with the account after a step.

use super::account::{Account, Gate, Kept};
use super::law::{Broken, Law};
use legwork_core::child::ChildState;
use legwork_core::ids::DelegationId;
use legwork_core::time::Moment;
use legwork_engine::book::{Book, Delegated};

impl Account {
    /// Checks every law about what stands in the book now.
    pub(super) fn compare(&mut self, book: &Book) -> Result<(), Broken> {
        self.same_children(book)?;
        self.same_counts(book)?;
        self.nothing_idles()?;
        let (due, told) = (self.next_deadline(), book.next_deadline());
        Broken::unless(due == told, Law::Time, || {
            format!("the next deadline is {due:?}, the book says {told:?}")
        })?;
        let idle = self.present().all(Kept::is_settled);
        Broken::unless(idle == book.is_idle(), Law::Drains, || {
            format!("idle: {idle}, the book says otherwise")
        })
    }

    fn same_children(&mut self, book: &Book) -> Result<(), Broken> {
        let mut live = book.delegations();
        for kept in self.delegations.values_mut().filter(|kept| !kept.withdrawn) {
            let delegated = live.next();
            let same = delegated.filter(|live| live.accepted.delegation == kept.accepted.delegation);
            let Some(delegated) = same else {
                return Err(replay(&kept.accepted.delegation, "is recorded and not in the book"));
            };
            kept.agree(delegated)?;
        }
        match live.next() {
            Some(delegated) => Err(replay(&delegated.accepted.delegation, "is in the book and not recorded")),
            None => Ok(()),
        }
    }

    fn same_counts(&self, book: &Book) -> Result<(), Broken> {
        let (waiting, told) = (self.lanes.len(), book.waiting());
        Broken::unless(waiting == told, Law::Queue, || format!("{waiting} wait, the book says {told}"))?;
        let max = self.queue_max();
        Broken::unless(waiting <= max, Law::Queue, || format!("{waiting} wait where {max} may"))?;
        let (slots, max) = (self.slots(), self.slots_max());
        Broken::unless(slots <= max, Law::Cap, || format!("{slots} hold a slot where {max} may"))?;
        // An ending process gives no slot to anybody, so it need not take back those of runs that it cut.
        let told = book.slots_used();
        let same = slots == told || (self.gate == Gate::Released && slots <= told);
        Broken::unless(same, Law::Slots, || format!("{slots} runners hold a slot, the book says {told}"))
    }

    fn nothing_idles(&self) -> Result<(), Broken> {
        let free = self.slots() < self.slots_max();
        let wanted = match self.gate {
            Gate::Open => self.returning.len() + self.lanes.len(),
            Gate::Paused => self.returning.len(),
            Gate::Released => 0,
        };
        Broken::unless(!free || wanted == 0, Law::NoIdleSlot, || {
            format!("a slot is free and {wanted} want one")
        })
    }

    /// When a child must be stopped or aborted next.
    fn next_deadline(&self) -> Option<Moment> {
        let kids = self.present().flat_map(|kept| &kept.children).filter(|kid| kid.is_open());
        let due = kids.filter_map(|kid| {
            let watched = kid.is_running() && self.gate != Gate::Released;
            let ends =
                || watched.then(|| self.gives_up(kid).0.min(self.warns(kid).unwrap_or(Moment(u64::MAX))));
            kid.abort_at.or_else(ends)
        });
        due.min()
    }
}

impl Kept {
    pub(super) fn is_settled(&self) -> bool {
        self.children.iter().all(|kid| !kid.is_open())
    }

    fn agree(&mut self, delegated: &Delegated) -> Result<(), Broken> {
        for (kid, tracked) in self.children.iter_mut().zip(&delegated.children) {
            let (recorded, live) = (kid.row.state, tracked.state);
            Broken::unless(recorded == live, Law::Replay, || {
                format!("{}: recorded as {recorded:?}, in the book {live:?}", tracked.id)
            })?;
            keeps_its_stop(kid.live, live)?;
            kid.live = live;
            Broken::unless(kid.told != kid.is_open(), Law::SettlesOnce, || {
                format!("{}: {live:?}, told settled: {}", tracked.id, kid.told)
            })?;
        }
        let (settled, told) = (self.is_settled(), self.told);
        Broken::unless(settled == told, Law::SettlesOnce, || {
            format!("{}: settled: {settled}, told so: {told}", self.accepted.delegation)
        })
    }
}

fn keeps_its_stop(before: ChildState, after: ChildState) -> Result<(), Broken> {
    let (ChildState::Stopping { cause, force, .. }, ChildState::Stopping { cause: kept, force: now, .. }) =
        (before, after)
    else {
        return Ok(());
    };
    Broken::unless(cause == kept, Law::FirstCause, || format!("{cause:?} became {kept:?}"))?;
    Broken::unless(force <= now, Law::ForceRises, || format!("{force:?} became {now:?}"))
}

fn replay(delegation: &DelegationId, how: &str) -> Broken {
    Broken { law: Law::Replay, how: format!("{delegation} {how}") }
}
