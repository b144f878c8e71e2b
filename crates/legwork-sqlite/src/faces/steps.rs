//! The face `Steps`: turns each call into a command or a look. The statements are in `sql/`.

use crate::SqliteStore;
use crate::sql::journal;
use legwork_core::ports::{Pending, Steps, StoreError, WriteSteps};
use legwork_core::step::{Actor, StepRecord};

impl Steps for SqliteStore {
    fn write_steps(&self, write: WriteSteps) -> Pending<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let prepared = journal::Prepared::new(write)?;
            self.write(move |connection| journal::write(connection, &prepared)).await
        })
    }

    fn steps(&self, actor: &Actor) -> Pending<'_, Result<Vec<StepRecord>, StoreError>> {
        let actor = actor.clone();
        Box::pin(self.read(move |connection| journal::read(connection, &actor)))
    }
}
