//! The wait for results where nothing can be written: as long as a living process works on them it needs nothing but to
//! look. What nobody works on would have to be taken over, and that ends the wait with the reason.

use std::time::Duration;

use super::Sought;
use super::waiting::Told;
use crate::args::ResultsArgs;
use crate::failure::{CliError, Exit};
use crate::invocation::Invocation;
use crate::signals::Signals;
use crate::{lookup, orphans, outliving, owner, state};

/// Between two looks. Each opens the database anew, since it may be possible to write it by then.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How a wait ended that could only look.
pub(super) enum Looked<'a> {
    /// Everything has settled.
    Settled(Sought<'a>),
    /// The database can be written, at first or by now.
    Writable,
    /// Somebody did not want to wait any longer.
    Left(Sought<'a>, Exit),
}

/// Waits until the delegation has settled, or the database can be written.
///
/// # Errors
/// When there is no such delegation, nobody works on it, or the database cannot be read.
pub(super) async fn until_it_can_be_written<'a>(
    invocation: &'a Invocation,
    args: &'a ResultsArgs,
    signals: &mut Signals,
) -> Result<Looked<'a>, CliError> {
    let mut told = Told::new(invocation.voice());
    loop {
        let looked = state::open_to_look(invocation).await?.ok_or_else(|| lookup::unknown(&args.id))?;
        let Some(why) = looked.only_looks().cloned() else { return Ok(Looked::Writable) };
        let sought = Sought::find(invocation, args, looked).await?;
        let record = sought.record().await?;
        if record.is_settled() {
            return Ok(Looked::Settled(sought));
        }
        let has_worker = outliving::has_worker(invocation, &record);
        if orphans::is_orphaned(&record) && !has_worker {
            return Err(why.into());
        }
        let why = why.to_string();
        match owner::may_stand_still(sought.store.as_ref(), &record.owner).await? {
            _suspect if has_worker => told.of_a_worker(&sought.id, &why),
            Some(_suspect) => told.of_an_obstacle(&record, &why),
            None => told.of_another(&record),
        }
        tokio::select! {
            asked = signals.next() => return Ok(Looked::Left(sought, asked.exit())),
            // Deadline: the ends are rows of the store, so this process looks again.
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}
