//! Port `Store`: everything that must survive. Three faces of one adapter, so that one transaction can span them.
//! Asked by the dispatcher, courier and recovery ([`Facts`]), by the agent's journal ([`Steps`]) and by its sessions
//! ([`Conversations`]).
//!
//! A write that answered `Ok` is durable. One that answered with an error may have been carried out all the same, unless the
//! error says that it was refused. Dropping the future of a write does not take it back.

use super::{Listed, News, Pause, Pending, Portion, StoreError, StoreHealth, Undelivered};
use crate::delivery::ParkReason;
use crate::fact::Append;
use crate::ids::{CallKey, ChildId, ClaimId, DelegationId, Epoch, OwnerId, RequestId, SessionId, UnitId};
use crate::message::{Author, Message};
use crate::pulse::Pulse;
use crate::record::{DelegationRecord, Lease, OwnerRecord, ProcessGroup};
use crate::steering::{Asked, Request, RequestRecord};
use crate::step::{Actor, Fence, StepChange, StepRecord};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// All three faces.
pub trait Store: Facts + Steps + Conversations {}

impl<S: Facts + Steps + Conversations> Store for S {}

/// Delegations: facts, claims, requests, owners.
pub trait Facts: Send + Sync {
    /// Records the process that will own work. Must come before its first append.
    fn enter(&self, owner: OwnerRecord, at: Timestamp) -> Pending<'_, Result<(), StoreError>>;

    /// Records groups of facts in one commit. Each append stands alone: it is applied whole or refused whole, and
    /// a refused one does not touch the others. The answers come in the order of the appends. Results that are to come to
    /// their session by themselves are accepted only while that is there ([`AppendError::NoSession`]): it is not deleted then
    /// before they have arrived.
    fn append(&self, appends: Vec<Append>) -> Pending<'_, Result<Vec<Result<(), AppendError>>, StoreError>>;

    /// One delegation with everything that is known of it.
    fn delegation(&self, id: &DelegationId) -> Pending<'_, Result<Option<DelegationRecord>, StoreError>>;

    /// Many delegations, newest first. One whose rows cannot be read costs nobody else: it is among
    /// [`Listed::unreadable`], and to ask for it by its id is `Corrupt`.
    fn delegations(
        &self,
        filter: Filter,
    ) -> Pending<'_, Result<Listed<DelegationRecord, DelegationId>, StoreError>>;

    /// The delegation that was accepted under `key`, if any.
    fn by_call_key(&self, key: &CallKey) -> Pending<'_, Result<Option<DelegationId>, StoreError>>;

    /// Everything whose id is `text` or, when nothing is, begins with it. A unit is not listed beside its own
    /// delegation, whose id begins every unit's; an empty text finds nothing.
    fn find(&self, text: &str) -> Pending<'_, Result<Vec<Found>, StoreError>>;

    /// Stores the pulses of running children for other processes to see.
    fn note_pulses(
        &self,
        fence: Fence,
        at: Timestamp,
        pulses: Vec<(ChildId, Pulse)>,
    ) -> Pending<'_, Result<(), StoreError>>;

    /// Claims a ready unit. `None` when it is not ready, or somebody else was first. A claim of a dead or expired
    /// taker must be released before.
    fn claim(
        &self,
        unit: &UnitId,
        claim: ClaimId,
        claimant: &str,
        at: Timestamp,
    ) -> Pending<'_, Result<Option<ClaimId>, StoreError>>;

    /// Ends claims: the results are in the conversation or were written out.
    fn acknowledge(&self, claims: Vec<ClaimId>, at: Timestamp) -> Pending<'_, Result<(), StoreError>>;

    /// Gives claims back.
    fn release(
        &self,
        claims: Vec<ClaimId>,
        at: Timestamp,
        reason: &str,
    ) -> Pending<'_, Result<(), StoreError>>;

    /// Turns claims into parked deliveries.
    fn park(
        &self,
        claims: Vec<ClaimId>,
        at: Timestamp,
        reason: ParkReason,
    ) -> Pending<'_, Result<(), StoreError>>;

    /// Makes a parked unit ready again: its session is back, or somebody asks for it by name. `false` when it is
    /// not parked.
    fn unpark(&self, unit: &UnitId, at: Timestamp) -> Pending<'_, Result<bool, StoreError>>;

