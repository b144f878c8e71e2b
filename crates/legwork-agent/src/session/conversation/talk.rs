//! The loop of a conversation: one turn at a time. What a person said goes first, in order, each message a turn of its
//! own; then completions, each a turn of its own. A turn that failed in a way that may pass is tried again by itself, and
//! meanwhile no completion is taken.

use super::again::{Again, Unstored, gap, may_pass};
use super::desk::Desk;
use super::rows::{Row, stored_among};
use super::{Arrived, Conversation, Farewell, wait};
use crate::session::arrivals;
use crate::session::completion::{Completion, notice};
use crate::session::ends::Ends;
use crate::session::event::{Cause, SessionEvent};
use crate::session::line::{SessionLine, SessionStop};
use crate::session::open::{Left, Stored, unstored};
use crate::turn::{Start, broken_off};
use legwork_core::batch::Reach;
use legwork_core::ids::{ClaimId, UnitId};
use legwork_core::message::{Author, Message};
use legwork_core::outcome::Ending;
use legwork_core::ports::{Inbox, Line, Receipt, StopNotice, StoreError};
use legwork_core::pulse::LineEvent;
use legwork_core::report::Report;
use std::sync::Arc;
use tokio::time::sleep_until;

/// What comes next.
enum Next {
    /// Somebody said this.
    Said(String),
    /// A completion is offered.
    Arrived(Arrived),
    /// Background processes have ended.
    Ended,
    /// A turn is tried again.
    Again(Again),
    /// Nothing any more.
    Over,
}

impl Conversation {
    /// Drives the conversation until it is closed, or until another process has its session. First it answers what was
    /// left unanswered, or cut off, when the session was closed or its process died.
    ///
    /// Dropping the future ends it where it is: what is stored is taken up when the session is opened again.
    pub async fn run(mut self) -> Farewell {
        if self.session.setup().reach == Reach::Push {
            let inbox: Arc<dyn Inbox> = Arc::new(self.handle.clone());
            self.delegator.attach(self.handle.session(), inbox).await;
        }
        let left = std::mem::replace(&mut self.left, Left::Nothing);
        self.answer(left, 0).await;
        loop {
            let next = self.next().await;
            self.told_idle = false;
            match next {
                Next::Said(text) => self.said(text).await,
                Next::Arrived(arrived) => self.arrived(arrived).await,
                Next::Ended => self.processes_ended().await,
                Next::Again(again) => self.try_again(again).await,
                Next::Over => return self.leave().await,
            }
        }
    }

    async fn next(&mut self) -> Next {
        loop {
            if self.lost.is_some() || self.desk.borrow().is_closing() {
                return Next::Over;
            }
            // A message that could not be stored goes before those that came after it.
            let holds_back = self.again.as_ref().is_some_and(|again| again.unstored.is_some());
            if !holds_back && let Some(text) = self.take_message() {
                return Next::Said(text);
            }
            match self.again.take() {
                Some(again) => {
                    if let Some(next) = self.pause(again).await {
                        return next;
                    }
                }
                None => {
                    self.rest();
                    tokio::select! {
                        biased;
                        () = wait(&mut self.desk, |desk| desk.has_message() || desk.is_closing()) => {}
                        Some(arrived) = self.offers.recv() => return Next::Arrived(arrived),
                        () = some_end(self.ends.as_ref()) => return Next::Ended,
                    }
                }
            }
        }
    }

    /// Waits for the next try. A new message is said at once and answers both; a stop gives the try up.
    async fn pause(&mut self, again: Again) -> Option<Next> {
        let (line, stop) = SessionLine::new(Box::new(|_| ()));
        self.change(|desk| desk.begin(stop));
        let holds_back = again.unstored.is_some();
        tokio::select! {
            biased;
            notice = line.stopped() => self.give_up(again,line, notice).await,
            () = wait(&mut self.desk, |desk| desk.is_closing() || desk.has_message() && !holds_back) => {
                self.again = Some(again);
            }
            // Deadline: what failed in passing is given time before it is tried again.
            () = sleep_until(again.due) => return Some(Next::Again(again)),
        }
        None
    }

