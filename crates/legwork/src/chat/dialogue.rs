//! The loop of a conversation at a terminal: keys, events, signals and answers go into the view, and what has changed is
//! painted. It decides nothing about what is shown, and nothing about the work.
//!
//! Nothing ticks while nothing changes: the only timers are the pause between two frames, and a look at the subagents every
//! second while some are there.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::EventStream;
use futures::{FutureExt, StreamExt};
use legwork_core::ports::{LiveEvent, SessionView, Watch};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::feed::Feed;
use super::host::{Host, Whom};
use super::keys::{Input, input};
use super::painter::Painter;
use super::sought::Sought;
use super::terminal;
use super::typing::{Intent, Key, Leaving};
use super::view::View;
use crate::failure::Exit;
use crate::signals::{Asked, FAR_OFF, Signals};

/// Between two frames when something other than a key changed.
const FRAME: Duration = Duration::from_millis(33);
/// Between two looks at subagents that are there.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks when they come and go.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long the last frame may take.
const LAST_FRAME: Duration = Duration::from_millis(300);
/// Answers that are worked on at once.
const ASKED_MAX: usize = 64;
/// Rows that wait while a frame is being written.
const ABOVE_MAX: usize = 1000;

/// What the dialogue hears.
pub struct Sources {
    /// What happens in the conversation.
    pub feed: Arc<Feed>,
    /// What happens to subagents.
    pub watch: Box<dyn Watch>,
    /// What the program says of itself.
    pub notes: mpsc::Receiver<String>,
}

/// A conversation at a terminal.
pub struct Dialogue {
    host: Arc<dyn Host>,
    view: View,
    painter: Painter,
    begun: Instant,
    /// What was asked for and is being carried out.
    asked: JoinSet<Answer>,
    /// The frame that is being written; no other is painted meanwhile.
    writing: Option<JoinHandle<io::Result<()>>>,
    /// Bytes that come before the next frame.
    before: String,
    /// The screen is out of date.
    stale: bool,
    painted: Instant,
    looks: Looks,
    /// How long a stop of all subagents may take.
    stop_max: Duration,
    stop_until: Option<Instant>,
}

/// When the subagents are looked at.
struct Looks {
    last: Instant,
    /// A look is on its way.
    under_way: bool,
    /// The list is known to be out of date.
    wanted: bool,
    /// Whether the conversation is being asked if anything is on its way to it.
    asking: bool,
}

/// What came of something that was asked for.
enum Answer {
    Children(SessionView),
    /// They are to be listed.
    Agents(SessionView),
    /// Somebody among them was not known before.
    Sought(SessionView, Sought),
    Lines(Vec<String>),
    Note(String),
    Failed(String),
    Model(String),
    Settled(Result<bool, String>),
    Stopped,
    /// A worker is there.
    Left(String),
    /// None is, for this reason.
    NotLeft(String),
}

/// What goes on after an event.
enum Next {
    On,
    Leave(Exit),
}

impl Dialogue {
    /// A dialogue that shows `view`.
    pub fn new(host: Arc<dyn Host>, view: View, painter: Painter, stop_max: Duration) -> Dialogue {
        let now = Instant::now();
        Dialogue {
            host,
            view,
            painter,
            begun: now,
            asked: JoinSet::new(),
            writing: None,
            before: String::new(),
            stale: true,
            painted: now,
            looks: Looks { last: now, under_way: false, wanted: true, asking: false },
            stop_max,
            stop_until: None,
        }
    }

    /// Talks until the person leaves, the terminal goes or a signal comes. The block is taken off the screen at the end.
    pub async fn run(&mut self, mut sources: Sources, signals: &mut Signals) -> Exit {
        let mut keys = EventStream::new();
        let mut watching = true;
        let exit = loop {
            self.look();
            self.paint();
            let wake = self.wake();
            let next = tokio::select! {
                event = keys.next() => match event {
                    Some(Ok(event)) => self.input(event),
                    Some(Err(_)) | None => Next::Leave(Exit::Terminated),
                },
                events = sources.feed.next(), if self.has_room() => {
                    // The end of a subagent is told before its result comes in, and is shown before it too.
                    while watching && let Some(event) = sources.watch.next().now_or_never() {
                        watching = event.is_some();
                        event.iter().for_each(|event| self.live(event));
                    }
                    let now = self.begun.elapsed();
                    events.into_iter().for_each(|event| self.view.apply(event, now));
                    self.stale = true;
                    Next::On
                }
                event = sources.watch.next(), if watching => {
                    watching = event.is_some();
                    event.iter().for_each(|event| self.live(event));
                    Next::On
                }
                asked = signals.hear() => match asked {
                    Asked::Interrupt => self.key(Key::Interrupt),
                    Asked::Release => {
                        signals.note(asked);
                        Next::Leave(Exit::Terminated)
                    }
                },
                Some(note) = sources.notes.recv(), if self.has_room() => {
                    self.view.note(&note);
                    self.stale = true;
                    Next::On
                }
                Some(answer) = self.asked.join_next(), if !self.asked.is_empty() => self.answered(answer, sources.feed.is_empty()),
                written = written(&mut self.writing) => self.written(written),
                // Deadline: a frame is due, or the times on the screen are old.
                () = tokio::time::sleep_until(wake) => Next::On,
            };
            if let Next::Leave(exit) = next {
                break exit;
            }
            if let Some(exit) = self.done() {
                break exit;
            }
        };
        self.last_frame().await;
        exit
    }

