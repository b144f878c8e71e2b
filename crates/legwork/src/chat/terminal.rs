//! The terminal itself: raw while a conversation is open, and put back as it was however that ends.

use std::io::{self, Write};
use std::sync::mpsc;
use std::time::Duration;
use std::{panic, thread};

use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode, size};
use crossterm::{Command, cursor::Show};

use super::painter::Narrowing;
use super::view::Size;
use crate::settings::Environment;
use crate::stderr;

/// What is assumed where the terminal does not say its size.
const SIZE: Size = Size { columns: 80, rows: 24 };

/// How long the terminal may take for what puts it back.
const LAST_WAIT: Duration = Duration::from_millis(300);

/// A terminal in raw mode. It is put back when this is dropped, and before a panic of the same thread is told of.
#[derive(Debug)]
pub struct RawTerminal(());

impl RawTerminal {
    /// Takes the terminal over. To be called once, by the thread that shows the conversation.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn enter() -> io::Result<RawTerminal> {
        enable_raw_mode()?;
        let raw = RawTerminal(());
        write(&code(&EnableBracketedPaste))?;
        tell_panics();
        Ok(raw)
    }
}

/// A panic of another thread, which is that of one subagent or one tool, becomes a line of the conversation.
fn tell_panics() {
    let shows = thread::current().id();
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        if thread::current().id() == shows {
            restore();
            before(panicked);
        } else if stderr::is_diverted() {
            stderr::tell(&format!("BUG: {panicked}").replace('\n', ": "));
        } else {
            before(panicked);
        }
    }));
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back, also when it was not taken over. The mode first: that needs no reader at the other end.
pub fn restore() {
    // A terminal that has gone needs nothing put back.
    if disable_raw_mode().is_ok() {
        write_at_last(format!("{}{}", code(&DisableBracketedPaste), code(&Show)));
    }
}

/// Writes at the end of a conversation, on a thread of its own: a frame may be stuck in a terminal that does not read, and
/// keeps nobody from leaving. What the terminal does not take in time is lost; one that has gone needs nothing.
pub fn write_at_last(bytes: String) {
    let (sender, receiver) = mpsc::channel();
    let writing = thread::Builder::new().spawn(move || drop(sender.send(write(&bytes))));
    // Deadline: as above.
    if let Err(error) = writing.and_then(|_| receiver.recv_timeout(LAST_WAIT).map_err(io::Error::other)?) {
        tracing::debug!(%error, "the terminal took nothing at last");
    }
}

/// Writes and flushes; waits for the terminal to take it.
///
/// # Errors
/// When the terminal has gone.
pub fn write(bytes: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes.as_bytes())?;
    out.flush()
}

/// How large the terminal is.
pub fn size_now() -> Size {
    match size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => Size { columns: columns.into(), rows: rows.into() },
        Ok(_) | Err(_) => SIZE,
    }
}

/// What this terminal does when it is made narrower, as far as the environment tells. Nearly all break rows anew; the ones
/// named here do not.
pub fn narrowing(environment: &Environment) -> Narrowing {
    let cuts = environment.has("XTERM_VERSION") || environment.has("STY") || is(environment, "linux");
    if cuts { Narrowing::Cuts } else { Narrowing::Rewraps }
}

/// Whether the terminal can do nothing but print lines.
pub fn is_dumb(environment: &Environment) -> bool {
    is(environment, "dumb")
}

fn is(environment: &Environment, kind: &str) -> bool {
    environment.text("TERM").ok().flatten().is_some_and(|term| term == kind)
}

fn code(command: &impl Command) -> String {
    let mut text = String::new();
    match command.write_ansi(&mut text) {
        Ok(()) => text,
        Err(error) => unreachable!("BUG: writing to a string failed: {error}"),
    }
}
