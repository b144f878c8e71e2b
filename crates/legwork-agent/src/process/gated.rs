//! A shell that waits for its script, the run of that script, and the end of everything it started.
//!
//! Dropping either the waiting shell or its run kills the whole family on the spot. It does not store anything.

use super::capture::Capture;
use super::family::{self, Family};
use super::leader::Leader;
use super::orphans::{self, until};
use super::shell::{Dialect, Started};
use super::table::{self, Leftover};
use futures::FutureExt;
use legwork_core::ports::Pending;
use legwork_core::record::ProcessGroup;
use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

/// How long processes may take to end after they were asked to.
const TERM_GRACE: Duration = Duration::from_millis(300);
/// How long they may take after they were killed.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// How long output is read on after everything has ended; only a process that could not be found makes it matter.
const DRAIN: Duration = Duration::from_millis(250);
/// The longest wait of a destructor.
const DROP_WAIT: Duration = Duration::from_millis(100);
/// Output is told of at most this often.
const MOVED_EVERY: Duration = Duration::from_millis(500);

/// A shell that has started and waits; nothing of a script has run.
#[derive(Debug)]
pub struct Gated {
    leader: Leader,
    /// Until the script is sent.
    stdin: Option<Sender>,
    output: Receiver,
    family: Family,
    dialect: Dialect,
    /// The leader was waited for, so its process id may be used again.
    reaped: bool,
    /// Nothing can be read from the output any more.
    closed: bool,
    /// Everything was ended; the destructor has nothing to do.
    settled: bool,
}

/// What to run.
pub struct Order<'a> {
    /// The script; must hold no NUL.
    pub script: &'a str,
    /// Resolves when the script must end, whatever it does, with the name of that end; see [`time_limit`].
    pub until: Pending<'a, End>,
    /// Takes the output.
    pub capture: &'a mut Capture,
    /// Is called when output has arrived, at most twice a second.
    pub moved: &'a (dyn Fn() + Send + Sync),
}

/// How a script ended, and what it left behind.
#[derive(Debug)]
pub struct Finished {
    /// How the shell ended.
    pub end: End,
    /// What still ran and was ended, without what those had started in turn.
    pub leftovers: Vec<Leftover>,
    /// How long all of it took.
    pub took: Duration,
}

/// How a shell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// At the time limit.
    TimedOut,
    /// Because it was asked to.
    Stopped,
    /// In a way that the system did not tell.
    Untold,
}

/// The end of a script that may take so long.
pub fn time_limit(limit: Duration) -> Pending<'static, End> {
    Box::pin(async move {
        // Deadline: the command's own time limit.
        tokio::time::sleep(limit).await;
        End::TimedOut
    })
}

impl Gated {
    pub(super) fn new(started: Started, family: Family, dialect: Dialect) -> Self {
        let Started { leader, stdin, output } = started;
        let stdin = Some(stdin);
        Gated { leader, stdin, output, family, dialect, reaped: false, closed: false, settled: false }
    }

    /// The group of everything that the script will start; to be stored before [`Gated::run`].
    pub fn group(&self) -> &ProcessGroup {
        &self.family.group
    }

    /// Sends the script and waits for its end, then ends what it left behind.
    ///
    /// It takes until then and at most three seconds. Dropping the future kills everything at once.
    pub async fn run(mut self, mut order: Order<'_>) -> Finished {
        let begun = Instant::now();
        let end = self.follow(&mut order).await;
        let leftovers = self.settle(order.capture).await;
        self.drain(order.capture).await;
        Finished { end, leftovers, took: begun.elapsed() }
    }

    async fn follow(&mut self, order: &mut Order<'_>) -> End {
        let stdin = self.stdin.take();
        let mut sending = pin!(send(stdin, self.dialect.framed(order.script)).fuse());
        let mut buffer = vec![0; 16 * 1024];
        let mut told = Instant::now();
        let mut sent = false;
        loop {
            tokio::select! {
                status = self.leader.wait() => {
                    self.reaped = true;
                    return status.map_or(End::Untold, End::of);
                }
                count = self.output.read(&mut buffer), if !self.closed => {
                    self.take(count.ok(), &buffer, order.capture).await;
                    if told.elapsed() >= MOVED_EVERY {
                        told = Instant::now();
                        (order.moved)();
                    }
                }
                () = &mut sending, if !sent => sent = true,
                end = &mut order.until => return end,
            }
        }
    }

