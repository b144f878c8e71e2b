//! The signals that end a working verb. Interrupting stops the work; the others release it, so that it stays resumable.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::failure::{CliError, Exit, Kind};

/// What the user or the system asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// SIGINT: stop the work.
    Interrupt,
    /// SIGTERM, SIGHUP, SIGQUIT: end the process and leave the work resumable.
    Release,
}

impl Asked {
    /// The exit code of a program that leaves because of it.
    pub fn exit(self) -> Exit {
        match self {
            Asked::Interrupt => Exit::Interrupted,
            Asked::Release => Exit::Terminated,
        }
    }
}

/// What a signal means to a verb that attends to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meant {
    /// The work is to be stopped, and its ends are waited for.
    Stop,
    /// The work stays for whoever goes on with it.
    Release,
    /// The stop takes too long: nothing is waited for.
    LeaveAtOnce,
}

/// What ended the work of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// It was done, or failed.
    Itself,
    /// It was stopped, and that is done.
    Interrupt,
    /// It stays for whoever goes on with it.
    Release,
}

/// What was asked of such a verb so far.
#[derive(Debug, Default)]
pub struct Attention {
    interrupted: bool,
    released: bool,
}

impl Attention {
    /// Whether the work was to be stopped.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Whether it was to be released.
    pub fn is_released(&self) -> bool {
        self.released
    }

    /// What ended work that came to an end.
    pub fn ended_by(&self) -> EndedBy {
        match (self.interrupted, self.released) {
            (true, _) => EndedBy::Interrupt,
            (false, true) => EndedBy::Release,
            (false, false) => EndedBy::Itself,
        }
    }

    /// What a signal means after those before it.
    pub fn what_is_meant(&mut self, asked: Asked) -> Meant {
        match (asked, self.interrupted || self.released) {
            (Asked::Interrupt | Asked::Release, true) => Meant::LeaveAtOnce,
            (Asked::Release, false) => {
                self.released = true;
                Meant::Release
            }
            (Asked::Interrupt, false) => {
                self.interrupted = true;
                Meant::Stop
            }
        }
    }
}

/// Longer than any wait.
pub const FAR_OFF: Duration = Duration::from_secs(366 * 24 * 3600);
/// Between the moment in which the work of a program that was told to end has to be over and the one in which the program has to
/// be gone: the last of what it says, and its own end.
const LAST_WORDS: Duration = Duration::from_millis(400);
/// What docs/guide/delegate.md gives such a program beside the stop grace.
const LEAVING_MAX: Duration = Duration::from_secs(1);
/// What is said at last is tried for so long at least.
const TRIED_MIN: Duration = Duration::from_millis(50);

/// From here on a file that meets a limit of the system (`ulimit -f`) is an error of the write, as a full disk is; by itself the
/// signal would end the program in the middle of its work.
///
/// # Errors
/// When the system refuses.
pub fn take_limits_as_errors() -> io::Result<()> {
    // Listened to once, it is never again carried out by the system; what it brings is read where the write fails.
    signal(SignalKind::from_raw(nix::libc::SIGXFSZ)).map(drop)
}

/// Whether this process was started with a signal ignored, as `nohup` does.
fn is_ignored(kind: SignalKind) -> bool {
    // Where the system does not tell, every signal is listened to.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

/// The next of a signal that may not be listened to.
async fn heard(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Listens from its creation on, and remembers what the program was told.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` where whoever started the program has it outlive its terminal (`nohup`).
    hang_up: Option<Signal>,
    quit: Signal,
    /// What it was told first, and when.
    told: Option<(Asked, Instant)>,
    /// It was told once more.
    insisted: bool,
    /// What work that is cut off has to come to its end.
    stop_grace: Duration,
}

impl Signals {
    /// Begins to listen; the signals no longer end the process by themselves.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> Result<Signals, CliError> {
        let all = || -> io::Result<Signals> {
            Ok(Signals {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hang_up: if is_ignored(SignalKind::hangup()) {
                    None
                } else {
                    Some(signal(SignalKind::hangup())?)
                },
                quit: signal(SignalKind::quit())?,
                told: None,
                insisted: false,
                stop_grace: Duration::ZERO,
            })
        };
        all()
            .map_err(|error| CliError::new(Kind::Internal, format!("signals cannot be listened to: {error}")))
    }

    /// The next signal, which is one that ends the program. Dropping the future loses none.
    pub async fn next(&mut self) -> Asked {
        let asked = self.hear().await;
        self.note(asked);
        asked
    }

    /// The next signal, for whoever may mean something else by it. Dropping the future loses none.
    pub async fn hear(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.terminate.recv() => Asked::Release,
            () = heard(self.hang_up.as_mut()) => Asked::Release,
            _ = self.quit.recv() => Asked::Release,
        }
    }

    /// A signal that was heard ends the program.
    pub fn note(&mut self, asked: Asked) {
        match self.told {
            None => self.told = Some((asked, Instant::now())),
            Some(_) => self.insisted = true,
        }
    }

    /// Whether the program was told to end, and by what first.
    pub fn told(&self) -> Option<Asked> {
        self.told.map(|(asked, _)| asked)
    }

    /// The exit code of a program that leaves before it could tell anything.
    pub fn exit(&self) -> Exit {
        self.told().map_or(Exit::Interrupted, Asked::exit)
    }

    /// Whether it was told so twice: it leaves at once.
    pub fn has_insisted(&self) -> bool {
        self.insisted
    }

    /// Work that is cut off has so long to come to its end.
    pub fn allow(&mut self, stop_grace: Duration) {
        self.stop_grace = stop_grace;
    }

    /// When the work has to be over of a program that was told to release it.
    pub fn work_until(&self) -> Option<Instant> {
        match self.told {
            Some((Asked::Release, at)) => Some(at + self.stop_grace + LEAVING_MAX - LAST_WORDS),
            Some((Asked::Interrupt, _)) | None => None,
        }
    }

    /// When nothing more is said by such a program.
    fn say_until(&self) -> Instant {
        let until = self.work_until().map(|until| (until + LAST_WORDS / 2).max(Instant::now() + TRIED_MIN));
        until.unwrap_or_else(|| Instant::now() + FAR_OFF)
    }

    /// Carries `work` out, unless a signal comes meanwhile, or the program has to be gone; gives what it was told first then.
    /// What `work` had not done by then is dropped.
    ///
    /// # Errors
    /// What the program was told.
    pub async fn unless_told<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Asked> {
        if let Some((asked, _)) = self.told.filter(|_| self.insisted) {
            return Err(asked);
        }
        let until = self.say_until();
        let asked = tokio::select! {
            done = work => return Ok(done),
            // Deadline: a program that was told to end is gone in time, whoever does not read.
            () = tokio::time::sleep_until(until) => Asked::Release,
            asked = self.next() => asked,
        };
        Err(self.told().unwrap_or(asked))
    }

    /// Carries `work` out, unless the program is told to end twice, or has to be gone. `None` then; what `work` had not done is
    /// dropped.
    pub async fn unless_insisted<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(work);
        while !self.insisted {
            let until = self.say_until();
            tokio::select! {
                done = &mut work => return Some(done),
                // Deadline: as above, whatever the disk does.
                () = tokio::time::sleep_until(until) => return None,
                _asked = self.next() => {}
            }
        }
        None
    }
}
