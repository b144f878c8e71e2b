//! What a worker hands in at the end of a run: its ending, its answer, and the facts that were counted on the way.

use crate::aftermath::{ChildProcesses, Inactivity, Worktree};
use crate::outcome::Ending;
use crate::spans::Spans;
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// The tokens of one model response, or of many added up. One record is counted once for each response
/// (invariant 28).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub input: u64,
    /// Tokens of the reply, reasoning included.
    pub output: u64,
    /// Of `input`, those that were read from the provider's cache.
    pub cached: u64,
    /// Of `output`, those that were reasoning.
    pub reasoning: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        // A provider may report anything; a sum that cannot be right must not turn into one that looks right.
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cached = self.cached.saturating_add(other.cached);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

/// What a run cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    /// No price is known for the model.
    #[default]
    Unknown,
    /// Millionths of a US dollar, computed from a price list.
    MicroUsd(u64),
}

impl Cost {
    /// The sum; a known cost is kept beside an unknown one, because a part is better than nothing.
    pub fn plus(self, other: Cost) -> Cost {
        match (self, other) {
            (Cost::Unknown, known) | (known, Cost::Unknown) => known,
            (Cost::MicroUsd(a), Cost::MicroUsd(b)) => Cost::MicroUsd(a.saturating_add(b)),
        }
    }

    /// US dollars, zero when unknown (ENTRY-12).
    pub fn usd(self) -> f64 {
        match self {
            Cost::Unknown => 0.0,
            Cost::MicroUsd(micro) => micro as f64 / 1e6,
        }
    }

    /// The `cost_status` word.
    pub fn status(self) -> &'static str {
        match self {
            Cost::Unknown => "unknown",
            Cost::MicroUsd(_) => "estimated",
        }
    }
}

/// Why a model's provider did not answer, as far as it can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The key is missing, wrong or not allowed to do this.
    Auth,
    /// The account has no credit.
    Billing,
    /// Too many requests.
    RateLimit,
    /// The provider is short of capacity.
    Overloaded,
    /// The provider failed.
    ServerError,
    /// The provider could not be reached or broke the connection.
    Network,
    /// The provider was silent for too long.
    Timeout,
    /// There is no such model.
    ModelNotFound,
    /// The request was refused for its content.
    ContentPolicy,
    /// The conversation is larger than the model's window.
    ContextOverflow,
    /// The request was refused as malformed.
    BadRequest,
}

/// Which of the things that [`FailureReason::Network`] stands for it was. The text of the error says so, in these words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkFault {
    /// No connection came about.
    Unreachable,
    /// There was one, and it ended before an answer began.
    Broken,
    /// The answer ended in its midst.
    CutOff,
}

impl NetworkFault {
    /// The words by which the text of an error says so.
    pub const fn words(self) -> &'static str {
        match self {
            NetworkFault::Unreachable => "cannot connect to",
            NetworkFault::Broken => "broke the connection",
            NetworkFault::CutOff => "the answer broke off",
        }
    }

    /// What the text of an error says of it; of several failures, the last one's.
    pub fn told_in(error: &str) -> Option<NetworkFault> {
        let all = [NetworkFault::Unreachable, NetworkFault::Broken, NetworkFault::CutOff];
        let told = all.into_iter().filter_map(|fault| Some((error.rfind(fault.words())?, fault)));
        told.max_by_key(|(place, _)| *place).map(|(_, fault)| fault)
    }
}

impl FailureReason {
    /// Whether a failure of this kind may pass by itself, so that asking again later may help.
    pub fn may_pass(self) -> bool {
        match self {
            FailureReason::RateLimit
            | FailureReason::Overloaded
            | FailureReason::ServerError
            | FailureReason::Network
            | FailureReason::Timeout => true,
            FailureReason::Auth
            | FailureReason::Billing
            | FailureReason::ModelNotFound
            | FailureReason::ContentPolicy
            | FailureReason::ContextOverflow
            | FailureReason::BadRequest => false,
        }
    }

