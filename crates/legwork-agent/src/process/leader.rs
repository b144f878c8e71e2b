//! The process that a command begins with, and its end.
//!
//! It waits and reaps; it signals nothing, and dropping it ends nothing.

use nix::unistd::Pid;
use rustix::process::{WaitOptions, waitpid};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use tokio::signal::unix::{Signal, SignalKind, signal};

#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};

/// A process that this one has started and nobody else reaps.
#[derive(Debug)]
pub(super) struct Leader {
    pid: Pid,
    ended: Option<ExitStatus>,
    news: News,
}

/// What tells that it is time to ask for the end.
#[derive(Debug)]
enum News {
    /// A descriptor of the process, which can be read when it has ended.
    #[cfg(target_os = "linux")]
    Descriptor(AsyncFd<OwnedFd>),
    /// The signal for the end of any child. It does for systems without such descriptors, and when none is left.
    Signals(Signal),
}

impl Leader {
    /// Watches a process that was just started.
    ///
    /// # Errors
    /// What the system said; the process is not watched then.
    pub(super) fn new(pid: Pid) -> io::Result<Self> {
        Leader::watched(pid, News::of(pid)?)
    }

    fn watched(pid: Pid, news: News) -> io::Result<Self> {
        let mut leader = Leader { pid, ended: None, news };
        // No signal will tell of an end that came before anyone listened.
        leader.try_wait()?;
        Ok(leader)
    }

    /// Its process id.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// How it ended, if it has, without waiting.
    ///
    /// # Errors
    /// What the system said, such as that somebody else has reaped it.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            let pid = rustix::process::Pid::from_raw(self.pid.as_raw());
            let ended = waitpid(pid, WaitOptions::NOHANG)?;
            self.ended = ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw()));
        }
        Ok(self.ended)
    }

    /// Waits for its end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// As for [`Leader::try_wait`].
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.ended {
                return Ok(status);
            }
            self.news.come().await?;
            self.try_wait()?;
        }
    }
}

impl News {
    #[cfg(target_os = "linux")]
    fn of(pid: Pid) -> io::Result<Self> {
        match News::by_descriptor(pid) {
            Ok(news) => Ok(news),
            Err(error) => {
                tracing::trace!(%error, %pid, "a process has no descriptor, so signals tell of its end");
                News::by_signals()
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_pid: Pid) -> io::Result<Self> {
        News::by_signals()
    }

    #[cfg(target_os = "linux")]
    #[expect(
        deprecated,
        reason = "what it is deprecated for, a descriptor that is closed while it is watched, no `OwnedFd` does"
    )]
    fn by_descriptor(pid: Pid) -> io::Result<Self> {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        let pid = Pid::from_raw(pid.as_raw()).ok_or(io::ErrorKind::InvalidInput)?;
        let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(News::Descriptor(AsyncFd::with_interest(descriptor, Interest::READABLE)?))
    }

    fn by_signals() -> io::Result<Self> {
        Ok(News::Signals(signal(SignalKind::child())?))
    }

    async fn come(&mut self) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            News::Descriptor(descriptor) => descriptor.readable().await?.clear_ready(),
            News::Signals(signals) => {
                signals.recv().await.ok_or(io::ErrorKind::BrokenPipe)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::apart::{self, Start};
    use crate::process::{orphans, table};
    use futures::FutureExt;
    use std::ffi::CString;
    use std::io::PipeWriter;
    use std::path::Path;
    use std::time::Duration;

    type Watch = fn(Pid) -> io::Result<News>;

    /// Those of this system, and those for systems without descriptors of processes.
    const WATCHES: [Watch; 2] = [News::of, |_| News::by_signals()];

    /// A leader that ends when its stdin is closed, in this way.
    fn leader(end: &str, watch: Watch) -> (Leader, PipeWriter) {
        let ((stdin, ours), (_, output)) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
        let script = format!("read line; {end}");
        let arguments = ["bash", "-c", &script].map(|text| CString::new(text).expect("no NUL"));
        let (program, environment) = (Path::new("/bin/bash"), &[]);
        let pid = apart::start(Start { program, arguments: &arguments, environment, stdin, output });
        let pid = pid.expect("there is a bash");
        orphans::enter(pid.as_raw().unsigned_abs());
        (Leader::watched(pid, watch(pid).expect("it can be watched")).expect("it is ours"), ours)
    }

    #[tokio::test]
    async fn an_end_is_told_to_whoever_waits_and_ever_after() {
        for watch in WATCHES {
            for (end, raw) in [("exit 7", 7 << 8), ("kill -9 $$", 9), ("kill -35 $$", 35)] {
                let (mut leader, stdin) = leader(end, watch);
                assert_eq!(leader.try_wait().expect("it is ours"), None);
                // Who waits, and then does not, takes nothing away.
                assert_eq!(leader.wait().now_or_never().map(Result::ok), None, "it waits for a line");
                drop(stdin);
                let ended = ExitStatus::from_raw(raw);
                assert_eq!(leader.wait().await.expect("it is ours"), ended);
                assert_eq!(leader.wait().await.expect("it is kept"), ended);
                assert_eq!(leader.try_wait().expect("it is kept"), Some(ended));
                orphans::leave(leader.pid().as_raw().unsigned_abs());
            }
        }
    }

    #[tokio::test]
    async fn an_end_before_anyone_waited_is_told_too() {
        for watch in WATCHES {
            let (mut leader, stdin) = leader("exit 3", watch);
            drop(stdin);
            let row = || table::row(leader.pid().as_raw().unsigned_abs());
            let is_dead = || row().is_some_and(|row| row.stat.zombie);
            assert!(orphans::until(Duration::from_secs(20), is_dead));
            assert_eq!(leader.wait().await.expect("it is ours"), ExitStatus::from_raw(3 << 8));
            let (late, news) = (leader.pid(), watch(leader.pid()));
            let gone = news.and_then(|news| Leader::watched(late, news)).map(drop);
            assert!(gone.is_err(), "whoever comes when somebody else has reaped it hears that");
            orphans::leave(late.as_raw().unsigned_abs());
        }
    }
}
