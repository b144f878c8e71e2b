//! The program at a terminal: keys go in, and what it writes is shown by an emulated terminal that breaks rows anew when it is
//! resized, as nearly all do. Every wait is for something on the screen.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use avt::Terminal;
use nix::pty::OpenptyResult;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::termios;

use super::running::Death;
use super::waiting::{PATIENCE, until, within};

/// The program at a terminal.
pub struct Screen {
    child: Child,
    keys: File,
    terminal: Arc<Mutex<Terminal>>,
    /// Everything that it wrote, as it came.
    written: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
    mode_before: termios::Termios,
    mode: OwnedFd,
}

impl Screen {
    /// Starts the program with this terminal, which has this size, as its stdin, stdout and stderr.
    #[track_caller]
    pub(super) fn start(mut command: Command, pty: OpenptyResult, (columns, rows): (u16, u16)) -> Screen {
        let end = || pty.slave.try_clone().expect("a file can be opened again");
        let (mode, mode_before) = (end(), termios::tcgetattr(&pty.slave).expect("it is a terminal"));
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().expect("the program starts");
        drop(command);
        let emulated = Terminal::with_scrollback(columns.into(), rows.into(), None).expect("it has a size");
        let (terminal, written) = (Arc::new(Mutex::new(emulated)), Arc::new(Mutex::new(Vec::new())));
        let master = File::from(pty.master);
        let output = master.try_clone().expect("a file can be opened again");
        let reader = read(output, Arc::clone(&terminal), Arc::clone(&written));
        Screen { child, keys: master, terminal, written, reader: Some(reader), mode_before, mode }
    }

    /// Presses keys: text as it is, and what the terminal sends for others.
    pub fn press(&mut self, keys: &str) -> &mut Screen {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
        self
    }

    /// The rows on the screen, without spaces at their ends.
    pub fn rows(&self) -> Vec<String> {
        let terminal = self.terminal();
        terminal.screen().visible_lines().map(|line| line.text().trim_end().to_owned()).collect()
    }

    /// Everything that is or was on the screen, row by row.
    pub fn everything(&self) -> String {
        self.terminal().screen().text().join("\n")
    }

    /// The bytes that it wrote, as text.
    pub fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Row and column of the cursor.
    pub fn cursor(&self) -> (usize, usize) {
        let cursor = self.terminal().cursor();
        (cursor.row, cursor.col)
    }

    /// Waits until a row of the screen holds `text`.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> Vec<String> {
        self.wait(&format!("{text:?} on the screen"), |rows| rows.iter().any(|row| row.contains(text)))
    }

    /// Waits until no row of the screen holds `text`.
    #[track_caller]
    pub fn wait_without(&self, text: &str) -> Vec<String> {
        self.wait(&format!("{text:?} to leave the screen"), |rows| !rows.iter().any(|row| row.contains(text)))
    }

    /// Waits until no turn runs, after one has begun.
    #[track_caller]
    pub fn wait_for_rest(&self) -> Vec<String> {
        self.wait("the end of the turn", |rows| !shows_a_turn(rows))
    }

    /// Waits until the turn that answers `said` is seen to run: an interrupt before that is none of a turn.
    #[track_caller]
    pub fn wait_for_turn(&self, said: &str) -> Vec<String> {
        self.wait_for(&format!("› {said}"));
        self.wait("a turn", shows_a_turn)
    }

    /// Leaves a conversation once it shows that none of its subagents runs, and gives its exit code. Whoever leaves while one
    /// seems to run is asked what becomes of it.
    #[track_caller]
    pub fn leave(&mut self) -> i32 {
        self.wait_for_rest();
        self.wait_without(" running");
        self.press("\u{4}");
        self.wait_for_end()
    }

    /// Waits until the screen is as it should be.
    #[track_caller]
    pub fn wait(&self, what: &str, is_so: impl Fn(&[String]) -> bool) -> Vec<String> {
        let found = within(PATIENCE, || Some(self.rows()).filter(|rows| is_so(rows)));
        found
            .unwrap_or_else(|| panic!("waited in vain for {what}; the screen is\n{}", self.rows().join("\n")))
    }

    /// The terminal gets another size, and the program hears of it.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal().resize(columns.into(), rows.into());
        let size = termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        termios::tcsetwinsize(&self.keys, size).expect("a terminal can be resized");
        // The system tells only those whose controlling terminal it is.
        self.signal(Signal::SIGWINCH);
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("the program is there");
    }

    /// Kills it on the spot, waits until it is gone and says whose doing that was.
    pub fn kill(&mut self) -> Death {
        self.child.kill().expect("the program is there");
        Death::of(self.child.wait().expect("a child of ours can be waited for"))
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process ids are small")
    }

    /// Waits for its end and gives the exit code; the terminal must be as it was before.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> i32 {
        let ended = || self.child.try_wait().expect("a child of ours can be waited for");
        let Some(status) = within(PATIENCE, ended) else {
            panic!("it did not end; the screen is\n{}", self.rows().join("\n"));
        };
        let mode = termios::tcgetattr(&self.mode).expect("it is a terminal");
        let modes = |mode: &termios::Termios| (mode.input_modes, mode.output_modes, mode.local_modes);
        assert_eq!(modes(&mode), modes(&self.mode_before), "the terminal was not put back");
        let paste = |code: &str| self.bytes().rfind(&format!("\u{1b}[?2004{code}"));
        until("pastes to be plain again", || (paste("h") <= paste("l")).then_some(()));
        until("the cursor to be seen again", || self.terminal().cursor().visible.then_some(()));
        status.code().unwrap_or(-1)
    }

    fn terminal(&self) -> MutexGuard<'_, Terminal> {
        self.terminal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Both fail only for a program that has ended and was waited for.
        drop(self.child.kill());
        drop(self.child.wait());
        // The reader ends when nobody has the other end of the terminal any more, which is not ours to say.
        drop(self.reader.take());
    }
}

fn read(mut output: File, terminal: Arc<Mutex<Terminal>>, written: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        let mut rest = Vec::new();
        while let Ok(count) = output.read(&mut buffer) {
            if count == 0 {
                return;
            }
            written.lock().unwrap_or_else(PoisonError::into_inner).extend(&buffer[..count]);
            rest.extend(&buffer[..count]);
            // A character may be cut between two reads.
            let whole = match std::str::from_utf8(&rest) {
                Ok(text) => text.len(),
                Err(error) => error.valid_up_to(),
            };
            let text = String::from_utf8_lossy(&rest[..whole]).into_owned();
            rest.drain(..whole);
            terminal.lock().unwrap_or_else(PoisonError::into_inner).feed(text.as_str());
        }
    })
}

fn shows_a_turn(rows: &[String]) -> bool {
    const DOING: [&str; 6] =
        ["waiting for the model", "thinking", "writing", "working", "trying again", "stopping"];
    rows.iter().any(|row| DOING.iter().any(|doing| row.starts_with(doing)))
}