    /// The person wants no more tries. The conversation says so, so that nobody takes them up later either. A turn that was
    /// cut off ends with what is stored of it.
    async fn give_up(&mut self, again: Again, line: SessionLine, notice: StopNotice) {
        self.change(Desk::work);
        if self.desk.borrow().is_closing() {
            self.again = Some(again);
            return;
        }
        if let Some(Unstored { text, .. }) = again.unstored {
            self.unsaid.push(text);
            return;
        }
        if let Ok(Some(Left::CutOff(recorded))) = self.refresh().await {
            let report = self.session.turn(Start::Resumed(*recorded), Arc::new(line)).await;
            if let Some(error) = report.error {
                tracing::warn!(%error, "a turn that was given up is taken up when the session is opened again");
            }
            return;
        }
        let remark = Message::text(Author::Assistant, broken_off(notice.reason));
        if let Err(error) = self.session.say(&remark, &[]).await {
            tracing::warn!(%error, "that a turn was given up could not be stored; it is taken up when the session is opened again");
        }
    }

    async fn said(&mut self, text: String) {
        self.again = None;
        let message = Message::text(Author::User, text.as_str());
        self.say(Unstored { text, message, rows: Vec::new() }, 0).await;
    }

    /// Says a message and lets it be answered. A turn that a failed write has cut off is finished before; as long as that
    /// fails the message waits.
    async fn say(&mut self, unsaid: Unstored, tries: u32) {
        match self.refresh().await {
            Ok(Some(Left::CutOff(recorded))) => {
                self.turn(Cause::Unanswered, Start::Resumed(*recorded), tries).await;
                self.again = None;
                if self.desk.borrow().is_shutting_down() {
                    return self.unsaid.push(unsaid.text);
                }
            }
            // What else is left is answered together with the message; a failure shows again when that is stored.
            Ok(Some(Left::Unanswered | Left::Nothing) | None) | Err(_) => {}
        }
        let Unstored { text, message, rows: before } = unsaid;
        let cause = if tries == 0 { Cause::User(text.clone()) } else { Cause::Unanswered };
        let rows = self.rows().await;
        let claims: Vec<ClaimId> = rows.iter().map(|row| row.claim.clone()).collect();
        let said: Vec<Message> = rows.iter().map(|row| &row.message).chain([&message]).cloned().collect();
        match self.session.say_all(&said, &claims).await {
            Ok(Stored::Now) => {
                self.came_in(rows);
                self.turn(cause, Start::Turn, tries).await;
            }
            Ok(Stored::Before(stored)) => {
                // They come with the next message.
                self.give_back(&rows).await;
                self.came_in(stored_among(before, &stored));
                self.turn(cause, Start::Turn, tries).await;
            }
            Err(error @ StoreError::Fenced(_)) => {
                self.give_back(&rows).await;
                self.unsaid.push(text);
                self.lost = Some(error);
            }
            Err(error) => {
                self.give_back(&rows).await;
                self.tell(SessionEvent::TurnBegan(cause));
                self.tell(SessionEvent::TurnEnded(Box::new(unstored(&error))));
                let is_old = |row: &Row| rows.iter().all(|new| new.message != row.message);
                let before: Vec<Row> = before.into_iter().filter(is_old).collect();
                let rows = before.into_iter().chain(rows).collect();
                self.schedule(tries + 1, Some(Unstored { text, message, rows }));
            }
        }
    }

