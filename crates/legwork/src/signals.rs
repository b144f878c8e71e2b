//! The signals that end a working verb. Interrupting stops the work; the others release it, so that it stays resumable.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

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
}

impl Attention {
    /// Whether the work was to be stopped.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// What ended work that came to an end.
    pub fn ended_by(&self) -> EndedBy {
        if self.interrupted { EndedBy::Interrupt } else { EndedBy::Itself }
    }

    /// What a signal means after those before it.
    pub fn what_is_meant(&mut self, asked: Asked) -> Meant {
        match (asked, self.interrupted) {
            (Asked::Interrupt | Asked::Release, true) => Meant::LeaveAtOnce,
            (Asked::Release, false) => Meant::Release,
            (Asked::Interrupt, false) => {
                self.interrupted = true;
                Meant::Stop
            }
        }
    }
}

/// Listens from its creation on.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    quit: Signal,
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
                hang_up: signal(SignalKind::hangup())?,
                quit: signal(SignalKind::quit())?,
            })
        };
        all()
            .map_err(|error| CliError::new(Kind::Internal, format!("signals cannot be listened to: {error}")))
    }

    /// The next signal. Dropping the future loses none.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.terminate.recv() => Asked::Release,
            _ = self.hang_up.recv() => Asked::Release,
            _ = self.quit.recv() => Asked::Release,
        }
    }
}
