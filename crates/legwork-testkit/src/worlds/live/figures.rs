//! How much the live worlds went through.

use std::ops::AddAssign;

/// Sums over worlds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveFigures {
    /// Worlds that lived.
    pub worlds: u64,
    /// Completions that are in the history of their session.
    pub arrived: u64,
    /// Failures that were told early, whether that arrived or was overtaken by the results.
    pub notices: u64,
    /// Messages of users that are in some history.
    pub said: u64,
    /// Offers that were accepted.
    pub accepted: u64,
    /// Offers that met a busy session.
    pub busy: u64,
    /// Offers that met a session that was gone.
    pub gone: u64,
    /// Turns that were not stored.
    pub lost_turns: u64,
    /// Texts that a child read.
    pub seen: u64,
    /// Texts whose child ended first.
    pub missed: u64,
    /// Texts that were refused.
    pub refused: u64,
    /// Processes that died.
    pub deaths: u64,
    /// Processes that ended in good order.
    pub ended: u64,
    /// Sessions that were opened once their process had ended, which was waited for.
    pub waited: u64,
    /// Sessions that were not opened, because their process took too long to end.
    pub turned_away: u64,
    /// Units that a child had asked for and read.
    pub read_below: u64,
    /// Subagents that were told of with the results of the child that had asked for them, because it had ended.
    pub told_below: u64,
    /// Calls of a session's own agent whose results are in its history.
    pub called: u64,
    /// Units that came into a session later, because the turn that waited for them was cut off.
    pub left: u64,
    /// Calls of the store that failed.
    pub failures: u64,
    /// Calls of the store that were to change something.
    pub writes: u64,
    /// Steps of children that were done.
    pub steps: u64,
    /// How often a process stood still for a while.
    pub stood_still: u64,
    /// Processes that stood still for so long that they were declared gone.
    pub deposed: u64,
    /// Writes that were refused because somebody else had taken over.
    pub fenced: u64,
    /// How often the wall clock was turned.
    pub turned: u64,
}

impl AddAssign for LiveFigures {
    fn add_assign(&mut self, other: LiveFigures) {
        self.worlds += other.worlds;
        self.arrived += other.arrived;
        self.notices += other.notices;
        self.said += other.said;
        self.accepted += other.accepted;
        self.busy += other.busy;
        self.gone += other.gone;
        self.lost_turns += other.lost_turns;
        self.seen += other.seen;
        self.missed += other.missed;
        self.refused += other.refused;
        self.deaths += other.deaths;
        self.ended += other.ended;
        self.waited += other.waited;
        self.turned_away += other.turned_away;
        self.read_below += other.read_below;
        self.told_below += other.told_below;
        self.called += other.called;
        self.left += other.left;
        self.failures += other.failures;
        self.writes += other.writes;
        self.steps += other.steps;
        self.stood_still += other.stood_still;
        self.deposed += other.deposed;
        self.fenced += other.fenced;
        self.turned += other.turned;
    }
}