    /// Stores a completion together with the end of its claim, and lets it be answered.
    async fn arrived(&mut self, Arrived { offer, reply }: Arrived) {
        if reply.is_closed() {
            return;
        }
        self.change(Desk::work);
        match self.refresh().await {
            Ok(Some(Left::CutOff(recorded))) => {
                drop(reply);
                return self.turn(Cause::Unanswered, Start::Resumed(*recorded), 0).await;
            }
            Ok(Some(Left::Unanswered | Left::Nothing) | None) => {}
            Err(error) => return self.tell_note(&format!("results wait: {error}")),
        }
        let written = match offer.notice {
            Some(task) => notice::write(&offer.record, offer.unit, task),
            None => arrivals::written(self.session.setup(), &offer.record, offer.unit).await,
        };
        let Some(Completion { title, text }) = written else {
            if reply.send(Receipt::Unfit).is_err() {
                tracing::debug!("a completion could not be written after its courier had gone");
            }
            return;
        };
        let message = Message::text(Author::Completion, text.as_str());
        let stored = self.session.say(&message, std::slice::from_ref(&offer.claim)).await;
        match &stored {
            Ok(Stored::Now) => {}
            Ok(Stored::Before(_)) => self.has_not_stored(&offer.claim).await,
            Err(error) => self.not_stored(&offer.claim, error).await,
        }
        if reply.send(Receipt::Accepted).is_err() {
            tracing::debug!("a completion was stored after its courier had gone");
        }
        if stored.is_ok() {
            let accepted = &offer.record.accepted;
            let unit = match offer.notice {
                Some(task) => accepted.children.get(task).map(UnitId::notice),
                None => accepted.units.get(offer.unit).map(|unit| unit.id.clone()),
            };
            let cause = unit.map_or(Cause::Unanswered, |unit| Cause::Completion { unit, title, text });
            self.turn(cause, Start::Turn, 0).await;
        }
    }

    /// A completion that could not be stored goes back. Whether it was stored after all is looked at after a while.
    async fn not_stored(&mut self, claim: &ClaimId, error: &StoreError) {
        self.has_not_stored(claim).await;
        match error {
            StoreError::Fenced(_) => self.lost = Some(error.clone()),
            StoreError::Locked(_)
            | StoreError::Full(_)
            | StoreError::ReadOnly(_)
            | StoreError::Corrupt(_)
            | StoreError::Gone(_)
            | StoreError::Newer { .. }
            | StoreError::Conflict(_)
            | StoreError::Io(_)
            | StoreError::Closed => {
                self.tell_note(&format!("results came back and could not be stored yet: {error}"));
                self.again = Again::after(1, self.session.setup().reach, None);
            }
        }
    }

    /// A completion's claim goes back. Where that fails its courier does it, which has it in hand until it is ended.
    async fn has_not_stored(&self, claim: &ClaimId) {
        if !arrivals::give_back(self.session.setup(), claim).await {
            tracing::debug!("the courier gives a completion's claim back");
        }
    }

    /// Tells of background processes that have ended, and lets it be answered. What cannot be stored yet is told later.
    async fn processes_ended(&mut self) {
        self.change(Desk::work);
        let left = match self.refresh().await {
            Ok(Some(Left::CutOff(recorded))) => {
                return self.turn(Cause::Unanswered, Start::Resumed(*recorded), 0).await;
            }
            Ok(left) => left.unwrap_or(Left::Nothing),
            Err(error) => return self.not_told(&error),
        };
        if self.telling.is_none() {
            self.telling = self.ends.as_ref().and_then(|ends| ends.telling(self.session.setup()));
        }
        let Some(telling) = self.telling.clone() else { return self.answer(left, 0).await };
        match self.session.say(&telling.message, &[]).await {
            Ok(Stored::Now | Stored::Before(_)) => {
                self.has_told();
                let (title, text) = (telling.title, telling.message.plain_text());
                self.turn(Cause::ProcessEnded { title, text }, Start::Turn, 0).await;
            }
            Err(error) => self.not_told(&error),
        }
    }

    /// Whether it was stored after all is looked at after a while.
    fn not_told(&mut self, error: &StoreError) {
        if let StoreError::Fenced(_) = error {
            self.lost = Some(error.clone());
            return;
        }
        self.tell_note(&format!("a background process has ended, which could not be stored yet: {error}"));
        self.again = Again::after(1, self.session.setup().reach, None);
    }

    fn has_told(&mut self) {
        if let (Some(ends), Some(telling)) = (&self.ends, self.telling.take()) {
            ends.told(&telling);
        }
    }

    /// Reads the session again if a write failed. What was told of processes may be found to be stored.
    async fn refresh(&mut self) -> Result<Option<Left>, StoreError> {
        let left = self.session.refresh().await?;
        if self.telling.as_ref().is_some_and(|telling| self.session.is_stored_already(&telling.message)) {
            self.has_told();
        }
        Ok(left)
    }

