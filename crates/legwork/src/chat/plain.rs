//! A conversation without a terminal: each line of stdin is a message, each answer goes to stdout, and everything else is told
//! on stderr. It ends when stdin does and everything is answered.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::time::Duration;

use legwork_agent::session::{Cause, SayError, SessionEvent};
use legwork_core::ids::DelegationId;
use legwork_core::outcome::Ending;
use legwork_core::report::Report;
use tokio::sync::mpsc;

use super::feed::Feed;
use super::host::{Host, Whom};
use crate::failure::{CliError, Exit};
use crate::progress::told;
use crate::signals::{Asked, Signals};
use crate::stderr::{self, Voice};
use crate::{stdout, wording};

/// A line that is longer is refused: what it says belongs into a file.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Lines that are read ahead.
const LINES_MAX: usize = 16;
/// Between two looks whether anything is on its way still, after the end of stdin.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Looks in a row that may see nothing, because the store cannot be read, before it is left all the same.
const BLIND_LOOKS_MAX: u32 = 10;
const ERROR_WIDTH: usize = 400;

/// A conversation over lines.
pub struct Plain {
    host: Arc<dyn Host>,
    lines: mpsc::Receiver<io::Result<String>>,
    voice: Voice,
    /// A line for which there was no room yet.
    held: Option<String>,
    /// Stdin has not ended.
    is_reading: bool,
    /// No turn runs and no message waits, as far as the conversation has told.
    is_idle: bool,
    /// Every message was answered.
    is_whole: bool,
    /// The last looks saw nothing.
    blind_looks: u32,
}

/// What goes on after an event.
enum Next {
    On,
    Leave(Exit),
}

impl Plain {
    /// A conversation over the lines of stdin.
    pub fn new(host: Arc<dyn Host>, voice: Voice) -> Plain {
        Plain {
            host,
            lines: read_lines(),
            voice,
            held: None,
            is_reading: true,
            is_idle: true,
            is_whole: true,
            blind_looks: 0,
        }
    }

    /// Talks until everything is said and answered, or a signal comes.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub async fn run(&mut self, feed: &Feed, signals: &mut Signals) -> Result<Exit, CliError> {
        loop {
            let ended = !self.is_reading && self.held.is_none() && self.is_idle;
            let next = tokio::select! {
                biased;
                asked = signals.next() => self.asked(asked).await,
                events = feed.next() => self.happened(events, signals).await?,
                line = self.lines.recv(), if self.is_reading && self.held.is_none() => self.line(line),
                // Deadline: the store says whether results are on their way, and tells nobody when they are not.
                () = tokio::time::sleep(LOOK_EVERY), if ended => self.look(feed).await,
            };
            if let Next::Leave(exit) = next {
                return Ok(exit);
            }
        }
    }

    fn line(&mut self, line: Option<io::Result<String>>) -> Next {
        match line {
            Some(Ok(line)) => self.say(line),
            Some(Err(error)) => {
                self.is_whole = false;
                stderr::tell(&format!("error: stdin: {error}"));
            }
            None => self.is_reading = false,
        }
        Next::On
    }

    fn say(&mut self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        match self.host.say(line.clone()) {
            Ok(()) => self.is_idle = false,
            Err(SayError::Full { .. }) => self.held = Some(line),
            Err(error @ (SayError::Blank | SayError::TooLong { .. } | SayError::Closed)) => {
                self.is_whole = false;
                stderr::tell(&format!("error: {error}"));
            }
        }
    }

    async fn happened(&mut self, events: Vec<SessionEvent>, signals: &mut Signals) -> Result<Next, CliError> {
        for event in events {
            match event {
                SessionEvent::TurnBegan(cause) => self.turn_began(cause),
                SessionEvent::CameIn { title, .. } => self.voice.tell(&format!("◆ {title}")),
                SessionEvent::Told(event) if self.voice.is_aloud() => told(&event),
                SessionEvent::Told(_) | SessionEvent::Compacted { .. } => {}
                SessionEvent::TurnEnded(report) => {
                    if let Some(asked) = self.turn_ended(*report, signals).await? {
                        return Ok(Next::Leave(asked.exit()));
                    }
                }
                SessionEvent::TryingAgain { pause, tries } => {
                    let pause = wording::duration(pause);
                    stderr::tell(&format!("· try {tries} failed; the next in {pause}"));
                }
                SessionEvent::Idle => self.is_idle = true,
            }
        }
        if let Some(line) = self.held.take() {
            self.say(line);
        }
        Ok(Next::On)
    }

    fn turn_began(&mut self, cause: Cause) {
        self.is_idle = false;
        match cause {
            Cause::Completion { title, .. } | Cause::ProcessEnded { title, .. } => {
                self.voice.tell(&format!("◆ {title}"));
            }
            Cause::User(_) | Cause::Unanswered => {}
        }
    }

    async fn turn_ended(&mut self, report: Report, signals: &mut Signals) -> Result<Option<Asked>, CliError> {
        self.is_whole &= report.ending == Ending::Answered;
        if let Some(error) = &report.error {
            stderr::tell(&format!("error: {}", wording::one_line(error, ERROR_WIDTH)));
        }
        match report.answer {
            Some(answer) => {
                stdout::print_attended(wording::plain(&answer).trim_end().to_owned(), signals).await
            }
            None => Ok(None),
        }
    }

    async fn look(&mut self, feed: &Feed) -> Next {
        // The last event may be older than the last message; the conversation itself knows.
        let untold = match self.untold_at_the_end().await {
            Ok(untold) => untold,
            Err(_) if self.blind_looks < BLIND_LOOKS_MAX => {
                self.blind_looks += 1;
                return Next::On;
            }
            Err(error) => {
                stderr::tell(&format!("error: {error}, also after {BLIND_LOOKS_MAX} more looks"));
                return Next::Leave(Exit::Incomplete);
            }
        };
        self.blind_looks = 0;
        let Some(untold) = untold.filter(|_| feed.is_empty()) else { return Next::On };
        for id in &untold {
            stderr::tell(&format!(
                "error: results of {id} were not told to the agent; they come in with the next message, and `legwork results {id}` prints them"
            ));
        }
        let is_whole = self.is_whole && untold.is_empty();
        Next::Leave(if is_whole { Exit::Success } else { Exit::Incomplete })
    }

    /// What was not told of the work of this process; `None` while something is going on.
    async fn untold_at_the_end(&self) -> Result<Option<Vec<DelegationId>>, String> {
        if !self.host.is_settled().await? {
            return Ok(None);
        }
        self.host.untold().await.map(Some)
    }

    async fn asked(&mut self, asked: Asked) -> Next {
        match asked {
            Asked::Interrupt => {
                self.host.stop_turn();
                if let Err(error) = self.host.stop(Whom::Here).await {
                    stderr::tell(&format!("error: {error}"));
                }
            }
            Asked::Release => {}
        }
        Next::Leave(asked.exit())
    }
}

