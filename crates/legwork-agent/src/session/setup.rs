//! What a session's agent needs, and which session it is to be. It opens nothing.

use crate::journal::wall_clock;
use crate::models::Model;
use crate::tools::{Commands, Toolbox};
use crate::turn::TurnLimits;
use legwork_core::batch::{Reach, Setting};
use legwork_core::ids::SessionId;
use legwork_core::ports::{NewSession, Processes, Store, StoreError};
use legwork_core::step::Fence;
use legwork_core::taking::Taker;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// What the agent of a session needs.
pub struct SessionSetup {
    /// Where the session is kept.
    pub store: Arc<dyn Store>,
    /// Tells whether a process that has the session open still lives.
    pub processes: Arc<dyn Processes>,
    /// The model that answers.
    pub model: Arc<dyn Model>,
    /// The tools, `delegate_task` among them if the agent may delegate.
    pub toolbox: Arc<Toolbox>,
    /// How git is asked where a repository stands.
    pub commands: Commands,
    /// The limits of each turn.
    pub limits: TurnLimits,
    /// This process as an owner; it has entered the store.
    pub fence: Fence,
    /// Folder, model, rights and allowance of the agent.
    pub setting: Setting,
    /// How the results of what it delegates can reach it.
    pub reach: Reach,
    /// The depth at which agents may no longer delegate.
    pub depth_max: u32,
    /// The folder for outputs that are too long.
    pub spill: PathBuf,
}

impl SessionSetup {
    /// This process as one that takes results, now.
    pub(crate) fn taker(&self) -> Taker<'_> {
        Taker {
            facts: self.store.as_ref(),
            processes: self.processes.as_ref(),
            owner: &self.fence.owner,
            at: wall_clock(),
        }
    }
}

/// Which session is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// One that does not exist yet.
    New(NewSession),
    /// A stored one.
    Stored(SessionId),
}

impl Which {
    /// Its id.
    pub fn id(&self) -> &SessionId {
        match self {
            Which::New(session) => &session.id,
            Which::Stored(id) => id,
        }
    }
}

/// Why a session was not opened. Nothing was asked then, and nobody's session was touched.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The folder or its rules cannot be used.
    #[error("{0}")]
    Folder(String),
    /// There is no such session.
    #[error("there is no session {0}")]
    Unknown(SessionId),
    /// Another process has it open, or it cannot be told that the process that had it open is dead.
    #[error(
        "the session {session} is open in the process {pid}{}; close it there first",
        if *.is_alive { "" } else { ", of which it cannot be told whether it still lives" }
    )]
    Held {
        /// The session.
        session: SessionId,
        /// The process.
        pid: u32,
        /// Whether it is known to live.
        is_alive: bool,
    },
    /// The session could not be read or stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}
