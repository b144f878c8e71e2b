//! The other end of a program's terminal, of which there is one: the terminal hangs up when it is dropped.

use std::fs::File;
use std::io::{Read, Write};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::waiting::until;

/// The other end of a terminal.
pub struct HangUp {
    master: File,
    seen: String,
}

impl HangUp {
    /// It is read only while somebody waits, so that nothing else has it open.
    pub(super) fn on(master: File) -> HangUp {
        fcntl(&master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("it can be set");
        HangUp { master, seen: String::new() }
    }

    /// Waits until the program has written this.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        until(&format!("{text:?} at the terminal"), || {
            let mut buffer = [0; 4096];
            // Nothing to read now is no failure.
            while let Ok(count @ 1..) = self.master.read(&mut buffer) {
                self.seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
            self.seen.contains(text).then_some(())
        });
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }
}
