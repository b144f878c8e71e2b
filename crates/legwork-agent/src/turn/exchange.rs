//! One reply with calls: they are carried out group after group, and their results become one message. When a stop cuts
//! them off, every call still gets a result, and all of it is stored in one commit.

use super::call::{self, Batch, Done, Prepared};
use super::{Agent, Turn, Way, words};
use crate::journal::{Ended, Next, Outputs};
use crate::tools::Effect;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use legwork_core::batch::Reach;
use legwork_core::message::{Author, Message, Part, ToolCall, ToolResult};
use legwork_core::outcome::StopReason;
use legwork_core::ports::StopNotice;
use legwork_core::pulse::LineEvent;
use legwork_core::report::TraceItem;
use legwork_core::step::Reply;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a stopped turn of a session waits for the ends of subagents that it waited for.
const ENDS_MAX: Duration = Duration::from_secs(10);
/// No process has more time for its end (`delegation.stop_grace_ms`). The engine drops the turn when its own is over.
const GRACE_MAX: Duration = Duration::from_secs(3600);

/// A reply, the results of its first calls, and the calls that are to come.
pub(super) struct Exchange {
    pub(super) reply: Message,
    pub(super) results: Vec<ToolResult>,
    pub(super) batches: VecDeque<Batch>,
}

/// How the calls of a group ended.
struct Ran {
    /// In the order of the calls; absent for those that a stop came before or cut off.
    done: Vec<Option<Done>>,
    /// Which of them had begun.
    begun: Vec<bool>,
    /// The stop, if one came before all had ended.
    stopped: Option<StopNotice>,
}

impl Exchange {
    /// The intent to run the next group.
    pub(super) fn intent(&self) -> Option<Next> {
        self.batches.front().map(Batch::intent)
    }

    /// The calls whose turn does not come any more, with their results.
    fn given_up(&mut self, reason: StopReason) -> Outputs {
        let calls = self.batches.drain(..).flat_map(|batch| batch.calls);
        let never = calls.map(|prepared| (prepared.action(), words::never_begun(&prepared.call, reason)));
        Outputs { never_begun: never.collect(), ..Outputs::default() }
    }
}

/// Whether the calls of a turn still bring what their subagents have done when a stop comes (DISP-7): those of a session that
/// can be told later and waits all the same. A child that is stopped has its own grace for its own end, and a process
/// that ends waits for nothing.
fn brings_ends(agent: &Agent, batch: &Batch, notice: StopNotice) -> bool {
    let rejoins = batch.calls.iter().any(|call| call.effect() == Effect::Rejoins);
    let waits = agent.site.lineage.depth == 0 && agent.site.reach != Reach::Joined;
    rejoins && waits && notice.reason != StopReason::Shutdown
}

fn is_harmless(batch: &Batch) -> bool {
    batch.calls.iter().all(|prepared| prepared.effect() != Effect::Changes)
}

/// Whether what runs may come to its end although a stop came, and nothing more begins: what belongs to a process that is told to
/// end goes on elsewhere or later, and has until it is dropped.
pub(super) fn lets_finish(notice: StopNotice) -> bool {
    notice.reason == StopReason::Shutdown
}

/// Whether calls that a shutdown cut off stay begun in the journal: whoever goes on makes those again that change nothing, and
/// rejoins what others had started.
fn is_left_open(batch: &Batch, notice: StopNotice) -> bool {
    lets_finish(notice) && is_harmless(batch)
}