    /// The word at the wire (ENTRY-8).
    pub fn as_str(self) -> &'static str {
        match self {
            FailureReason::Auth => "auth",
            FailureReason::Billing => "billing",
            FailureReason::RateLimit => "rate_limit",
            FailureReason::Overloaded => "overloaded",
            FailureReason::ServerError => "server_error",
            FailureReason::Network => "network",
            FailureReason::Timeout => "timeout",
            FailureReason::ModelNotFound => "model_not_found",
            FailureReason::ContentPolicy => "content_policy",
            FailureReason::ContextOverflow => "context_overflow",
            FailureReason::BadRequest => "bad_request",
        }
    }
}

/// One tool call as the result entry lists it (ENTRY-9). It holds sizes and targets, never whole values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceItem {
    /// The tool's name.
    pub tool: String,
    /// Bytes of the arguments as text.
    pub args_bytes: u64,
    /// Which arguments there were and what they pointed at.
    pub input_summary: InputSummary,
    /// Bytes of the result.
    pub result_bytes: u64,
    /// `ok` or `error`.
    pub status: TraceStatus,
}

/// The arguments of a call, summarised (ENTRY-11).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputSummary {
    /// The names of the arguments: at most 64 of at most 128 characters.
    pub argument_keys: Vec<String>,
    /// The values of arguments that name a file, a folder or an address: at most 16 of at most 1024 characters.
    pub targets: Vec<String>,
}

/// Whether a tool call went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceStatus {
    /// It did.
    Ok,
    /// The tool said that it failed.
    Error,
}

/// How an answer stands to the schema that it had to meet (SCHEMA-6, SCHEMA-7).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conformance {
    /// What does not fit, each as a path from `$` with a message, at most ten; none when the answer fits.
    pub errors: Vec<String>,
    /// How often the agent was asked to correct its answer: never or once.
    pub retries: u32,
    /// Why there was no correction, or nothing came of it, when that is so.
    pub remark: Option<String>,
}

impl Conformance {
    /// Whether the answer meets its schema.
    pub fn is_met(&self) -> bool {
        self.errors.is_empty()
    }
}

/// What a worker hands in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// How the run ended, by its own account.
    pub ending: Ending,
    /// The final answer, or the last text the child wrote before it was cut off.
    pub answer: Option<String>,
    /// What went wrong, in one or a few lines.
    pub error: Option<String>,
    /// The class of a provider's failure.
    pub failure_reason: Option<FailureReason>,
    /// The model that answered.
    pub model: Option<String>,
    /// Model calls made.
    pub model_calls: u32,
    /// Tokens of all model calls.
    pub usage: Usage,
    /// The price of them.
    pub cost: Cost,
    /// The tool calls in order.
    pub tool_trace: Vec<TraceItem>,
    /// Those of them that were cut off in the middle and may have changed something: their effect is not known. Reports
    /// that were stored before this was told have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_doubt: Vec<TraceItem>,
    /// Why the supervisor ended the run, if it did. This and what follows is missing in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inactivity: Option<Inactivity>,
    /// The file that tells what was known of a run that the supervisor ended before it had asked its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostics: Option<String>,
    /// The worktree that the child worked in, if it had one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
    /// The child's background processes, as they were at its end.
    #[serde(default, skip_serializing_if = "ChildProcesses::is_empty")]
    pub processes: ChildProcesses,
    /// Files that whoever asked for the child had read and that others wrote while it ran, where no answer says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale_paths: Vec<String>,
    /// How the answer stands to its schema; absent where there is no schema or no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conformance: Option<Conformance>,
    /// How long it took. The engine says it; reports that were stored before this was told have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spans: Option<Spans>,
}

impl Report {
    /// A report that says only how the run ended.
    pub fn bare(ending: Ending) -> Self {
        Report {
            ending,
            answer: None,
            error: None,
            failure_reason: None,
            model: None,
            model_calls: 0,
            usage: Usage::default(),
            cost: Cost::Unknown,
            tool_trace: Vec::new(),
            in_doubt: Vec::new(),
            inactivity: None,
            diagnostics: None,
            worktree: None,
            processes: ChildProcesses::default(),
            stale_paths: Vec::new(),
            conformance: None,
            spans: None,
        }
    }
}
