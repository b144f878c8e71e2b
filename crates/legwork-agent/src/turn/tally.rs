//! What is counted while a run goes on, and the report that it becomes.

use super::call::Done;
use super::correction::Earlier;
use super::{Agent, CUT_SHORT};
use crate::journal::Recorded;
use crate::models::Spent;
use legwork_core::message::Author;
use legwork_core::outcome::{Ending, FailureKind, Limit};
use legwork_core::report::{Cost, Report, TraceItem, Usage};
use legwork_core::step::{Finish, Repeat, Reply};
use std::collections::HashMap;

/// A final text that models give when they have none (ENTRY-4).
const GIVE_UP: &str = "(empty)";

/// Stands at the end of an answer that the provider's limit of output cut off.
const CUT: &str = "[cut off: the reply reached the provider's limit of output tokens]";

/// The counted facts of one run.
pub(super) struct Tally {
    model: String,
    pub(super) model_calls: u32,
    usage: Usage,
    cost: Cost,
    /// What calls took that came to nothing, and that no later reply has taken over.
    pub(super) in_vain: Spent,
    trace: Vec<TraceItem>,
    in_doubt: Vec<TraceItem>,
    /// The last text of this run that says something.
    text: Option<String>,
    /// Whether the last reply says nothing.
    pub(super) is_blank: bool,
    /// The text so far of a reply that is not whole.
    pub(super) unfinished: String,
    /// Why the last reply ended.
    pub(super) finish: Finish,
    pub(super) failures: Failures,
}

impl Tally {
    pub(super) fn new(agent: &Agent) -> Self {
        Tally::of(agent.model.facts().name, agent.limits.same_failure_max)
    }

    /// The same for a run that goes on no more.
    pub(super) fn of(model: String, same_failure_max: u32) -> Self {
        Tally {
            model,
            model_calls: 0,
            usage: Usage::default(),
            cost: Cost::Unknown,
            in_vain: Spent::default(),
            trace: Vec::new(),
            in_doubt: Vec::new(),
            text: None,
            is_blank: true,
            unfinished: String::new(),
            finish: Finish::Stop,
            failures: Failures::new(same_failure_max),
        }
    }

    /// Goes on counting from what was recorded.
    pub(super) fn resume(&mut self, recorded: &Recorded) {
        self.model_calls = recorded.model_calls;
        self.usage = recorded.usage;
        self.cost = recorded.cost;
        self.trace.clone_from(&recorded.trace);
        self.in_doubt.clone_from(&recorded.in_doubt);
        if let Some(model) = &recorded.model {
            self.model.clone_from(model);
        }
        let replies = recorded.messages.iter().filter(|message| message.author == Author::Assistant);
        for text in replies.map(|message| message.plain_text()) {
            self.said(text);
        }
        if let Some(open) = &recorded.exchange {
            self.said(open.reply.message.plain_text());
        }
        if let Some(answer) = &recorded.answer {
            self.said(answer.message.plain_text());
            self.finish = answer.finish;
        }
    }

    /// Counts a whole reply, once (invariant 28).
    pub(super) fn replied(&mut self, reply: &Reply) {
        self.unfinished = String::new();
        self.finish = reply.finish;
        self.usage += reply.usage;
        self.cost = self.cost.plus(reply.cost);
        if let Some(model) = &reply.model {
            self.model.clone_from(model);
        }
        self.said(reply.message.plain_text());
    }

    /// Has a reply take over what was spent in vain before it, so that it is stored with that.
    pub(super) fn charge(&mut self, reply: &mut Reply) {
        let Spent { usage, cost } = std::mem::take(&mut self.in_vain);
        reply.usage += usage;
        reply.cost = reply.cost.plus(cost);
    }

    /// An earlier answer stands, since none came after it.
    pub(super) fn take_back(&mut self, earlier: &Earlier) {
        self.unfinished = String::new();
        self.finish = earlier.finish;
        self.said(earlier.text.clone());
    }

    /// Counts what a summary took; it is no model call of the allowance.
    pub(super) fn summarised(&mut self, usage: Usage, cost: Cost) {
        self.usage += usage;
        self.cost = self.cost.plus(cost);
    }

