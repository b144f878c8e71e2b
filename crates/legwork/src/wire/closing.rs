//! The end of a workplace: what still runs has its grace, hooks that are still to be fired a moment, and signals are heard
//! all the while.

use std::time::Duration;

use legwork_agent::hooks::Unfired;
use legwork_engine::lease;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{STOP_SLACK, Workplace};
use crate::signals::{Asked, EndedBy, Signals};

/// How long hooks may still run when the work has ended.
pub(super) const HOOKS_SLACK: Duration = Duration::from_secs(3);
/// The same when the program was told to end.
const HOOKS_LAST: Duration = Duration::from_millis(200);
/// How long the last word to the store may take.
const RESIGN_MAX: Duration = Duration::from_millis(200);

impl Workplace {
    /// Ends the engine and what runs in the background: work is cut after the stop grace and stays in the store;
    /// transcripts are whole afterwards. Hooks that are still to run have a moment. A second call does nothing. For whoever does
    /// not listen to signals; [`Workplace::close_after`] is for the others.
    pub async fn close(&mut self) {
        let (_calm, haste) = watch::channel(None);
        self.end(haste).await;
    }

    async fn end(&mut self, mut haste: watch::Receiver<Option<Instant>>) {
        let Some(engine) = self.engine.take() else { return };
        let (commands, hooks, unfired) = (&self.commands, &mut self.hooks, &self.unfired);
        let transcripts = self.transcripts.clone();
        let mut hasty = haste.clone();
        let ending = async {
            engine.close().await;
            // Deadline: hooks that are still to be fired hold the end of the program only for a moment.
            let cut_after = tokio::select! {
                _fired = hooks.join_next() => None,
                cut_after = patience(&mut hasty) => Some(cut_after),
            };
            if let Some((seconds, after)) = cut_after {
                let left_out = left_out(unfired);
                tracing::warn!(
                    "hooks were cut with the end of the program: they had {seconds} s after {after}; {left_out}"
                );
                hooks.shutdown().await;
            }
            commands.close().await;
            let written = tokio::task::spawn_blocking(move || transcripts.close()).await;
            written
                .map_or_else(|error| tracing::error!(%error, "BUG: closing the transcripts panicked"), drop);
        };
        // Deadline: a program that was told to end must be gone in time, whatever the disk does.
        tokio::select! {
            () = ending => self.is_over = true,
            () = overdue(&mut haste, self.stop_grace + STOP_SLACK) => tracing::warn!(
                "the end of the work could not be stored in time; the next start finds out what is left"
            ),
        }
    }

    /// Gives the sessions that this process holds free, and what it could not end: whoever waits for them need not wait until the
    /// program has told its last words (docs/design/044). For a program that writes nothing as an owner any more. What cannot be
    /// stored in a moment comes free when the process has ended, and so does everything of a workplace that was not closed in
    /// time.
    pub async fn resign(&self) {
        if !self.is_over {
            return;
        }
        let resigning = lease::resign(self.store.as_ref(), self.owner.clock, &self.owner.record);
        // Deadline: the end of the process says the same.
        match tokio::time::timeout(RESIGN_MAX, resigning).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => tracing::debug!("the lease was renewed while it was given up"),
            Ok(Err(error)) => tracing::debug!(%error, "the sessions come free with the process"),
            Err(_) => tracing::debug!("the store is busy; the sessions come free with the process"),
        }
    }

    /// Closes it, as the work ended. A signal after work that had ended by itself, and one that ended it, leaves hooks only their
    /// last moment, so that the program is gone within the stop grace and a second (docs/guide/hooks.md); a further one ends the
    /// wait at once. Nothing that is stored is lost by either.
    ///
    /// # Errors
    /// What the program was told first, when it was told twice: it does nothing more.
    pub async fn close_after(&mut self, ended_by: EndedBy, signals: &mut Signals) -> Result<(), Asked> {
        signals.allow(self.stop_grace);
        let last = self.stop_grace + STOP_SLACK + HOOKS_LAST;
        let until = |signals: &Signals| Some(signals.work_until().unwrap_or_else(|| Instant::now() + last));
        let is_hasty = match ended_by {
            EndedBy::Itself => signals.told().is_some(),
            EndedBy::Interrupt => false,
            EndedBy::Release => true,
        };
        let (hurry, haste) = watch::channel(if is_hasty { until(signals) } else { None });
        let closed = self.end(haste);
        tokio::pin!(closed);
        while !signals.has_insisted() {
            tokio::select! {
                () = &mut closed => return Ok(()),
                _asked = signals.next() => hurry.send_replace(until(signals)),
            };
        }
        Err(signals.told().unwrap_or(Asked::Release))
    }
}

/// What was cut, in words.
pub(super) fn left_out(unfired: &Unfired) -> String {
    format!("those for {} event(s) did not run, or not to their end", unfired.count())
}

/// How many seconds hooks have had after what, once that is over: so long as there is no haste, and only a moment from
/// when there is.
async fn patience(haste: &mut watch::Receiver<Option<Instant>>) -> (f32, &'static str) {
    tokio::select! {
        // Deadline: hooks hold the end of the program only for a moment.
        () = tokio::time::sleep(HOOKS_SLACK) => (HOOKS_SLACK.as_secs_f32(), "its work"),
        _until = hurried(haste) => {
            // Deadline: and for a shorter one where somebody waits for that end.
            tokio::time::sleep(HOOKS_LAST).await;
            (HOOKS_LAST.as_secs_f32(), "its work and the word to end")
        }
    }
}

/// Until the end takes too long: `stop_max` and the time of the hooks, or what is left once there is haste.
async fn overdue(haste: &mut watch::Receiver<Option<Instant>>, stop_max: Duration) {
    tokio::select! {
        // Deadline: the end is stored by then, or it is for the next start to find out.
        () = tokio::time::sleep(stop_max + HOOKS_SLACK) => {}
        // Deadline: the same, as soon as a program that was told to end has to be gone.
        until = hurried(haste) => tokio::time::sleep_until(until).await,
    }
}

/// When all has to be over, once that is known; never, when nobody hurries.
async fn hurried(haste: &mut watch::Receiver<Option<Instant>>) -> Instant {
    match haste.wait_for(Option::is_some).await.ok().and_then(|until| *until) {
        Some(until) => until,
        None => std::future::pending().await,
    }
}