    async fn take(&mut self, count: Option<usize>, buffer: &[u8], capture: &mut Capture) {
        match count {
            Some(0) | None => self.closed = true,
            Some(count) => capture.take(&buffer[..count]).await,
        }
    }

    /// Ends what is left: asks, waits, kills, waits.
    async fn settle(&mut self, capture: &mut Capture) -> Vec<Leftover> {
        if self.reaped && self.family.is_gone() {
            self.settled = true;
            return Vec::new();
        }
        let leftovers = table::name_roots(&self.family.followers());
        for (signal, grace) in [(Signal::SIGTERM, TERM_GRACE), (Signal::SIGKILL, KILL_GRACE)] {
            self.family.signal(signal);
            if self.until_gone(grace, capture).await {
                self.settled = true;
                return leftovers;
            }
        }
        tracing::warn!(pgid = self.family.group.pgid, "processes were killed but have not ended yet");
        leftovers
    }

    /// Reads on while it waits, because a process that is blocked in writing cannot end by itself.
    async fn until_gone(&mut self, grace: Duration, capture: &mut Capture) -> bool {
        let begun = Instant::now();
        let mut buffer = vec![0; 16 * 1024];
        let mut pause = Duration::from_millis(1);
        while !self.is_gone() {
            if begun.elapsed() >= grace {
                return false;
            }
            tokio::select! {
                count = self.output.read(&mut buffer), if !self.closed => {
                    self.take(count.ok(), &buffer, capture).await;
                }
                // Deadline: a step of the grace; the system tells of no group's end.
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_millis(20)),
            }
        }
        true
    }

    fn is_gone(&mut self) -> bool {
        if !self.reaped {
            self.reaped = !matches!(self.leader.try_wait(), Ok(None));
        }
        self.reaped && self.family.is_gone()
    }

    /// Kills everything and waits a moment until it is gone.
    fn cut_off(&mut self) {
        if self.reaped {
            self.family.followers().iter().for_each(|row| family::send(*row, Signal::SIGKILL));
        } else {
            // The leader is not waited for yet, so its group cannot be anybody else's.
            self.family.signal(Signal::SIGKILL);
        }
        // What the killed ones had started outside the group comes to the surface only when they are gone.
        let gone = until(DROP_WAIT, || self.is_gone() || (self.family.kill_orphans() && self.is_gone()));
        tracing::debug!(pgid = self.family.group.pgid, gone, "a command was cut off");
    }

    /// Takes what is still in the pipe.
    async fn drain(&mut self, capture: &mut Capture) {
        let begun = Instant::now();
        let mut buffer = vec![0; 16 * 1024];
        while !self.closed {
            let left = DRAIN.saturating_sub(begun.elapsed());
            // Deadline: whoever still holds the pipe was not found, and must not hold the call.
            match tokio::time::timeout(left, self.output.read(&mut buffer)).await {
                Ok(count) => self.take(count.ok(), &buffer, capture).await,
                Err(_) => self.closed = true,
            }
        }
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        if !self.settled {
            self.cut_off();
        }
        orphans::leave(self.family.group.pgid);
    }
}

impl End {
    fn of(status: ExitStatus) -> End {
        match (status.code(), status.signal()) {
            (Some(code), _) => End::Exited(code),
            (None, Some(signal)) => End::Signalled(signal),
            (None, None) => End::Untold,
        }
    }
}

/// A shell that has ended already takes nothing; how it ended is told elsewhere.
async fn send(stdin: Option<Sender>, script: Vec<u8>) {
    let Some(mut stdin) = stdin else { return };
    if let Err(error) = stdin.write_all(&script).await {
        tracing::debug!(%error, "a shell ended before it had read its script");
    }
}
