//! The way of events from a conversation to its terminal. The conversation never waits for the terminal: pieces of text that
//! nobody has shown yet are joined, and when far too much waits, what is only for the eye is dropped and counted.

use std::sync::{Mutex, PoisonError};

use legwork_agent::session::SessionEvent;
use legwork_core::pulse::LineEvent;
use tokio::sync::Notify;

/// Events that may wait. Those that say where a turn stands are taken above it, too: they are few.
const EVENTS_MAX: usize = 4096;
/// Bytes of text that may wait as one event.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Events that wait to be shown.
#[derive(Debug, Default)]
pub struct Feed {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    events: Vec<SessionEvent>,
    lost: usize,
}

impl Feed {
    /// Takes an event in. It returns at once.
    pub fn tell(&self, event: SessionEvent) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take(event);
        self.news.notify_one();
    }

    /// Whether everything that was told was taken.
    pub fn is_empty(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).events.is_empty()
    }

    /// What happened since the last time; waits until something did. Dropping the future loses nothing.
    pub async fn next(&self) -> Vec<SessionEvent> {
        loop {
            let events = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).give();
            if !events.is_empty() {
                return events;
            }
            self.news.notified().await;
        }
    }
}

impl Waiting {
    fn take(&mut self, event: SessionEvent) {
        let is_full = self.events.len() >= EVENTS_MAX;
        match (event, self.events.last_mut()) {
            (SessionEvent::Told(LineEvent::Text(more)), Some(SessionEvent::Told(LineEvent::Text(text))))
                if text.len() < TEXT_BYTES_MAX =>
            {
                text.push_str(&more);
            }
            // What is thought is not shown, only that something is.
            (
                SessionEvent::Told(LineEvent::Thinking(_)),
                Some(SessionEvent::Told(LineEvent::Thinking(_))),
            )
            | (SessionEvent::Told(LineEvent::ToolMoved), _) => {}
            (SessionEvent::Told(_), _) if is_full => self.lost += 1,
            (event, _) => self.events.push(event),
        }
    }

    fn give(&mut self) -> Vec<SessionEvent> {
        let mut events = std::mem::take(&mut self.events);
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            let note = format!("{lost} things that happened are not shown: the terminal was too slow");
            events.push(SessionEvent::Told(LineEvent::Note(note)));
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> SessionEvent {
        SessionEvent::Told(LineEvent::Text(text.to_owned()))
    }

    #[tokio::test]
    async fn k39_text_is_joined_and_the_end_of_a_turn_is_never_lost() {
        let feed = Feed::default();
        feed.tell(text("a"));
        feed.tell(text("b"));
        feed.tell(SessionEvent::Told(LineEvent::ModelCalled));
        feed.tell(text("c"));
        let called = SessionEvent::Told(LineEvent::ModelCalled);
        assert_eq!(feed.next().await, [text("ab"), called.clone(), text("c")]);
        for _ in 0..EVENTS_MAX + 5 {
            feed.tell(called.clone());
        }
        feed.tell(SessionEvent::Idle);
        let events = feed.next().await;
        assert_eq!(events.len(), EVENTS_MAX + 2);
        assert_eq!(events[EVENTS_MAX], SessionEvent::Idle);
        let SessionEvent::Told(LineEvent::Note(note)) = &events[EVENTS_MAX + 1] else { panic!("no note") };
        assert!(note.starts_with("5 things"), "{note}");
    }
}
