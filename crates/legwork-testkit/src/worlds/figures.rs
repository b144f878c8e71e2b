//! How much the worlds went through.

use std::ops::AddAssign;

/// Sums over worlds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Worlds that lived.
    pub worlds: u64,
    /// Steps of their books; the laws were checked after each.
    pub steps: u64,
    /// Delegations that were accepted.
    pub delegations: u64,
    /// Of those, the most in one world that were waited for because no slot was free.
    pub inline: u64,
    /// Of those, made by children.
    pub nested: u64,
    /// Times that a runner gave its slot back.
    pub parked: u64,
    /// Times that it got one again.
    pub granted: u64,
    /// Children that settled and were told so.
    pub settled: u64,
    /// Calls that were refused.
    pub refusals: u64,
    /// Stops that were asked for.
    pub stops: u64,
    /// Delegations that the store refused.
    pub withdrawals: u64,
    /// Owners that died.
    pub deaths: u64,
    /// Owners that let go of their work.
    pub releases: u64,
    /// The largest number of children that ran at once.
    pub peak: u64,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Figures) {
        self.worlds += other.worlds;
        self.steps += other.steps;
        self.delegations += other.delegations;
        self.inline += other.inline;
        self.nested += other.nested;
        self.parked += other.parked;
        self.granted += other.granted;
        self.settled += other.settled;
        self.refusals += other.refusals;
        self.stops += other.stops;
        self.withdrawals += other.withdrawals;
        self.deaths += other.deaths;
        self.releases += other.releases;
        self.peak = self.peak.max(other.peak);
    }
}
