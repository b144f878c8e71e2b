//! The part of the system text that siblings share: built once for a delegation, and held in memory once.
//!
//! It does not write the text; [`crate::prompt`] does.

use crate::prompt::{self, Standing};
use crate::room::Room;
use legwork_core::ids::DelegationId;
use legwork_core::message::{Author, Message};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// What the shared text depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Occasion {
    pub(super) delegation: DelegationId,
    pub(super) folder: PathBuf,
    pub(super) room: Room,
    /// Absent for children that may not delegate.
    pub(super) standing: Option<Standing>,
}

type Built = Arc<OnceCell<Result<Arc<Message>, String>>>;

/// Remembers the shared text of the delegation whose children were started last.
#[derive(Default)]
pub(super) struct SharedPrompt {
    /// The lock is held to compare and to replace, never while the text is built.
    last: Mutex<Option<(Occasion, Built)>>,
}

impl SharedPrompt {
    /// The system message of a child: the shared one itself when the task has nothing of its own to add.
    pub(super) async fn message(
        &self,
        occasion: Occasion,
        own: Option<String>,
    ) -> Result<Arc<Message>, String> {
        let built = self.of(&occasion);
        let shared = built.get_or_init(|| build(occasion)).await.clone()?;
        match own {
            None => Ok(shared),
            Some(own) => {
                let text = format!("{}{own}", shared.plain_text());
                Ok(Arc::new(Message::text(Author::System, text)))
            }
        }
    }

    fn of(&self, occasion: &Occasion) -> Built {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, built)) if known == occasion => Arc::clone(built),
            Some(_) | None => {
                let built = Built::default();
                *last = Some((occasion.clone(), Arc::clone(&built)));
                built
            }
        }
    }
}

async fn build(occasion: Occasion) -> Result<Arc<Message>, String> {
    let built = tokio::task::spawn_blocking(move || {
        let Occasion { folder, room, standing, .. } = occasion;
        if room == Room::Scarce {
            return Ok(prompt::for_children_briefly(&folder));
        }
        let context = prompt::project_context(&folder)?;
        Ok(prompt::for_children(&folder, context.as_ref(), standing))
    });
    let text = built.await.unwrap_or_else(|error| Err(format!("the system text was not built: {error}")))?;
    Ok(Arc::new(Message::text(Author::System, text)))
}