    /// Gives a unit's results up on a person's word. `false` when it is neither ready nor parked.
    fn dismiss(&self, unit: &UnitId, at: Timestamp, reason: &str) -> Pending<'_, Result<bool, StoreError>>;

    /// Stores a stop or a steer for whoever owns what it is aimed at. A steer is stored only while its child has not
    /// settled; in the commit that settles the child every steer that it has not read becomes missed, so that each
    /// is read, missed or refused and none is lost. The same request again is harmless.
    fn ask(&self, request: Request) -> Pending<'_, Result<Asked, StoreError>>;

    /// What is new for a process that may own work: requests that nobody has taken and that are newer than
    /// `after`, and whether new children may start.
    fn news(&self, after: u64) -> Pending<'_, Result<News, StoreError>>;

    /// The steers of a child with what became of them, oldest first; those that cannot be read by their ids.
    fn steers(&self, child: &ChildId) -> Pending<'_, Result<Listed<RequestRecord, RequestId>, StoreError>>;

    /// Lets new children start in no process of this store, or in all again. Answers whether that changed anything.
    fn set_pause(&self, pause: Pause, at: Timestamp) -> Pending<'_, Result<bool, StoreError>>;

    /// The units whose results are for `session` and are neither delivered nor dismissed, and have left
    /// [`DeliveryState::Held`](crate::delivery::DeliveryState::Held), and the notices of early failures like them; in
    /// the order in which they became ready. Those of which it cannot be read where they are, by their ids: they are as
    /// undelivered as the others.
    fn undelivered(
        &self,
        session: &SessionId,
    ) -> Pending<'_, Result<Listed<Undelivered, UnitId>, StoreError>>;

    /// A portion of what [`Facts::undelivered`] lists, in the same order: what stands behind the place `after`, at most `most` of
    /// it. No place is 0. A unit keeps its place for as long as it is listed; what becomes ready while the list is read in
    /// portions may be missed, and nothing that was listed before is. What cannot be read has a place like the others.
    fn due(&self, session: &SessionId, after: u64, most: usize) -> Pending<'_, Result<Portion, StoreError>>;

    /// Marks a request as carried out by `owner`. `Fenced` when that was declared gone.
    fn settle_request(
        &self,
        request: &RequestId,
        owner: &OwnerId,
        at: Timestamp,
    ) -> Pending<'_, Result<(), StoreError>>;

    /// One process that entered, also long after it ended.
    fn owner(&self, id: &OwnerId) -> Pending<'_, Result<Option<OwnerRecord>, StoreError>>;

    /// Renews the lease of a process for another `period`. `Fenced` when it was declared gone.
    fn renew(&self, owner: &OwnerId, period: Duration, at: Timestamp) -> Pending<'_, Result<(), StoreError>>;

    /// The lease of a process as it was renewed last; `None` for one that never had any.
    fn lease(&self, owner: &OwnerId) -> Pending<'_, Result<Option<Lease>, StoreError>>;

    /// Declares a process gone whose lease was renewed `beats` times and not since: from then on it counts as dead, it can
    /// accept, take over and hold nothing more, and every write that names it as its owner, writer or holder is refused,
    /// also to what nobody has taken over yet. `false` when it has renewed it after all. Again is harmless.
    fn declare_gone(
        &self,
        owner: &OwnerId,
        beats: u64,
        at: Timestamp,
    ) -> Pending<'_, Result<bool, StoreError>>;

    /// The owners of delegations that have not settled, and of process groups that are not dropped: a conversation
    /// runs commands without any delegation.
    fn owners_of_open(&self) -> Pending<'_, Result<Vec<OwnerRecord>, StoreError>>;

    /// Moves those of the delegations that are open and of the one owner to the other under a raised epoch, in one commit with
    /// the pulses of their children, and returns them. From then on every write of the old owner to them is refused. What is
    /// not the old owner's any more is left out, and nothing of it is stored.
    fn take_over(&self, takeover: Takeover) -> Pending<'_, Result<Vec<(DelegationId, Epoch)>, StoreError>>;

    /// Stores the group of a command before the command runs.
    fn note_group(
        &self,
        fence: Fence,
        child: Actor,
        group: ProcessGroup,
    ) -> Pending<'_, Result<(), StoreError>>;

    /// Forgets a group whose processes are all gone.
    fn drop_group(&self, child: Actor, group: ProcessGroup) -> Pending<'_, Result<(), StoreError>>;