/// Prints the answers that came while the conversation was closed: a turn that is let go of may still come to its end.
///
/// # Errors
/// When stdout cannot be written; what is left is in the conversation.
pub async fn print_last(feed: &Feed, signals: &mut Signals) -> Result<(), CliError> {
    while !feed.is_empty() {
        for event in feed.next().await {
            if let SessionEvent::TurnEnded(report) = event
                && report.ending == Ending::Answered
                && let Some(answer) = &report.answer
                && stdout::print_attended(wording::plain(answer).trim_end().to_owned(), signals)
                    .await?
                    .is_some()
            {
                // Its time is over, and nobody reads.
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The lines of stdin. They are read on a thread of their own that nobody waits for: a read of a terminal or a pipe cannot be
/// ended from outside, and the thread goes with the program.
fn read_lines() -> mpsc::Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::channel(LINES_MAX);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        for number in 1_u64.. {
            let (line, goes_on) = match read_line(&mut input) {
                Ok(Some(Ok(line))) => (Ok(line), true),
                Ok(Some(Err(wrong))) => (Err(io::Error::other(format!("line {number} {wrong}"))), true),
                Ok(None) => return,
                Err(error) => (Err(error), false),
            };
            if sender.blocking_send(line).is_err() || !goes_on {
                return;
            }
        }
    });
    receiver
}

/// Why a line is not said.
#[derive(Debug, thiserror::Error)]
enum LineError {
    #[error("has more than {LINE_BYTES_MAX} bytes and was left out; put it into a file and name that")]
    TooLong,
    #[error("was left out: its byte {at} is not UTF-8")]
    NotText { at: usize },
}

/// The next line, without its end. One that is too long is read over.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Result<String, LineError>>> {
    let mut bytes = Vec::new();
    input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() as u64 > LINE_BYTES_MAX {
        while !bytes.ends_with(b"\n") && !bytes.is_empty() {
            bytes.clear();
            input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
        }
        return Ok(Some(Err(LineError::TooLong)));
    }
    Ok(Some(match String::from_utf8(bytes) {
        Ok(line) => Ok(line.trim_end_matches(['\n', '\r']).to_owned()),
        Err(error) => Err(LineError::NotText { at: error.utf8_error().valid_up_to() }),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k24_lines_of_any_length_and_any_bytes_are_read_and_only_text_is_said() {
        let long = "x".repeat(3 << 20);
        let text = [b"one\r\n".as_slice(), long.as_bytes(), b"\nab\xff two\n\nlast"].concat();
        let mut input = io::Cursor::new(text);
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut input).expect("a cursor can be read") {
            lines.push(line.map_err(|error| error.to_string()));
        }
        let [one, long, two, empty, last] = lines.as_slice() else { panic!("{} lines", lines.len()) };
        assert_eq!(one.as_deref(), Ok("one"));
        assert!(long.as_ref().is_err_and(|error| error.contains("1048576 bytes")));
        assert!(two.as_ref().is_err_and(|error| error.contains("byte 2 is not UTF-8")));
        assert_eq!((empty.as_deref(), last.as_deref()), (Ok(""), Ok("last")));
    }
}
