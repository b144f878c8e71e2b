//! How the commands of one program are run: their shells, their groups as the store knows them, and those of them that
//! run in the background.

use super::groups::Groups;
use super::process::BackgroundProcesses;
use crate::process::Shells;
use legwork_core::ports::Facts;
use std::sync::Arc;

/// What all tools that run commands share. Toolboxes of one program should share one of these.
#[derive(Clone)]
pub struct Commands {
    pub(super) shells: Arc<Shells>,
    pub(super) groups: Arc<Groups>,
    /// Those in the background. Whoever runs an agent ends them with the agent.
    pub background: Arc<BackgroundProcesses>,
}

impl Commands {
    /// Runs commands under `shells`; `facts` is the store that recovery reads.
    pub fn new(shells: Shells, facts: Arc<dyn Facts>) -> Self {
        let (shells, groups) = (Arc::new(shells), Arc::new(Groups::new(facts)));
        let background = BackgroundProcesses::new(Arc::clone(&shells), Arc::clone(&groups));
        Commands { shells, groups, background: Arc::new(background) }
    }

    /// Ends what runs in the background, and forgets every group that is gone. To be awaited before the store is
    /// closed. It takes at most four seconds and a commit.
    pub async fn close(&self) {
        self.background.close().await;
        self.groups.flush().await;
    }
}
