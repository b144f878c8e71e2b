//! What hosts receive of running children: events named `subagent.…`, each with the identity of its child (EVTC-1 to EVTC-8).
//! A front door that speaks to a host folds what it watches through a [`Relay`] of its own and writes what comes out in its own
//! form.
//!
//! It decides nothing and remembers only what belongs to children that run. Texts are cut and nothing is masked here: who
//! sends them to another machine masks them.

use crate::ids::{ChildId, DelegationId};
use crate::outcome::{Outcome, WireStatus};
use crate::ports::{EndFacts, Identity, LiveEvent};
use crate::pulse::LineEvent;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// Children that are remembered at once. Beyond that the one that was silent for longest is forgotten: the end of it was
/// lost, most likely, when the watcher was too slow. One that goes on all the same is counted from the beginning.
const RUNNING_MAX: usize = 1024;
/// Characters of a goal and of a thought.
const GOAL_CHARS_MAX: usize = 55;
/// Characters of a tool's arguments.
const ARGUMENTS_CHARS_MAX: usize = 35;
/// Names of tools that go out together.
const TOOLS_TOGETHER: usize = 5;
/// Characters of an answer, in short and at more length.
const PREVIEW_CHARS_MAX: usize = 160;
const SUMMARY_CHARS_MAX: usize = 500;
/// Results that an end shows, and characters of each.
const OUTPUTS_MAX: usize = 8;
const OUTPUT_CHARS_MAX: usize = 600;
/// What some models write around their thoughts.
const TAGS: [&str; 8] = [
    "<think>",
    "</think>",
    "<thinking>",
    "</thinking>",
    "<scratchpad>",
    "</scratchpad>",
    "<reasoning>",
    "</reasoning>",
];

/// Turns live events into what a host receives.
#[derive(Debug, Default)]
pub struct Relay {
    running: HashMap<ChildId, Course>,
    /// How often something was heard of a child.
    heard: u64,
}

/// What is remembered of a child that runs.
#[derive(Debug, Default)]
struct Course {
    /// When something was heard of it last, in the count of the relay.
    heard: u64,
    tool_count: u32,
    /// Names of tools that did not go out yet.
    tools: Vec<String>,
    outputs: VecDeque<Output>,
}

/// One event for a host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostEvent {
    /// Which child it is about.
    #[serde(flatten)]
    pub who: Who,
    /// What happened.
    #[serde(flatten)]
    pub news: News,
}

/// The identity of a child (EVTC-2).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Who {
    /// Its task's position in the call.
    pub task_index: usize,
    /// How many tasks the call has.
    pub task_count: usize,
    /// The beginning of its goal.
    pub goal: String,
    /// Its id.
    pub subagent_id: ChildId,
    /// The child that delegated to it.
    pub parent_id: Option<ChildId>,
    /// How many children are above it, and one.
    pub depth: u32,
    /// The model it was given.
    pub model: String,
    /// The tools it may call.
    pub toolsets: BTreeSet<String>,
    /// Under which id its conversation is stored.
    pub child_session_id: ChildId,
    /// Its delegation.
    pub delegation_id: DelegationId,
    /// Tool calls that it has begun so far.
    pub tool_count: u32,
}

/// What happened to a child. The set is closed: what a host need not hear has no name.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum News {
    /// It exists and waits for its turn.
    #[serde(rename = "subagent.spawn_requested")]
    SpawnRequested,
    /// Its run began.
    #[serde(rename = "subagent.start")]
    Start,
    /// A piece of a reply.
    #[serde(rename = "subagent.text")]
    Text {
        /// The piece, as it came.
        text: String,
    },
    /// It thinks.
    #[serde(rename = "subagent.thinking")]
    Thinking {
        /// The beginning of the piece.
        text: String,
    },
    /// A tool call began.
    #[serde(rename = "subagent.tool")]
    Tool {
        /// The tool.
        tool: String,
        /// The beginning of its arguments.
        preview: String,
    },
    /// Several tool calls have begun.
    #[serde(rename = "subagent.progress")]
    Progress {
        /// The tools, in order.
        tools: Vec<String>,
    },
    /// It has ended.
    #[serde(rename = "subagent.complete")]
    Complete(Box<Complete>),
}

