//! What was said to the agent while it worked, and what it has to hear of its processes: taken in before a model call, as one
//! message of its own.

use super::{Turn, Way};
use crate::excerpt::head_of;
use crate::journal::Said;
use legwork_core::message::{Author, Message};
use legwork_core::ports::Steer;
use legwork_core::pulse::LineEvent;
use legwork_core::step::{Action, Actor};

/// Stands before what was said to a child.
const TO_CHILD: &str = "[legwork: while you work, whoever gave you this task says this. It changes or adds to your task; \
                        go on from where you are.]";

/// Stands before what was said to the agent of a session.
const TO_SESSION: &str = "[legwork: while you work, the person who writes to you says this.]";

/// Why nothing came of it, where the agent answered nothing.
const NOTHING_SAID: &str = "it answered nothing to it";

/// Bytes of it that a note repeats.
const NOTE_BYTES_MAX: usize = 500;

impl Turn<'_> {
    /// Takes what was said since the last time. It stands in the context at once, and is told once it is stored.
    pub(super) fn hear(&mut self) -> Option<Said> {
        let site = &self.agent.site;
        let steers = site.line.steered();
        let mut parts = self.agent.toolbox.notices(&site.actor);
        let notes: Vec<String> = parts.iter().map(|notice| noted(notice)).collect();
        if !steers.is_empty() {
            let header = match site.actor {
                Actor::Child(_) => TO_CHILD,
                Actor::Session(_) => TO_SESSION,
            };
            let texts: Vec<&str> = steers.iter().map(|steer| steer.text.trim()).collect();
            let text = texts.join("\n");
            self.untold.push(LineEvent::Note(format!("was told: {}", head_of(&text, NOTE_BYTES_MAX))));
            parts.insert(0, format!("{header}\n\n{text}"));
        }
        if parts.is_empty() {
            return None;
        }
        self.untold.extend(notes.into_iter().map(LineEvent::Note));
        let message = Message::text(Author::User, parts.join("\n\n"));
        self.context.push(message.clone());
        let requests = steers.into_iter().map(|Steer { request, .. }| request).collect();
        Some(Said { action: Action::Steer { requests }, message })
    }
}

impl Turn<'_> {
    /// The end of a run that had answered before something was said to it, and whose answer to that came to nothing: then the
    /// answer before it is the answer, and the second value says why there is no other. A stop, a limit, and a store that takes
    /// no more, stay what they are.
    pub(super) fn after_being_told(&mut self, end: Result<(), Way>) -> (Result<(), Way>, Option<String>) {
        let Some(answered) = &self.answered else { return (end, None) };
        let why = match &end {
            Ok(()) if self.tally.is_blank => NOTHING_SAID.to_owned(),
            Ok(()) | Err(Way::Stopped(_) | Way::Exhausted(_) | Way::Store(_)) => return (end, None),
            Err(way @ (Way::Model(_) | Way::SameFailure(_) | Way::NoProgress(_) | Way::NoRoom(_))) => {
                let error = way.error(self.agent).unwrap_or_default();
                format!("what it was to do then failed: {error}")
            }
        };
        let remark = remark(&why);
        self.agent.site.line.tell(LineEvent::Note(remark.clone()));
        self.tally.take_back(answered);
        (Ok(()), Some(remark))
    }
}

/// What stands behind an answer after which something was said that has no answer.
pub(super) fn remark(why: &str) -> String {
    format!("[legwork: after this answer it was told something more, and {why}]")
}

/// An answer with what is said of it behind it.
pub(super) fn marked(answer: Option<String>, remark: Option<String>) -> Option<String> {
    match remark {
        Some(remark) => answer.map(|answer| format!("{}\n\n{remark}", answer.trim_end())),
        None => answer,
    }
}

/// A notice as a reader of the transcript sees it.
fn noted(notice: &str) -> String {
    let line = notice.lines().next().unwrap_or_default();
    line.trim_start_matches("[legwork: ").trim_end_matches(']').to_owned()
}
