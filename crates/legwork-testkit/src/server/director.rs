//! Which reply a request gets: script by marker, step by the conversation, attempt by how often that step was asked.
//!
//! It remembers only the attempts; everything else follows from the request itself.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::conversation::Conversation;
use super::reply::{Reply, Step};
use super::script::{Plot, Script, Scripts};
use super::strict::{Rule, Violation};

/// The reply chosen for a request, and where in the scripts it stands.
#[derive(Debug)]
pub(super) struct Cue {
    pub agent: Option<String>,
    pub step: usize,
    pub attempt: usize,
    /// What to play, or why the scripts have nothing for this request.
    pub reply: Result<Reply, Violation>,
}

/// Chooses replies.
pub(super) struct Director {
    scripts: Scripts,
    /// How often each step was asked for. Conversations with the same first user message count together.
    attempts: HashMap<(String, usize), usize>,
}

impl Director {
    pub(super) fn new(scripts: Scripts) -> Self {
        Self { scripts, attempts: HashMap::new() }
    }

    /// Chooses the reply to a legal request and counts the attempt.
    pub(super) fn choose(&mut self, conversation: &Conversation) -> Cue {
        let step = conversation.step();
        let first_user_text = conversation.first_user_text();
        let (marker, script) = self.scripts.find(first_user_text);
        let agent = marker.map(str::to_owned);
        let written = written_step(script, conversation, step);
        let asked = self.attempts.entry((first_user_text.to_owned(), step)).or_default();
        let attempt = *asked;
        *asked += 1;
        let reply = written.map(|written| nth_attempt(written, attempt));
        Cue { agent, step, attempt, reply }
    }

    /// Says where an illegal request stands in the scripts, without counting an attempt.
    pub(super) fn refuse(&self, conversation: &Conversation, violation: Violation) -> Cue {
        let (marker, _) = self.scripts.find(conversation.first_user_text());
        let agent = marker.map(str::to_owned);
        Cue { agent, step: conversation.step(), attempt: 0, reply: Err(violation) }
    }
}

fn written_step(script: &Script, conversation: &Conversation, step: usize) -> Result<Step, Violation> {
    match &script.plot {
        Plot::Steps(steps) => steps.get(step).cloned().ok_or_else(|| {
            let message = format!(
                "the script has {} steps, but step {step} (counted from 0) was asked for",
                steps.len()
            );
            Violation::new(Rule::Unscripted, "messages", message)
        }),
        Plot::Author(author) => catch_unwind(AssertUnwindSafe(|| author(conversation))).map_err(|panic| {
            let message = format!("the script's function panicked: {}", panic_text(panic.as_ref()));
            Violation::new(Rule::Unscripted, "messages", message)
        }),
    }
}

fn nth_attempt(step: Step, attempt: usize) -> Reply {
    let last = step.attempts.len() - 1;
    let mut attempts = step.attempts;
    attempts.swap_remove(attempt.min(last))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