/// What was counted of a child that has ended (EVTC-8). A client must not count on any of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Complete {
    /// The beginning of its answer, or of what went wrong.
    pub preview: String,
    /// How it ended.
    pub status: WireStatus,
    /// How long it ran.
    pub duration_seconds: f64,
    /// More of its answer.
    pub summary: Option<String>,
    /// Tokens of its prompts.
    pub input_tokens: u64,
    /// Tokens of its replies.
    pub output_tokens: u64,
    /// Of those, tokens of reasoning.
    pub reasoning_tokens: u64,
    /// Model calls made.
    pub api_calls: u32,
    /// Files that it read.
    pub files_read: Vec<String>,
    /// Files that it wrote.
    pub files_written: Vec<String>,
    /// Its last tool calls.
    pub output_tail: Vec<Output>,
    /// The class of a provider's failure.
    pub failure_reason: Option<&'static str>,
    /// US dollars, zero when unknown.
    pub cost_usd: f64,
}

/// What came of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Output {
    /// The tool.
    pub tool: String,
    /// The beginning of its result.
    pub preview: String,
    /// Whether it said that it failed.
    pub is_error: bool,
}

impl Relay {
    /// What a host is to receive of an event, in order.
    pub fn take(&mut self, event: &LiveEvent) -> Vec<HostEvent> {
        match event {
            LiveEvent::Queued(child) => self.told(child, [News::SpawnRequested]),
            LiveEvent::Started { child, attempt: _ } => {
                self.running.remove(&child.child);
                self.course(&child.child);
                self.told(child, [News::Start])
            }
            LiveEvent::Told { child, event } => {
                let news = self.course(&child.child).take(event);
                self.told(child, news)
            }
            LiveEvent::Settled { child, outcome, elapsed, facts, ends_unit: _ } => {
                let course = self.course(&child.child);
                let mut news = course.flush();
                let outputs = std::mem::take(&mut course.outputs);
                news.push(News::Complete(Box::new(Complete::of(*outcome, *elapsed, facts, outputs))));
                let told = self.told(child, news);
                self.running.remove(&child.child);
                told
            }
            LiveEvent::Lagged(_) => Vec::new(),
        }
    }

    fn course(&mut self, child: &ChildId) -> &mut Course {
        self.heard += 1;
        if self.running.len() >= RUNNING_MAX && !self.running.contains_key(child) {
            let silent = self.running.iter().min_by_key(|(_, course)| course.heard);
            let silent = silent.map(|(child, _)| child.clone());
            silent.map(|child| self.running.remove(&child));
        }
        let course = self.running.entry(child.clone()).or_default();
        course.heard = self.heard;
        course
    }

    fn told(&self, child: &Identity, news: impl IntoIterator<Item = News>) -> Vec<HostEvent> {
        let tool_count = self.running.get(&child.child).map_or(0, |course| course.tool_count);
        let event = |news| HostEvent { who: Who::of(child, tool_count), news };
        news.into_iter().map(event).collect()
    }
}

impl Course {
    fn take(&mut self, event: &LineEvent) -> Vec<News> {
        match event {
            LineEvent::Text(text) => vec![News::Text { text: text.clone() }],
            LineEvent::Thinking(text) => thought(text).into_iter().collect(),
            LineEvent::ToolStarted { tool, arguments, .. } => {
                self.tool_count += 1;
                self.tools.push(tool.clone());
                let preview = clipped(arguments, ARGUMENTS_CHARS_MAX);
                let mut news = vec![News::Tool { tool: tool.clone(), preview }];
                if self.tools.len() == TOOLS_TOGETHER {
                    news.extend(self.flush());
                }
                news
            }
            LineEvent::ToolEnded { tool, result, is_error, .. } => {
                if self.outputs.len() == OUTPUTS_MAX {
                    self.outputs.pop_front();
                }
                let preview = clipped(result, OUTPUT_CHARS_MAX);
                self.outputs.push_back(Output { tool: tool.clone(), preview, is_error: *is_error });
                Vec::new()
            }
            LineEvent::ModelCalled
            | LineEvent::Replied { .. }
            | LineEvent::Retrying { .. }
            | LineEvent::ToolMoved
            | LineEvent::Compacted { .. }
            | LineEvent::Note(_) => Vec::new(),
        }
    }