    /// The groups that processes of `owner` started and did not forget.
    fn groups_of(&self, owner: &OwnerId) -> Pending<'_, Result<Vec<(Actor, ProcessGroup)>, StoreError>>;

    /// Removes delegations that settled before `before` and whose deliveries were all delivered or dismissed before it.
    /// Returns how many. Nothing undelivered is ever removed (invariant 5), nor anything that cannot be read, and what was
    /// delivered late keeps its whole time.
    fn prune(&self, before: Timestamp) -> Pending<'_, Result<usize, StoreError>>;

    /// Looks the store over, for `doctor`.
    fn health(&self) -> Pending<'_, Result<StoreHealth, StoreError>>;
}

/// Work that gets another owner.
#[derive(Debug, Clone, PartialEq)]
pub struct Takeover {
    /// Who has it.
    pub from: OwnerId,
    /// Who gets it; it must have entered.
    pub to: OwnerId,
    /// Which.
    pub delegations: Vec<DelegationId>,
    /// When.
    pub at: Timestamp,
    /// What becomes known of their children with it: how an attempt of each ended. Of a delegation that is not moved nothing is
    /// stored, nor where how that attempt ended is known already, because its process has told that after it was looked at.
    pub pulses: Vec<(ChildId, Pulse)>,
}

/// Journals of steps.
pub trait Steps: Send + Sync {
    /// Changes one actor's journal, lets a session's history grow, marks steers as seen, and acknowledges claims
    /// whose results the change carries, in one commit. A session's journal and history are written only by the
    /// process that holds the session; anybody else is `Fenced`.
    ///
    /// A write that is stored already is a `Conflict` and changes nothing more, so one that failed may be offered again:
    /// the journal shows then whether it was stored after all.
    fn write_steps(&self, write: WriteSteps) -> Pending<'_, Result<(), StoreError>>;

    /// An actor's journal, in order.
    fn steps(&self, actor: &Actor) -> Pending<'_, Result<Vec<StepRecord>, StoreError>>;
}

/// One commit of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteSteps {
    /// Whose journal.
    pub actor: Actor,
    /// Who writes.
    pub fence: Fence,
    /// When.
    pub at: Timestamp,
    /// The changes, in order.
    pub changes: Vec<StepChange>,
    /// Claims to acknowledge with them.
    pub acknowledge: Vec<ClaimId>,
    /// Messages of the same session that become part of its history with them.
    pub turn: Option<Turn>,
    /// Steers that the step with this number takes in.
    pub seen: Vec<(RequestId, u32)>,
}

/// Sessions and their histories.
pub trait Conversations: Send + Sync {
    /// Creates a session that `holder` has open. An id that is taken is refused, and so is a name that a session
    /// of the same folder has.
    fn create_session(&self, session: NewSession, holder: &OwnerId) -> Pending<'_, Result<(), StoreError>>;

    /// One session.
    fn session(&self, id: &SessionId) -> Pending<'_, Result<Option<SessionRecord>, StoreError>>;

    /// The sessions of `folder`, or all, newest first.
    fn sessions(
        &self,
        folder: Option<&str>,
    ) -> Pending<'_, Result<Listed<SessionRecord, SessionId>, StoreError>>;

    /// Opens a session for `owner`, which must have entered: from then on nobody else writes to it. `instead_of`
    /// names the holder that the caller has proved dead; a session that somebody else holds stays with them.
    fn hold_session(
        &self,
        id: &SessionId,
        owner: &OwnerId,
        instead_of: Option<&OwnerId>,
    ) -> Pending<'_, Result<Held, StoreError>>;

    /// Closes a session that `owner` holds; otherwise nothing happens.
    fn release_session(&self, id: &SessionId, owner: &OwnerId) -> Pending<'_, Result<(), StoreError>>;

    /// Gives a session a name, or takes it away. A name that another session of its folder has is refused.
    fn rename_session(&self, id: &SessionId, name: Option<&str>) -> Pending<'_, Result<(), StoreError>>;

    /// Removes a session with its history and journal, and the settled delegations that it owns whose results are
    /// all delivered or dismissed. A session that somebody holds, that owns a delegation which has not settled, or
    /// whose results wait is refused with `Conflict`.
    fn delete_session(&self, id: &SessionId) -> Pending<'_, Result<(), StoreError>>;

