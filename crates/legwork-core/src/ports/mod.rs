//! The ports: what the engine and the agent ask of the outside, and what they offer each other. Each trait has one
//! page; adapters live in crates of their own.
//!
//! No port names a runtime. A call that may take time returns a [`Pending`]; dropping it gives the call up, and each port
//! says what that means.

mod answers;
mod delegator;
mod inbox;
mod live;
mod pending;
mod processes;
mod store;
mod transcripts;
mod trouble;
mod worker;

pub use answers::{Due, Listed, News, Pause, Portion, StoreHealth, Undelivered};
pub use delegator::{
    ChildView, Delegator, DispatchError, JoinError, Joined, LookError, OtherCall, Refusal, Runner,
    SessionView, SteerError, Stopped,
};
pub use inbox::{Inbox, Offer, Receipt};
pub use live::{EndFacts, Identity, LiveEvent, Watch};
pub use pending::Pending;
pub use processes::{GroupEnd, Liveness, Processes};
pub use store::{
    AppendError, Conversations, Facts, Filter, Found, Held, NewSession, SessionKind, SessionRecord, Steps,
    Store, Takeover, Turn, WriteSteps,
};
pub use transcripts::{Heading, TranscriptError, Transcripts};
pub use trouble::{Fault, StoreError, TROUBLE_MAX};
pub use worker::{Assignment, Line, RunEnd, Steer, StopNotice, Unrecorded, Worker};