    /// The names that did not go out yet.
    fn flush(&mut self) -> Vec<News> {
        match std::mem::take(&mut self.tools) {
            tools if tools.is_empty() => Vec::new(),
            tools => vec![News::Progress { tools }],
        }
    }
}

impl Who {
    fn of(child: &Identity, tool_count: u32) -> Who {
        Who {
            task_index: child.task_index,
            task_count: child.task_count,
            goal: clipped(&child.goal, GOAL_CHARS_MAX),
            subagent_id: child.child.clone(),
            parent_id: child.parent.clone(),
            depth: child.depth,
            model: child.model.clone(),
            toolsets: child.tools.clone(),
            child_session_id: child.child.clone(),
            delegation_id: child.delegation.clone(),
            tool_count,
        }
    }
}

impl Complete {
    fn of(outcome: Outcome, elapsed: Duration, facts: &EndFacts, outputs: VecDeque<Output>) -> Complete {
        let said = facts.answer.as_deref().or(facts.error.as_deref()).unwrap_or_default();
        Complete {
            preview: clipped(said, PREVIEW_CHARS_MAX),
            status: outcome.status(),
            duration_seconds: (elapsed.as_secs_f64() * 100.0).round() / 100.0,
            summary: facts.answer.as_deref().map(|answer| clipped(answer, SUMMARY_CHARS_MAX)),
            input_tokens: facts.usage.input,
            output_tokens: facts.usage.output,
            reasoning_tokens: facts.usage.reasoning,
            api_calls: facts.model_calls,
            files_read: facts.files_read.clone(),
            files_written: facts.files_written.clone(),
            output_tail: outputs.into(),
            failure_reason: facts.failure_reason.map(|reason| reason.as_str()),
            cost_usd: facts.cost.usd(),
        }
    }
}

fn thought(text: &str) -> Option<News> {
    let bare = TAGS.iter().fold(text.to_owned(), |text, tag| text.replace(tag, ""));
    let text = clipped(bare.trim(), GOAL_CHARS_MAX);
    (!text.is_empty()).then_some(News::Thinking { text })
}