    fn said(&mut self, text: String) {
        self.is_blank = is_blank(&text);
        if !self.is_blank {
            self.text = Some(text);
        }
    }

    /// Counts a tool call that has ended, and warns the model that goes round in a circle.
    pub(super) fn called(&mut self, done: &mut Done) {
        self.trace.push(done.trace.clone());
        if done.in_doubt {
            self.in_doubt.push(done.trace.clone());
        }
        if let Some(warning) = done.failure.take().and_then(|failure| self.failures.note(failure)) {
            done.result.content.push_str(&warning);
        }
    }

    /// Counts a tool call that a stop cut off.
    pub(super) fn cut_off(&mut self, trace: TraceItem, repeat: Repeat) {
        match repeat {
            Repeat::InDoubt => self.in_doubt.push(trace.clone()),
            Repeat::Harmless => {}
        }
        self.trace.push(trace);
    }

    /// The last text that the model really wrote: that of the reply which was cut off, or of the last stored one.
    pub(super) fn last_text(&self) -> Option<String> {
        if is_blank(&self.unfinished) { self.text.clone() } else { Some(self.unfinished.clone()) }
    }

    /// The answer of a run that ended with one. One that was cut off is still an answer, and never stands without its
    /// mark: no limit of the run was reached, and to ask once more is up to whoever reads it.
    pub(super) fn answer(&self) -> Option<String> {
        let text = self.last_text()?;
        Some(match self.finish {
            Finish::Length => format!("{}\n\n{CUT}", text.trim_end()),
            Finish::Stop | Finish::ToolUse => text,
        })
    }

    /// How a run has ended whose last reply came whole and without calls.
    pub(super) fn with_answer(&self) -> (Ending, Option<String>) {
        if self.is_blank {
            return (Ending::Failed(FailureKind::EmptyAnswer), Some(self.why_blank()));
        }
        match self.finish {
            Finish::Length => (Ending::CutShort(Limit::Output), Some(CUT_SHORT.to_owned())),
            Finish::Stop | Finish::ToolUse => (Ending::Answered, None),
        }
    }

    /// Why a run ended with a reply that says nothing.
    fn why_blank(&self) -> String {
        match self.finish {
            Finish::Length => {
                "the model said nothing before it reached the provider's limit of output tokens"
            }
            Finish::Stop | Finish::ToolUse => "the model ended with a blank answer",
        }
        .to_owned()
    }

    /// The report of a run that ended like this.
    pub(super) fn into_report(mut self, ending: Ending) -> Report {
        self.usage += self.in_vain.usage;
        self.cost = self.cost.plus(self.in_vain.cost);
        Report {
            model: Some(self.model),
            model_calls: self.model_calls,
            usage: self.usage,
            cost: self.cost,
            tool_trace: self.trace,
            in_doubt: self.in_doubt,
            ..Report::bare(ending)
        }
    }
}

/// Whether a text says nothing.
pub(super) fn is_blank(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text == GIVE_UP
}

/// Calls that fail in the same way reply after reply: a model that repeats them goes round in a circle (K23).
pub(super) struct Failures {
    /// In how many replies in a row the same call may fail in the same way.
    times_max: u32,
    /// Failures of the replies before, and in how many replies in a row each of them came.
    earlier: HashMap<String, u32>,
    /// Failures of the reply at hand; one that comes twice in a reply counts once.
    current: HashMap<String, u32>,
}

impl Failures {
    fn new(times_max: u32) -> Self {
        Failures { times_max, earlier: HashMap::new(), current: HashMap::new() }
    }

    /// Counts a failure, and gives a warning when it must not come once more.
    fn note(&mut self, failure: String) -> Option<String> {
        let times = self.earlier.get(&failure).copied().unwrap_or(0) + 1;
        self.current.insert(failure, times);
        (times + 1 == self.times_max).then(|| {
            format!("\n[this call failed in the same way {times} times in a row; once more ends the run, so do something else]")
        })
    }

    /// Closes a reply, and names a failure that has come too often.
    pub(super) fn end_of_reply(&mut self) -> Option<String> {
        self.earlier = std::mem::take(&mut self.current);
        let repeated = self.earlier.iter().find(|(_, times)| **times >= self.times_max)?;
        Some(repeated.0.clone())
    }
}
