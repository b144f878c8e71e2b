//! One group of commands and its commit.

use super::command::{Command, Ran};
use crate::failure;
use legwork_core::ports::StoreError;
use rusqlite::Connection;
use std::path::Path;

/// Commands that wait for one commit.
pub(crate) type Group = Vec<Box<dyn Command>>;

/// Runs all commands in one transaction and answers them after its commit.
///
/// Commands check before they write, so that a refused one has changed nothing and the others go on. When one breaks
/// half-way all the same, the transaction is undone and each command runs once more in a transaction of its own: a
/// bad command, or one too large for what is left of the disk, then fails alone. That is cheaper than a savepoint
/// around every command, for something that almost never happens.
pub(crate) fn commit_together(connection: &Connection, path: &Path, group: &mut Group) {
    let told = |error: &rusqlite::Error| failure::of_sqlite(error, path);
    if let Err(error) = begin(connection) {
        return fail_all(group, &told(&error));
    }
    if !run_all(connection, group) {
        roll_back(connection);
        return commit_each(connection, path, group);
    }
    match commit(connection) {
        Ok(()) => group.drain(..).for_each(|command| command.answer()),
        Err(error) => fail_all(group, &told(&error)),
    }
}

/// Whether every command either did its work or changed nothing.
fn run_all(connection: &Connection, group: &mut Group) -> bool {
    group.iter_mut().all(|command| {
        let before = connection.total_changes();
        match command.run(connection) {
            Ran::Done => true,
            Ran::Refused => connection.total_changes() == before,
            Ran::Broke(_) => false,
        }
    })
}

fn commit_each(connection: &Connection, path: &Path, group: &mut Group) {
    let mut rest = group.drain(..);
    while let Some(mut command) = rest.next() {
        match commit_alone(connection, command.as_mut()) {
            Ok(()) => command.answer(),
            Err(error) => {
                let error = failure::of_sqlite(&error, path);
                // A lock that was not freed for the whole wait is not waited for once more for each command.
                if matches!(error, StoreError::Locked(_)) {
                    rest.by_ref().for_each(|waiting| waiting.fail(error.clone()));
                }
                command.fail(error);
            }
        }
    }
}

fn commit_alone(connection: &Connection, command: &mut dyn Command) -> rusqlite::Result<()> {
    begin(connection)?;
    match command.run(connection) {
        Ran::Done => commit(connection),
        Ran::Refused => {
            roll_back(connection);
            Ok(())
        }
        Ran::Broke(error) => {
            roll_back(connection);
            Err(error)
        }
    }
}

/// Tells all commands that nothing was stored.
pub(crate) fn fail_all(group: &mut Group, error: &StoreError) {
    group.drain(..).for_each(|command| command.fail(error.clone()));
}

fn begin(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute(()).map(drop)
}

fn commit(connection: &Connection) -> rusqlite::Result<()> {
    let committed = connection.prepare_cached("COMMIT")?.execute(());
    if committed.is_err() {
        roll_back(connection);
    }
    committed.map(drop)
}

/// Undoes the open transaction. SQLite may have undone it itself, when the disk is full for example.
fn roll_back(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = connection.execute_batch("ROLLBACK") {
        tracing::error!(%error, "a transaction of the state database could not be undone");
    }
}
