//! A run that was cut off goes on from what its journal holds: what is stored is read, not done again
//! (docs/design/006-journal-two-commits-a-turn.md). Of tool calls that were under way, those that change nothing run
//! again, those that start work rejoin it, and the effect of all others is in doubt.

use super::call::{self, Batch};
use super::correction::Earlier;
use super::exchange::Exchange;
use super::{Agent, Turn, Way, words};
use crate::journal::{Next, OpenExchange, Recorded};
use legwork_core::ids::CallKey;
use legwork_core::message::ToolCall;
use legwork_core::ports::StoreError;
use legwork_core::step::{Action, Repeat, StepRecord};

impl Turn<'_> {
    /// Takes up what was recorded, and stores that it goes on.
    pub(super) async fn resume(&mut self, recorded: Recorded) -> Result<(), Way> {
        self.tally.resume(&recorded);
        let Recorded { exchange, unfinished, answer, corrected, answered, link, .. } = recorded;
        if let Some(link) = link {
            self.agent.model.take_up(&link);
            self.place = link.place;
        }
        self.corrected = corrected.as_ref().map(Earlier::of);
        self.answered = answered.as_ref().map(Earlier::of);
        if let Some(open) = exchange {
            return self.reopen(open, &unfinished).await;
        }
        let asking = unfinished.iter().any(|step| matches!(step.action, Action::Model));
        let next = match answer {
            Some(reply) => self.after_answer(&reply).await,
            None if asking => self.again(),
            None => self.onward(),
        };
        self.journal.failed(words::CRASHED, &next).await?;
        self.settled();
        Ok(())
    }

    /// A model call that was begun within the allowance may be made again, also when that is used up now.
    fn again(&mut self) -> Next {
        if let Some(notice) = self.stop.now() {
            return self.end(Way::Stopped(notice));
        }
        let mark = self.mark();
        let said = self.hear();
        self.fitting(said, mark)
    }

    /// Goes on with the calls of a reply.
    async fn reopen(&mut self, open: OpenExchange, unfinished: &[StepRecord]) -> Result<(), Way> {
        let OpenExchange { reply, results } = open;
        let mut calls = call::prepare(self.agent, &reply);
        calls.drain(..results.len().min(calls.len()));
        let rest = calls.split_off(unfinished.len().min(calls.len()));
        for (prepared, step) in calls.iter_mut().zip(unfinished) {
            match step.action.call() {
                Some((_, Repeat::InDoubt)) => prepared.doubt(),
                Some((_, Repeat::Harmless)) if has_started_work(self.agent, &prepared.call).await? => {
                    prepared.rejoin();
                }
                Some((_, Repeat::Harmless)) | None => {}
            }
        }
        let begun = (!calls.is_empty()).then_some(Batch { calls });
        let batches = begun.into_iter().chain(call::batches(rest)).collect();
        let exchange = Exchange { reply: reply.message, results, batches };
        if unfinished.is_empty() {
            let next = exchange.intent().unwrap_or(Next::End(None));
            self.journal.failed(words::CRASHED, &next).await?;
        }
        self.finish(exchange).await
    }
}

/// Whether a call was accepted as a delegation before. Its stored key tells, and not what today's settings make of it.
async fn has_started_work(agent: &Agent, call: &ToolCall) -> Result<bool, StoreError> {
    let caller = agent.site.actor.as_str().to_owned();
    let key = CallKey { caller, call: call.id.clone() };
    Ok(agent.facts.by_call_key(&key).await?.is_some())
}
