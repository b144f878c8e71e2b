//! Whether a process that cannot be proved dead by its id has let its lease run out: it did not renew it for three whole
//! periods of this process's monotonic clock, during all of which this process was awake. Then it is declared gone, and
//! from that moment on the store takes nothing of it any more (invariant 30).
//!
//! A process whose work has ended says so itself, and is not watched.
//!
//! Stored times only tell whether it is worth watching; no decision rests on them (invariant 9).

use crate::wiring::Clock;
use legwork_core::ports::{Facts, StoreError};
use legwork_core::record::{Lease, OwnerRecord};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Periods without a renewal that prove it.
const PERIODS: u32 = 3;
/// Looks in one period.
const LOOKS: u32 = 10;
/// How often a process tries to say that it goes on with nothing.
const RESIGN_TRIES: u32 = 3;

/// Whether the lease looks as if nobody renewed it any more, so that it is worth watching: its last renewal is more than a
/// period away, in whichever direction the wall clock puts it. A process that never had a lease is not judged by one.
///
/// # Errors
/// [`StoreError`] when the store cannot be read.
pub async fn looks_stale(
    facts: &dyn Facts,
    clock: Clock,
    owner: &OwnerRecord,
) -> Result<Option<Lease>, StoreError> {
    let now = clock.now().wall;
    let lease = facts.lease(&owner.id).await?;
    Ok(lease.filter(|lease| now.since(lease.renewed_at).max(lease.renewed_at.since(now)) > lease.period))
}

/// Watches a lease until it is renewed, or has run out and its process is declared gone: for at most a little more than
/// three of its periods. Answers whether the process is gone.
///
/// # Errors
/// [`StoreError`] when the store cannot be read or written.
pub async fn has_run_out(facts: &dyn Facts, clock: Clock, owner: &OwnerRecord) -> Result<bool, StoreError> {
    let Some(first) = facts.lease(&owner.id).await? else { return Ok(false) };
    let between = (first.period / LOOKS).max(Duration::from_millis(1));
    let mut awake = AwakeCount::new(first.period, between);
    loop {
        // Deadline: a renewal is a row that another process writes, so this one looks again.
        sleep(between).await;
        let seen = facts.lease(&owner.id).await?;
        if seen.as_ref().is_none_or(|seen| seen.beats != first.beats) {
            return Ok(false);
        }
        if awake.looked(Instant::now()) {
            return facts.declare_gone(&owner.id, first.beats, clock.now().wall).await;
        }
    }
}

/// Says in the store that nothing of this process goes on any more: from that moment on it counts as dead for everybody,
/// although its program may take a moment more to end, so that its sessions are opened and its work is taken over at once
/// (docs/design/044). Only for a process whose engine has ended, and which writes nothing as an owner afterwards. Answers
/// whether it is so; otherwise it is so when the process has ended.
///
/// # Errors
/// [`StoreError`] when the store cannot be read or written.
pub async fn resign(facts: &dyn Facts, clock: Clock, owner: &OwnerRecord) -> Result<bool, StoreError> {
    // A renewal that was under way when the engine ended may come in between.
    for _ in 0..RESIGN_TRIES {
        let beats = facts.lease(&owner.id).await?.map_or(0, |lease| lease.beats);
        if facts.declare_gone(&owner.id, beats, clock.now().wall).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Counts whole periods in which this process was awake.
struct AwakeCount {
    period: Duration,
    /// Longer between two looks, and this process was not awake.
    asleep: Duration,
    began: Instant,
    last: Instant,
    whole: u32,
}

impl AwakeCount {
    fn new(period: Duration, between: Duration) -> Self {
        let now = Instant::now();
        AwakeCount { period, asleep: between + period / 2, began: now, last: now, whole: 0 }
    }

    /// Takes in one look that found nothing new; `true` once the lease has run out.
    fn looked(&mut self, now: Instant) -> bool {
        if now.duration_since(self.last) > self.asleep {
            // Both may have slept, and the other one needs time to renew.
            self.whole = 0;
            self.began = now;
        }
        self.last = now;
        if now.duration_since(self.began) >= self.period {
            self.whole += 1;
            self.began = now;
        }
        self.whole >= PERIODS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);
    const BETWEEN: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn k34_three_whole_periods_are_needed() {
        let mut awake = AwakeCount::new(PERIOD, BETWEEN);
        let began = awake.began;
        let looks = (1..).take_while(|look| !awake.looked(began + BETWEEN * *look)).count();
        assert_eq!(looks, 29);
    }

    #[tokio::test(start_paused = true)]
    async fn k10_a_period_in_which_the_watcher_slept_proves_nothing() {
        let mut awake = AwakeCount::new(PERIOD, BETWEEN);
        let began = awake.began;
        assert!((1..=29).all(|look| !awake.looked(began + BETWEEN * look)));
        // The machine slept for an hour.
        let woken = began + Duration::from_secs(3600);
        assert!(!awake.looked(woken));
        assert!((1..=29).all(|look| !awake.looked(woken + BETWEEN * look)));
        assert!(awake.looked(woken + BETWEEN * 30));
    }
}
