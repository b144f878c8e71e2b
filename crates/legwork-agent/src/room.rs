//! How much a model can take: models with a small window get a short system text and only the tools that matter.

use crate::models::ToolSpec;
use std::sync::Arc;

/// Models whose window has fewer tokens than this have little room.
const SMALL_WINDOW_TOKENS: u64 = 12_000;

/// How much an agent's model can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Room {
    /// Enough for everything.
    Ample,
    /// A few lines and a few tools.
    Scarce,
}

impl Room {
    /// The room in a window of that many tokens; one of unknown size is taken for large.
    pub(crate) fn of(window: Option<u64>) -> Room {
        match window {
            Some(tokens) if tokens < SMALL_WINDOW_TOKENS => Room::Scarce,
            Some(_) | None => Room::Ample,
        }
    }

    /// The tools to offer for a goal: all of them, or in little room those that the goal names, if it names any.
    pub(crate) fn offered(self, tools: Arc<[ToolSpec]>, goal: &str) -> Arc<[ToolSpec]> {
        match self {
            Room::Ample => tools,
            Room::Scarce => {
                let named: Arc<[ToolSpec]> =
                    tools.iter().filter(|tool| goal.contains(&tool.name)).cloned().collect();
                if named.is_empty() { tools } else { named }
            }
        }
    }
}