impl Turn<'_> {
    /// Stores a reply with calls and carries them out.
    pub(super) async fn carry_out(&mut self, reply: Reply) -> Result<(), Way> {
        let batches = call::batches(call::prepare(self.agent, &reply)).into();
        let exchange = Exchange { reply: reply.message.clone(), results: Vec::new(), batches };
        if let Some(notice) = self.stop.now().filter(|notice| lets_finish(*notice)) {
            self.accept(reply, &Next::End(None)).await?;
            return Err(Way::Stopped(notice));
        }
        let next = exchange.intent().unwrap_or(Next::End(None));
        self.accept(reply, &next).await?;
        self.finish(exchange).await
    }

    /// Runs the groups of an exchange whose first one is begun in the journal.
    pub(super) async fn finish(&mut self, mut exchange: Exchange) -> Result<(), Way> {
        while let Some(batch) = exchange.batches.pop_front() {
            let ran = self.run_batch(&batch).await;
            let stopped = ran.stopped;
            if let Some(notice) = stopped.filter(|notice| is_left_open(&batch, *notice)) {
                return Err(Way::Stopped(notice));
            }
            let ending = stopped.filter(|notice| lets_finish(*notice));
            let mut outputs = match stopped {
                Some(notice) if ending.is_none() => exchange.given_up(notice.reason),
                Some(_) | None => Outputs::default(),
            };
            self.collect(&batch, ran, &mut outputs);
            let ended = outputs.ended.iter().map(Ended::result);
            let all = ended.chain(outputs.never_begun.iter().map(|(_, result)| result));
            exchange.results.extend(all.cloned());
            if let Some(notice) = ending.filter(|_| !exchange.batches.is_empty()) {
                // The other calls are for whoever goes on.
                self.journal.ran(outputs, &Next::End(None)).await?;
                self.settled();
                return Err(Way::Stopped(notice));
            }
            let next = exchange.intent().unwrap_or_else(|| self.close(&mut exchange, stopped));
            self.journal.ran(outputs, &next).await?;
            self.settled();
        }
        Ok(())
    }

    /// All calls of the reply have results: both become part of the context.
    fn close(&mut self, exchange: &mut Exchange, stopped: Option<StopNotice>) -> Next {
        let parts = std::mem::take(&mut exchange.results).into_iter().map(Part::Result).collect();
        self.context.push(exchange.reply.clone());
        self.context.push(Message { author: Author::Tool, parts });
        if let Some(notice) = stopped {
            return self.end(Way::Stopped(notice));
        }
        match self.tally.failures.end_of_reply() {
            Some(failure) => self.end(Way::SameFailure(failure)),
            None => self.onward(),
        }
    }

    /// Runs calls side by side. A stop drops those that run, unless they may come to their end; when all have ended their
    /// results are kept, whatever came meanwhile.
    async fn run_batch(&mut self, batch: &Batch) -> Ran {
        let agent = self.agent;
        let mut done: Vec<Option<Done>> = batch.calls.iter().map(|_| None).collect();
        let begun: Vec<AtomicBool> = batch.calls.iter().map(|_| AtomicBool::new(false)).collect();
        let closed = AtomicBool::new(false);
        let mut calls = Vec::with_capacity(batch.calls.len());
        for (index, prepared) in batch.calls.iter().enumerate() {
            calls.push(run(agent, prepared, Place { index, begun: &begun[index], closed: &closed }));
        }
        let side_by_side_max = agent.limits.side_by_side_max.max(1);
        let mut running = stream::iter(calls).buffer_unordered(side_by_side_max);
        let mut stopped = None;
        // Deadline: a stop does not wait for ever for the ends that it is brought; see the constant.
        let patience = sleep(ENDS_MAX);
        tokio::pin!(patience);
        loop {
            let (index, ended) = tokio::select! {
                biased;
                notice = self.stop.heard(), if stopped.is_none() => {
                    stopped = Some(notice);
                    let ends = lets_finish(notice) && !is_harmless(batch);
                    // Calls of which none has begun are begun in the journal all the same: they come to their end, or whoever
                    // goes on would have to doubt them.
                    let any = begun.iter().any(|begun| begun.load(Ordering::Relaxed));
                    closed.store(ends && any, Ordering::Relaxed);
                    let grace = match ends {
                        true => GRACE_MAX,
                        false if brings_ends(agent, batch, notice) => ENDS_MAX,
                        false => break,
                    };
                    // Deadline: what the turn waited for was told to end, or is cut off from outside after the grace.
                    patience.as_mut().reset(Instant::now() + grace);
                    continue;
                }
                () = &mut patience, if stopped.is_some() => break,
                next = running.next() => match next {
                    Some(ended) => ended,
                    None => break,
                },
            };
            done[index] = Some(ended);
            let never_begins =
                |index: usize| closed.load(Ordering::Relaxed) && !begun[index].load(Ordering::Relaxed);
            if done.iter().enumerate().all(|(index, done)| done.is_some() || never_begins(index)) {
                break;
            }
        }
        drop(running);
        Ran { done, begun: begun.into_iter().map(AtomicBool::into_inner).collect(), stopped }
    }

    /// Counts what the calls of a group brought, in their order, and makes results of it.
    fn collect(&mut self, batch: &Batch, ran: Ran, outputs: &mut Outputs) {
        let reason = ran.stopped.map_or(StopReason::Cancelled, |notice| notice.reason);
        for ((prepared, done), begun) in batch.calls.iter().zip(ran.done).zip(ran.begun) {
            let ended = match done {
                Some(mut done) => {
                    self.tally.called(&mut done);
                    outputs.acknowledge.append(&mut done.acknowledge);
                    if done.in_doubt { Ended::CutOff(done.result) } else { Ended::Output(done.result) }
                }
                None if begun => {
                    let result = words::cut_off(&prepared.call, prepared.effect(), reason);
                    self.cut_off(&prepared.call, prepared.effect(), &result);
                    Ended::CutOff(result)
                }
                None => Ended::Output(words::never_begun(&prepared.call, reason)),
            };
            outputs.ended.push(ended);
        }
    }

    fn cut_off(&mut self, call: &ToolCall, effect: Effect, result: &ToolResult) {
        self.tally.cut_off(TraceItem::of(call, result), effect.repeat());
        let (id, tool, result) = (call.id.clone(), call.name.clone(), result.content.clone());
        self.untold.push(LineEvent::ToolEnded { call: id, tool, result, is_error: true, took_ms: 0 });
    }
}

/// The place of a call in its group.
struct Place<'a> {
    index: usize,
    /// The call notes here that it has begun.
    begun: &'a AtomicBool,
    /// Nothing more of the group begins.
    closed: &'a AtomicBool,
}

/// One call of a group.
fn run<'a>(agent: &'a Agent, prepared: &'a Prepared, place: Place<'a>) -> BoxFuture<'a, (usize, Done)> {
    Box::pin(async move {
        if place.closed.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        place.begun.store(true, Ordering::Relaxed);
        (place.index, prepared.run(agent).await)
    })
}