/// At most so many characters; what is cut is marked.
fn clipped(text: &str, chars_max: usize) -> String {
    let mut chars = text.chars();
    let mut clipped: String = chars.by_ref().take(chars_max).collect();
    if chars.next().is_some() {
        clipped.pop();
        clipped.push('…');
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{SessionId, UnitId};
    use crate::outcome::FailureKind;
    use crate::report::{Cost, FailureReason, Usage};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn child(task_index: usize, task_count: usize) -> Arc<Identity> {
        let delegation = DelegationId::from_bits(1);
        Arc::new(Identity {
            unit: UnitId::whole(&delegation),
            delegation,
            session: SessionId::from_bits(1),
            parent: Some(ChildId::from_bits(0, 9)),
            child: ChildId::from_bits(task_index, 7),
            depth: 2,
            task_index,
            task_count,
            unit_count: task_count,
            goal: "g".repeat(80),
            model: "fake/model".to_owned(),
            tools: ["look".to_owned()].into(),
        })
    }

    fn told(child: &Arc<Identity>, event: LineEvent) -> LiveEvent {
        LiveEvent::Told { child: child.clone(), event }
    }

    fn began(child: &Arc<Identity>, tool: &str) -> LiveEvent {
        let (call, arguments) = (format!("call of {tool}"), "a".repeat(50));
        told(child, LineEvent::ToolStarted { call, tool: tool.to_owned(), arguments })
    }

    fn settled(child: &Arc<Identity>, outcome: Outcome, facts: EndFacts) -> LiveEvent {
        let elapsed = Duration::from_millis(1234);
        LiveEvent::Settled { child: child.clone(), outcome, elapsed, facts: Arc::new(facts), ends_unit: true }
    }

    fn wire(relay: &mut Relay, event: &LiveEvent) -> Vec<Value> {
        relay.take(event).iter().map(|event| serde_json::to_value(event).expect("it is JSON")).collect()
    }

    fn types(events: &[Value]) -> Vec<&str> {
        events.iter().map(|event| event["type"].as_str().expect("a type")).collect()
    }

    /// Proves RUN-24.
    #[test]
    fn evtc_01_evtc_02_each_event_has_its_name_and_the_identity_of_its_child() {
        let (mut relay, child) = (Relay::default(), child(1, 3));
        let events = [
            LiveEvent::Queued(child.clone()),
            LiveEvent::Started { child: child.clone(), attempt: 1 },
            told(&child, LineEvent::Text("a piece".to_owned())),
            told(&child, LineEvent::Thinking("hm".to_owned())),
            began(&child, "look"),
            settled(&child, Outcome::Succeeded, EndFacts::default()),
        ];
        let events: Vec<Value> = events.iter().flat_map(|event| wire(&mut relay, event)).collect();
        assert_eq!(
            types(&events),
            [
                "subagent.spawn_requested",
                "subagent.start",
                "subagent.text",
                "subagent.thinking",
                "subagent.tool",
                "subagent.progress",
                "subagent.complete"
            ]
        );
        let tools = [0, 0, 0, 0, 1, 1, 1];
        for (event, tool_count) in events.iter().zip(tools) {
            for (key, value) in [
                ("task_index", json!(1)),
                ("task_count", json!(3)),
                ("goal", json!(format!("{}…", "g".repeat(54)))),
                ("subagent_id", json!("sa-1-00000007")),
                ("parent_id", json!("sa-0-00000009")),
                ("depth", json!(2)),
                ("model", json!("fake/model")),
                ("toolsets", json!(["look"])),
                ("child_session_id", json!("sa-1-00000007")),
                ("delegation_id", json!("deleg_00000001")),
                ("tool_count", json!(tool_count)),
            ] {
                assert_eq!(event[key], value, "{key} of {event}");
            }
        }
    }

    #[test]
    fn evtc_03_what_hosts_need_not_hear_has_no_event() {
        let (mut relay, child) = (Relay::default(), child(0, 1));
        let ended = |call: &str| LineEvent::ToolEnded {
            call: call.to_owned(),
            tool: "look".to_owned(),
            result: "seen".to_owned(),
            is_error: false,
            took_ms: 1,
        };
        for event in
            [LineEvent::ModelCalled, LineEvent::ToolMoved, ended("c1"), LineEvent::Note("x".to_owned())]
        {
            assert_eq!(relay.take(&told(&child, event)), []);
        }
        assert_eq!(relay.take(&LiveEvent::Lagged(3)), []);
    }

    #[test]
    fn k03_ends_that_were_lost_do_not_pile_up() {
        let (mut relay, goes_on) = (Relay::default(), child(0, 1));
        relay.take(&began(&goes_on, "look"));
        for n in 1..=3 * RUNNING_MAX {
            relay.take(&LiveEvent::Started { child: child(n, n + 1), attempt: 1 });
            relay.take(&LiveEvent::Lagged(9));
            if n % 100 == 0 {
                relay.take(&told(&goes_on, LineEvent::ToolMoved));
            }
        }
        assert_eq!(relay.running.len(), RUNNING_MAX);
        assert_eq!(
            wire(&mut relay, &began(&goes_on, "look"))[0]["tool_count"],
            json!(2),
            "who is heard of stays"
        );
    }

    #[test]
    fn evtc_05_names_of_tools_go_out_by_five_and_the_rest_at_the_end() {
        let mut relay = Relay::default();
        let (one, other) = (child(0, 2), child(1, 2));
        let mut progress = Vec::new();
        for number in 0..7 {
            // What another child calls is counted apart.
            let events = [began(&one, &format!("tool {number}")), began(&other, "other")];
            let events = events.iter().flat_map(|event| wire(&mut relay, event));
            progress.extend(events.filter(|event| event["type"] == "subagent.progress"));
        }
        assert_eq!(progress.len(), 2, "{progress:?}");
        assert_eq!(progress[0]["tools"], json!(["tool 0", "tool 1", "tool 2", "tool 3", "tool 4"]));
        let end = wire(&mut relay, &settled(&one, Outcome::Succeeded, EndFacts::default()));
        assert_eq!((types(&end)[0], &end[0]["tools"]), ("subagent.progress", &json!(["tool 5", "tool 6"])));
        let idle = child(0, 1);
        let end = wire(&mut relay, &settled(&idle, Outcome::Succeeded, EndFacts::default()));
        assert_eq!(types(&end), ["subagent.complete"], "nothing is left to tell");
    }

    #[test]
    fn evtc_07_thoughts_lose_their_tags_and_long_texts_are_cut() {
        let (mut relay, child) = (Relay::default(), child(0, 1));
        let mut thinks = |text: &str| {
            let events = wire(&mut relay, &told(&child, LineEvent::Thinking(text.to_owned())));
            events.first().map(|event| event["text"].as_str().expect("text").to_owned())
        };
        assert_eq!(thinks("<think> first this\n</think>").as_deref(), Some("first this"));
        assert_eq!(thinks("<scratchpad></scratchpad> \n"), None);
        assert_eq!(thinks(&"t".repeat(56)), Some(format!("{}…", "t".repeat(54))));
        let tool = wire(&mut relay, &began(&child, "look"));
        assert_eq!(tool[0]["preview"], json!(format!("{}…", "a".repeat(34))));
    }

    #[test]
    fn evtc_08_an_end_tells_what_was_counted() {
        let (mut relay, child) = (Relay::default(), child(0, 1));
        for number in 0..10 {
            let (tool, result) = (format!("tool {number}"), "r".repeat(700));
            let event =
                LineEvent::ToolEnded { call: tool.clone(), tool, result, is_error: number == 9, took_ms: 1 };
            relay.take(&told(&child, event));
        }
        let facts = EndFacts {
            answer: Some("s".repeat(500)),
            error: Some("HTTP 429".to_owned()),
            failure_reason: Some(FailureReason::RateLimit),
            usage: Usage { input: 10, output: 4, cached: 1, reasoning: 2 },
            cost: Cost::MicroUsd(1500),
            model_calls: 3,
            files_read: vec!["a".to_owned()],
            files_written: vec!["b".to_owned()],
            conformance: None,
        };
        let [end] = &wire(&mut relay, &settled(&child, Outcome::Failed(FailureKind::Model), facts))[..]
        else {
            panic!("one event")
        };
        for (key, value) in [
            ("preview", json!(format!("{}…", "s".repeat(159)))),
            ("status", json!("failed")),
            ("duration_seconds", json!(1.23)),
            ("summary", json!("s".repeat(500))),
            ("input_tokens", json!(10)),
            ("output_tokens", json!(4)),
            ("reasoning_tokens", json!(2)),
            ("api_calls", json!(3)),
            ("files_read", json!(["a"])),
            ("files_written", json!(["b"])),
            ("failure_reason", json!("rate_limit")),
            ("cost_usd", json!(0.0015)),
        ] {
            assert_eq!(end[key], value, "{key}");
        }
        let tail = end["output_tail"].as_array().expect("a list");
        assert_eq!((tail.len(), &tail[0]["tool"], &tail[7]["is_error"]), (8, &json!("tool 2"), &json!(true)));
        assert_eq!(tail[0]["preview"].as_str().map(|text| text.chars().count()), Some(600));
    }
}
