//! The tools as siblings are offered them: rights are mostly the same, so their specs are held in memory once.

use crate::models::ToolSpec;
use crate::tools::Toolbox;
use legwork_core::batch::Rights;
use std::sync::{Arc, Mutex, PoisonError};

/// Remembers the specs for the rights that were asked for last.
#[derive(Default)]
pub(super) struct SharedTools {
    last: Mutex<Option<(Rights, Arc<[ToolSpec]>)>>,
}

impl SharedTools {
    /// What an agent with `rights` is offered.
    pub(super) fn specs(&self, toolbox: &Toolbox, rights: &Rights) -> Arc<[ToolSpec]> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, specs)) if known == rights => Arc::clone(specs),
            Some(_) | None => {
                let specs = toolbox.specs(rights);
                *last = Some((rights.clone(), Arc::clone(&specs)));
                specs
            }
        }
    }
}