    fn input(&mut self, event: crossterm::event::Event) -> Next {
        match input(event) {
            None => Next::On,
            Some(Input::Key(key)) => self.key(key),
            Some(Input::Resized(size)) => {
                self.view.resize(size);
                self.stale = true;
                Next::On
            }
        }
    }

    fn key(&mut self, key: Key) -> Next {
        let intent = self.view.key(key);
        // A key is answered at once.
        self.stale = true;
        self.painted = self.painted.checked_sub(FRAME).unwrap_or(self.painted);
        match intent {
            Some(intent) => self.carry_out(intent),
            None => Next::On,
        }
    }

    fn carry_out(&mut self, intent: Intent) -> Next {
        let host = self.host.clone();
        match intent {
            Intent::Say(text) => match host.say(text.clone()) {
                Ok(()) => self.view.said(text),
                Err(error) => self.view.not_said(&text, &error.to_string()),
            },
            Intent::StopTurn => host.stop_turn(),
            Intent::UseModel(name) => {
                self.ask(
                    async move { host.use_model(name).await.map_or_else(Answer::Failed, Answer::Model) },
                );
            }
            Intent::Redraw => {
                self.before = self.painter.clear_screen();
            }
            Intent::Agents => self.ask(async move { Answer::Agents(host.children().await) }),
            Intent::Seek(sought) => {
                self.ask(async move { Answer::Sought(host.children().await, sought) });
            }
            Intent::Steer { child, text } => {
                self.ask(async move { said(host.steer(child, text).await) });
            }
            Intent::Stop(child) => self.stop(Whom::One(child)),
            Intent::StopAll => self.stop(Whom::All),
            Intent::Sessions => self.ask(async move { listed(host.sessions().await) }),
            Intent::Transcript(child) => self.ask(async move { listed(host.transcript(child).await) }),
            Intent::Leave(Leaving::Now) => return Next::Leave(Exit::Success),
            Intent::Leave(Leaving::WhenDone) => {}
            Intent::Leave(Leaving::ToWorker) => {
                // Beyond the limit of what is carried out at once: nobody can ask for anything else any more.
                self.asked.spawn(async move {
                    host.leave_to_worker().await.map_or_else(Answer::NotLeft, Answer::Left)
                });
            }
            Intent::Leave(Leaving::Stopping) => {
                self.stop_until = Some(Instant::now() + self.stop_max);
                self.ask(async move {
                    match host.stop(Whom::Here).await {
                        Ok(_) => Answer::Stopped,
                        Err(error) => Answer::Failed(error),
                    }
                });
            }
        }
        Next::On
    }

    fn stop(&mut self, whom: Whom) {
        let host = self.host.clone();
        self.ask(async move { said(host.stop(whom).await) });
    }

    fn ask(&mut self, asked: impl Future<Output = Answer> + Send + 'static) {
        if self.asked.len() < ASKED_MAX {
            self.asked.spawn(asked);
        } else {
            self.view
                .failed(&format!("{ASKED_MAX} commands are being carried out already; wait for one to end"));
        }
    }

    fn answered(&mut self, answer: Result<Answer, tokio::task::JoinError>, all_shown: bool) -> Next {
        self.stale = true;
        match answer {
            Ok(Answer::Children(children)) => {
                self.looks.under_way = false;
                self.stale |= self.view.set_children(children);
                return Next::On;
            }
            Ok(Answer::Agents(children)) => {
                self.view.set_children(children);
                self.view.list_agents();
            }
            Ok(Answer::Sought(children, sought)) => {
                self.view.set_children(children);
                if let Some(intent) = self.view.sought(sought) {
                    return self.carry_out(intent);
                }
            }
            Ok(Answer::Lines(lines)) => self.view.listing(&lines),
            Ok(Answer::Note(text)) => self.view.note(&text),
            Ok(Answer::Failed(text)) => self.view.failed(&text),
            Ok(Answer::Model(name)) => {
                self.view.note(&format!("{name} answers from the next turn on"));
                self.view.use_model(name);
            }
            Ok(Answer::Settled(Err(why))) => {
                self.looks.asking = false;
                if self.is_waiting_to_leave() {
                    self.view.stay(&why);
                }
            }
            Ok(Answer::Settled(Ok(settled))) => {
                self.looks.asking = false;
                if settled && all_shown && self.is_waiting_to_leave() && self.view.is_idle() {
                    return Next::Leave(Exit::Success);
                }
            }
            Ok(Answer::Stopped) => {}
            Ok(Answer::Left(told)) => {
                self.view.note(&told);
                return Next::Leave(Exit::Success);
            }
            Ok(Answer::NotLeft(why)) => self.view.stay(&why),
            Err(error) => self.view.failed(&format!("BUG: a command panicked: {error}")),
        }
        self.looks.wanted = true;
        Next::On
    }

