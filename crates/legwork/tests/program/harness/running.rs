//! The program while it runs: its outputs are read all the time, it can be sent signals, and it is killed when a test
//! gives up on it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::ended::Ended;
use super::waiting::{PATIENCE, Turns, until, within};

/// What a kill came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// The program was at work.
    Killed,
    /// It had ended by itself before.
    ByItself,
}

impl Death {
    pub(super) fn of(status: ExitStatus) -> Death {
        match status.signal() {
            Some(signal) if signal == Signal::SIGKILL as i32 => Death::Killed,
            Some(_) | None => Death::ByItself,
        }
    }
}

/// The program while it runs.
pub struct Running {
    child: Child,
    started: Instant,
    stdout: Reading,
    stderr: Reading,
}

impl Running {
    pub(super) fn new(mut child: Child, stdin: Vec<u8>) -> Running {
        let stderr = Reading::of(child.stderr.take());
        Running::reading(child, stdin, stderr)
    }

    pub(super) fn on_terminal(child: Child, stdin: Vec<u8>, terminal: File) -> Running {
        Running::reading(child, stdin, Reading::of(Some(terminal)))
    }

    fn reading(mut child: Child, stdin: Vec<u8>, stderr: Reading) -> Running {
        let started = Instant::now();
        if let Some(mut pipe) = child.stdin.take() {
            // A program that does not read its input closes the pipe; what it makes of that is seen in its answer.
            std::thread::spawn(move || drop(pipe.write_all(&stdin)));
        }
        let stdout = Reading::of(child.stdout.take());
        Running { child, started, stdout, stderr }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process ids are small")
    }

    /// Whether it has ended already.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours can be waited for").is_some()
    }

    /// What it wrote to stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// What it wrote to stdout so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// The id of the delegation that it announces on stderr, waited for.
    #[track_caller]
    pub fn delegation(&self) -> String {
        until("the head line on stderr", || {
            let text = self.stderr();
            let line = text.lines().find(|line| line.starts_with("deleg_") && text.contains('\n'))?;
            Some(line.split(':').next().unwrap_or_default().to_owned())
        })
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("the program is there");
    }

    /// Kills it with SIGKILL, waits for its end and says whose doing that was.
    #[track_caller]
    pub fn kill(mut self) -> Death {
        self.signal(Signal::SIGKILL);
        let status = within(PATIENCE, || self.child.try_wait().expect("a child of ours can be waited for"));
        Death::of(status.expect("nothing outlives SIGKILL"))
    }

    /// Waits for its end. `took` counts from now on.
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let mut turns = Turns::begin();
        let status = within(PATIENCE, || {
            turns.count();
            self.child.try_wait().expect("a child of ours can be waited for")
        });
        let Some(status) = status else {
            panic!("legwork did not end within {PATIENCE:?}; stderr: {}", self.stderr());
        };
        Ended {
            code: status.code().unwrap_or(-1),
            took: turns.took(),
            lived: self.started.elapsed(),
            stdout: self.stdout.rest(),
            stderr: self.stderr.rest(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for a program that has ended and was waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// One output, read by a thread.
struct Reading {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Reading {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Reading {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let thread = pipe.map(|mut pipe| {
            let bytes = Arc::clone(&bytes);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count) = pipe.read(&mut buffer) {
                    if count == 0 {
                        return;
                    }
                    bytes.lock().unwrap_or_else(PoisonError::into_inner).extend(&buffer[..count]);
                }
            })
        });
        Reading { bytes, thread }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Everything, once the other end is closed by all who hold it.
    fn rest(&mut self) -> String {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the reader does not panic");
        }
        self.text()
    }
}