    /// Removes a session that `owner` holds, in which nothing was said and for which nothing was delegated, with all that is
    /// its own. `false` when it is not like that; it stays as it is then, and held. Whoever opens it takes part in one
    /// conversation: nobody's words go with a session that another process meant to leave empty (invariant 2).
    fn discard_session(&self, id: &SessionId, owner: &OwnerId) -> Pending<'_, Result<bool, StoreError>>;

    /// Appends messages to a session's history and acknowledges the claims that they carry, in one commit. Only the
    /// process that holds the session may; anybody else is `Fenced`.
    fn append_turn(&self, turn: Turn) -> Pending<'_, Result<(), StoreError>>;

    /// A session's history, in order.
    fn history(&self, id: &SessionId) -> Pending<'_, Result<Vec<Message>, StoreError>>;
}

/// A session to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its id, for life.
    pub id: SessionId,
    /// A name that a person gave it.
    pub name: Option<String>,
    /// What made it.
    pub kind: SessionKind,
    /// The folder it belongs to, as an absolute path.
    pub folder: String,
    /// When it was created.
    pub at: Timestamp,
}

/// What made a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// A conversation of several turns.
    Chat,
    /// A one-shot prompt.
    Run,
    /// Tasks from the command line, without a model that asked.
    Shell,
}

impl SessionKind {
    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            SessionKind::Chat => "chat",
            SessionKind::Run => "run",
            SessionKind::Shell => "shell",
        }
    }
}

/// The answer to opening a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// It is open here now.
    Here,
    /// Another process has it open.
    By(OwnerRecord),
    /// There is no such session.
    Unknown,
}

/// One session as the store holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// What was fixed at the start, with its present name.
    pub session: NewSession,
    /// The process that has it open, or had when it died.
    pub holder: Option<OwnerRecord>,
    /// The beginning of the first thing a user said in it, on one line of at most 120 characters.
    pub opening: Option<String>,
    /// How many messages its history has.
    pub messages: u64,
    /// When its history last grew; for people.
    pub touched_at: Timestamp,
    /// Where its last message stands among those of all sessions, in the order in which they were stored; 0 without one. Whoever
    /// wants the newest conversation goes by this, since a clock may be turned.
    pub last: u64,
}

/// Messages to append.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The session.
    pub session: SessionId,
    /// The process that writes.
    pub writer: OwnerId,
    /// How many messages the writer knows of; any other number in the store refuses the append.
    pub expected_messages: u64,
    /// When.
    pub at: Timestamp,
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// Claims that they carry.
    pub acknowledge: Vec<ClaimId>,
}

impl Turn {
    /// Characters of a session's opening at most.
    pub const OPENING_CHARS_MAX: usize = 120;

    /// What the session's opening becomes with these messages, when it has none yet.
    pub fn opening(&self) -> Option<String> {
        let said = self.messages.iter().filter(|message| message.author == Author::User);
        said.filter_map(|message| message.one_line(Self::OPENING_CHARS_MAX)).next()
    }
}

/// Which delegations to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Those with a child that has not settled.
    Open,
    /// The newest ones, settled or not, at most this many.
    Recent(usize),
    /// Open ones of one session.
    OpenOf(SessionId),
    /// All of one session, settled or not.
    Of(SessionId),
    /// Those that children of one delegation have asked for, settled or not.
    Below(DelegationId),
}

/// What an id means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A delegation.
    Delegation(DelegationId),
    /// One of several units of a delegation.
    Unit(DelegationId, UnitId),
    /// A child.
    Child(DelegationId, ChildId),
    /// A session.
    Session(SessionId),
}

/// Why one append was refused. The others of the same call were not touched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AppendError {
    /// The id is taken by another delegation.
    #[error("the id {0} is taken")]
    IdTaken(DelegationId),
    /// A delegation was accepted under this call key before.
    #[error("the call was accepted before as {0}")]
    Repeated(DelegationId),
    /// The store knows another number of facts or a newer epoch, or the writer was declared gone.
    #[error("{0} is not in the state the writer thinks")]
    Stale(DelegationId),
    /// A fact does not fit the state of its child or unit.
    #[error("{0}")]
    Illegal(String),
    /// The results would come to this session by themselves, and it is not there: it was deleted.
    #[error("the session {0}, to which the results would come, is not there any more")]
    NoSession(SessionId),
    /// What is stored of the delegation cannot be read, so that nothing can be added to it.
    #[error("{0}")]
    Unreadable(String),
}
