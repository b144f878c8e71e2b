//! What a call is to whoever decides about it, what it may meet, and the bugs that a store can be given.

use legwork_core::fact::Append;
use legwork_core::ports::{Turn, WriteSteps};
use std::time::Duration;

/// The calls that change something.
const WRITES: [&str; 26] = [
    "enter",
    "append",
    "note_pulses",
    "claim",
    "acknowledge",
    "release",
    "park",
    "unpark",
    "dismiss",
    "ask",
    "set_pause",
    "settle_request",
    "renew",
    "declare_gone",
    "take_over",
    "note_group",
    "drop_group",
    "prune",
    "write_steps",
    "create_session",
    "hold_session",
    "release_session",
    "rename_session",
    "delete_session",
    "discard_session",
    "append_turn",
];

/// A call, as whoever decides what it meets sees it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The name of the port's method.
    pub name: &'static str,
    /// What it brings.
    pub content: Content<'a>,
}

/// What a call brings, as far as anybody decides by it.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// Facts.
    Facts(&'a [Append]),
    /// Steps of a journal.
    Steps(&'a WriteSteps),
    /// A turn of a conversation.
    Turn(&'a Turn),
    /// Something else.
    Other,
}

impl Call<'_> {
    /// Whether it is to change something.
    pub fn writes(&self) -> bool {
        WRITES.contains(&self.name)
    }
}

/// What a call meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Luck {
    /// It is carried out.
    Good,
    /// It is carried out, and its answer takes this long.
    Slow(Duration),
    /// It fails and nothing is done.
    Fails,
    /// There is no room for it, and nothing is done.
    NoRoom,
    /// It is carried out, and fails all the same.
    FailsLate,
    /// The process dies before it is carried out: there is never an answer.
    Dies,
    /// The process dies right after it was carried out: there is never an answer.
    DiesLate,
    /// It is carried out and answered, and the process dies of its next call, whatever that is.
    Last,
}

/// A bug that a store can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bend {
    /// What became ready last is told first.
    ReadyBackwards,
    /// Every session is told of what is ready for any other.
    ReadyOfStrangers,
    /// A turn is stored without the claims that it carries, which are given back.
    ForgetsClaims,
    /// The claims of a turn are acknowledged after it, in a commit of their own.
    AcknowledgesAfterwards,
    /// Claims are never given back.
    KeepsClaims,
    /// Requests are told again and again.
    RepeatsRequests,
    /// Steps of a child are taken from whoever brings them.
    IgnoresFences,
    /// A lease is renewed once and never again.
    ForgetsRenewals,
    /// Nobody is shown what children had asked for and not read.
    ForgetsUnread,
    /// What children had read is shown to whoever reads their own results as if they had not.
    TellsAgain,
    /// What children had not read does not follow their own results, and no session is told that it waits.
    LeavesBehind,
}
