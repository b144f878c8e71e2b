//! A piece of work for the writer, with the place its answer goes to.

use crate::failure::Failure;
use legwork_core::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::oneshot;

/// How one run of a command went, as far as its group must know.
pub(crate) enum Ran {
    /// It wrote what it had to.
    Done,
    /// It does not fit what is stored.
    Refused,
    /// SQLite failed under it.
    Broke(rusqlite::Error),
}

/// What the writer needs of a command. A command may run twice: its first run is undone then.
pub(crate) trait Command: Send {
    /// Does the work inside the open transaction.
    fn run(&mut self, connection: &Connection) -> Ran;

    /// Tells the result of the last run; only after the commit.
    fn answer(self: Box<Self>);

    /// Tells that nothing was stored.
    fn fail(self: Box<Self>, error: StoreError);
}

/// A command made of a closure.
pub(crate) struct Closure<T, F> {
    work: F,
    result: Result<T, StoreError>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Closure<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> Result<T, Failure> + Send,
{
    pub(crate) fn new(work: F) -> (Self, oneshot::Receiver<Result<T, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        (Closure { work, result: Err(StoreError::Closed), reply }, answer)
    }
}

impl<T, F> Command for Closure<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> Result<T, Failure> + Send,
{
    fn run(&mut self, connection: &Connection) -> Ran {
        match (self.work)(connection) {
            Ok(value) => {
                self.result = Ok(value);
                Ran::Done
            }
            Err(Failure::Refused(error)) => {
                self.result = Err(error);
                Ran::Refused
            }
            Err(Failure::Sqlite(error)) => Ran::Broke(error),
        }
    }

    fn answer(self: Box<Self>) {
        // The asker may have gone; what it asked for is stored all the same.
        drop(self.reply.send(self.result));
    }

    fn fail(self: Box<Self>, error: StoreError) {
        // As above: nobody may be left to hear it.
        drop(self.reply.send(Err(error)));
    }
}
