//! What is said to running children: checked before it is stored, and kept until the child takes it at its next step. The
//! store alone knows what was read and what was missed.

use crate::book::Warning;
use crate::elsewhere;
use legwork_core::child::ChildState;
use legwork_core::ids::{ChildId, RequestId, SessionId};
use legwork_core::ports::{Steer, SteerError, Store, StoreError};
use std::collections::{HashSet, VecDeque};
use tokio::sync::watch;

/// The longest text that is said at once, in bytes.
pub const STEER_BYTES_MAX: usize = 64 * 1024;

/// What was said to one child and not taken yet. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Said {
    heard: watch::Sender<Heard>,
}

#[derive(Default)]
struct Heard {
    waiting: VecDeque<Steer>,
    /// Everything that was ever added: what is read from the store twice is said once.
    known: HashSet<RequestId>,
}

impl Said {
    /// Adds one text, unless it was added before; whoever stored it made sure that there is room.
    pub(crate) fn add(&self, steer: Steer) {
        self.heard.send_modify(|heard| {
            if heard.known.insert(steer.request.clone()) {
                heard.waiting.push_back(steer);
            }
        });
    }

    /// Everything that waits, in order; nothing waits after that.
    pub(crate) fn take(&self) -> Vec<Steer> {
        let mut taken = VecDeque::new();
        self.heard.send_modify(|heard| taken = std::mem::take(&mut heard.waiting));
        taken.into()
    }
}

/// Whether `text` may be said to `child` by `session`, or by a person at the terminal when there is none.
///
/// # Errors
/// The [`SteerError`] that says why not. Unknown children and those of other conversations are told apart by nobody
/// (CTRL-4).
pub(crate) async fn objection(
    store: &dyn Store,
    child: &ChildId,
    text: &str,
    session: Option<&SessionId>,
) -> Result<(), SteerError> {
    if text.trim().is_empty() {
        return Err(SteerError::Blank);
    }
    if text.len() > STEER_BYTES_MAX {
        return Err(SteerError::TooLong { bytes: text.len(), bytes_max: STEER_BYTES_MAX });
    }
    match state_of_theirs(store, child, session).await.map_err(failed)? {
        None => return Err(SteerError::NotFound(child.clone())),
        Some(state) if !state.takes_steers() => return Err(SteerError::Ending(child.clone())),
        Some(_) => {}
    }
    Ok(())
}

/// What a child is told before its inactivity limit ends it (RUN-11).
pub(crate) fn warning(warning: Warning) -> String {
    let Warning { quiet, limit } = warning;
    format!(
        "A word from legwork itself: nothing of yours has moved for {} s, and after {} s without any progress you are \
         ended (delegation.child_timeout_seconds). Do not begin anything new that takes long: finish, and answer with \
         what you have.",
        quiet.as_secs(),
        limit.as_secs(),
    )
}

pub(crate) fn failed(error: StoreError) -> SteerError {
    SteerError::Store(error.to_string())
}

/// Where the child stands, if it is unsettled and, when a conversation asks, works for it.
async fn state_of_theirs(
    store: &dyn Store,
    child: &ChildId,
    session: Option<&SessionId>,
) -> Result<Option<ChildState>, StoreError> {
    let Some(delegation) = elsewhere::found(store, child.as_str()).await? else { return Ok(None) };
    let Some(record) = store.delegation(&delegation).await? else { return Ok(None) };
    let is_theirs = session.is_none_or(|session| record.accepted.lineage.session == *session);
    let open = record.children.iter().find(|row| row.id == *child && row.outcome().is_none());
    Ok(open.filter(|_| is_theirs).map(|row| row.state))
}