    async fn try_again(&mut self, again: Again) {
        let Again { tries, unstored, .. } = again;
        if let Some(unstored) = unstored {
            return self.say(unstored, tries).await;
        }
        match self.refresh().await {
            Ok(left) => self.answer(left.unwrap_or(Left::Unanswered), tries).await,
            Err(error @ StoreError::Fenced(_)) => self.lost = Some(error),
            Err(error) => {
                tracing::debug!(%error, "the session cannot be read yet");
                self.schedule(tries + 1, None);
            }
        }
    }

    async fn answer(&mut self, left: Left, tries: u32) {
        match left {
            Left::Nothing => {}
            Left::Unanswered => self.turn(Cause::Unanswered, Start::Turn, tries).await,
            Left::CutOff(recorded) => self.turn(Cause::Unanswered, Start::Resumed(*recorded), tries).await,
        }
    }

    async fn turn(&mut self, cause: Cause, start: Start, tries: u32) {
        if let Some((model, route)) = self.take_aim() {
            self.session.ask(model, route);
        }
        let (line, stop) = self.line();
        self.change(|desk| desk.begin(stop));
        self.tell(SessionEvent::TurnBegan(cause));
        let report = tokio::select! {
            biased;
            report = self.session.turn(start, Arc::new(line)) => report,
            // What is under way stays under way in the store, to be taken up by whoever opens the session next.
            () = wait(&mut self.desk, Desk::drops_turn) => Report::bare(Ending::Interrupted),
        };
        self.change(Desk::work);
        let may_pass = may_pass(&report);
        self.tell(SessionEvent::TurnEnded(Box::new(report)));
        if may_pass && !self.desk.borrow().is_closing() {
            self.schedule(tries + 1, None);
        }
    }

    fn schedule(&mut self, tries: u32, unstored: Option<Unstored>) {
        let text = unstored.as_ref().map(|unstored| unstored.text.clone());
        self.again = Again::after(tries, self.session.setup().reach, unstored);
        match &self.again {
            Some(_) => self.tell(SessionEvent::TryingAgain { pause: gap(tries), tries }),
            None => self.unsaid.extend(text),
        }
    }

    async fn leave(mut self) -> Farewell {
        self.offers.close();
        self.pay().await;
        let mut unsaid = std::mem::take(&mut self.unsaid);
        unsaid.extend(self.again.take().and_then(|again| again.unstored).map(|unstored| unstored.text));
        // On the desk, they can be had also by somebody who does not wait for the end.
        self.handle.shared.desk.send_modify(|desk| desk.give_back(unsaid));
        self.session.close().await;
        let mut unsaid = Vec::new();
        self.handle.shared.desk.send_modify(|desk| {
            desk.end();
            unsaid = desk.take_waiting();
        });
        Farewell { unsaid, lost: self.lost }
    }

    fn line(&self) -> (SessionLine, SessionStop) {
        let listener = Arc::clone(&self.listener);
        SessionLine::new(Box::new(move |event| listener(SessionEvent::from(event))))
    }

    fn rest(&mut self) {
        self.change(Desk::rest);
        if !std::mem::replace(&mut self.told_idle, true) {
            self.tell(SessionEvent::Idle);
        }
    }

    /// The next message, if one waits. An offer that came while nothing waited is answered as busy.
    fn take_message(&mut self) -> Option<String> {
        let mut taken = None;
        self.change(|desk| taken = desk.take_message());
        if taken.is_some() {
            while let Ok(arrived) = self.offers.try_recv() {
                drop(arrived);
            }
        }
        taken
    }

    fn take_aim(&mut self) -> Option<super::desk::Aim> {
        let mut aim = None;
        self.change(|desk| aim = desk.take_aim());
        aim
    }

    fn change(&self, change: impl FnOnce(&mut Desk)) {
        self.handle.shared.desk.send_modify(change);
    }

    pub(super) fn tell(&self, event: SessionEvent) {
        (self.listener)(event);
    }

    fn tell_note(&self, note: &str) {
        self.tell(SessionEvent::Told(LineEvent::Note(note.to_owned())));
    }
}

/// Waits until the end of a process is to be told; for ever where nobody is told.
async fn some_end(ends: Option<&Ends>) {
    match ends {
        Some(ends) => ends.wait().await,
        None => std::future::pending().await,
    }
}