    fn live(&mut self, event: &LiveEvent) {
        if self.view.live(event) {
            self.looks.wanted = true;
            self.stale = true;
        }
    }

    /// Looks at the subagents, if it is time.
    fn look(&mut self) {
        if self.looks.under_way || Instant::now() < self.next_look() {
            return;
        }
        self.looks.last = Instant::now();
        if self.is_waiting_to_leave() && self.view.is_idle() && !self.looks.asking {
            self.looks.asking = true;
            let host = self.host.clone();
            self.asked.spawn(async move { Answer::Settled(host.is_settled().await) });
        }
        (self.looks.under_way, self.looks.wanted) = (true, false);
        // The running times on the screen change, too.
        self.stale = true;
        let host = self.host.clone();
        self.asked.spawn(async move { Answer::Children(host.children().await) });
    }

    fn next_look(&self) -> Instant {
        if self.looks.wanted {
            self.looks.last + LOOK_AGAIN
        } else if self.view.is_moving() || self.view.leaving().is_some() {
            self.looks.last + LOOK_EVERY
        } else {
            far_off()
        }
    }

    fn wake(&self) -> Instant {
        let look = if self.looks.under_way { far_off() } else { self.next_look() };
        let frame = if self.stale && self.writing.is_none() { self.painted + FRAME } else { far_off() };
        look.min(frame).min(self.stop_until.unwrap_or_else(far_off))
    }

    fn is_waiting_to_leave(&self) -> bool {
        self.view.leaving() == Some(Leaving::WhenDone)
    }

    /// Whether the stopping before the end is over.
    fn done(&self) -> Option<Exit> {
        let until = self.stop_until?;
        let over = Instant::now() >= until || (self.asked.is_empty() && !self.view.has_children());
        over.then_some(Exit::Success)
    }

    /// Whether more may be shown. While the terminal does not read, what happens waits where there is a limit to it.
    fn has_room(&self) -> bool {
        self.writing.is_none() || self.view.above_count() < ABOVE_MAX
    }

    /// Begins to write a frame, if one is due.
    fn paint(&mut self) {
        if !self.stale || self.writing.is_some() || Instant::now() < self.painted + FRAME {
            return;
        }
        let bytes = self.frame();
        self.stale = false;
        self.painted = Instant::now();
        if !bytes.is_empty() {
            // A terminal that does not read keeps nobody from hearing a signal.
            self.writing = Some(tokio::task::spawn_blocking(move || terminal::write(&bytes)));
        }
    }

    fn frame(&mut self) -> String {
        let above = self.view.take_above();
        let block = self.view.draw(self.begun.elapsed());
        let mut bytes = std::mem::take(&mut self.before);
        bytes.push_str(&self.painter.paint(&above, &block, self.view.size()));
        bytes
    }

    fn written(&mut self, written: io::Result<()>) -> Next {
        self.writing = None;
        match written {
            Ok(()) => Next::On,
            Err(error) => {
                tracing::info!(%error, "the terminal has gone");
                Next::Leave(Exit::Terminated)
            }
        }
    }

    /// Everything that belongs into the scrollback, and no block below it.
    async fn last_frame(&mut self) {
        let mut bytes = self.frame();
        bytes.push_str(&self.painter.clear());
        let before = self.writing.take();
        let writing = async {
            if let Some(before) = before {
                before.await.map_err(io::Error::other)??;
            }
            tokio::task::spawn_blocking(move || terminal::write(&bytes)).await.map_err(io::Error::other)?
        };
        // Deadline: a terminal that reads nothing any more keeps nobody from leaving.
        if let Err(error) =
            tokio::time::timeout(LAST_FRAME, writing).await.map_err(io::Error::other).flatten()
        {
            tracing::debug!(%error, "the last of what was to be shown is not");
        }
    }
}

impl Drop for Dialogue {
    /// A dialogue that was dropped in its midst leaves no block behind what is told next.
    fn drop(&mut self) {
        let bytes = self.painter.clear();
        if !bytes.is_empty() && !std::thread::panicking() {
            terminal::write_at_last(bytes);
        }
    }
}

/// The end of the frame that is being written; never, when none is.
async fn written(writing: &mut Option<JoinHandle<io::Result<()>>>) -> io::Result<()> {
    match writing {
        Some(writing) => writing.await.map_err(io::Error::other).flatten(),
        None => pending().await,
    }
}

fn far_off() -> Instant {
    Instant::now() + FAR_OFF
}

fn said(answer: Result<String, String>) -> Answer {
    answer.map_or_else(Answer::Failed, Answer::Note)
}

fn listed(answer: Result<Vec<String>, String>) -> Answer {
    answer.map_or_else(Answer::Failed, Answer::Lines)
}
