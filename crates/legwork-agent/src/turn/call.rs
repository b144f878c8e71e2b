//! The tool calls of one reply: which of them can be carried out, which run side by side, and what each of them gave.
//!
//! It does not store anything; the loop does, before and after.

use super::{Agent, words};
use crate::excerpt::excerpt;
use crate::journal::Next;
use crate::tools::{Effect, Invocation, ToolOutput};
use legwork_core::ids::ClaimId;
use legwork_core::message::{ToolCall, ToolResult};
use legwork_core::pulse::LineEvent;
use legwork_core::report::TraceItem;
use legwork_core::step::{Action, Finish, Repeat, Reply};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

/// A call of a reply, ready to run or refused.
pub(super) struct Prepared {
    pub(super) call: ToolCall,
    plan: Plan,
}

enum Plan {
    /// The toolbox carries it out, or refuses it for its name.
    Run(Effect),
    /// It has no effect; this is what the model reads.
    Refuse(String),
    /// It was under way when the process died and may have changed something: it is not made again.
    InDoubt,
}

/// Calls that run side by side: neighbours of a reply that do not disturb each other, or a single one.
pub(super) struct Batch {
    pub(super) calls: Vec<Prepared>,
}

/// A call that has ended.
pub(super) struct Done {
    pub(super) result: ToolResult,
    pub(super) acknowledge: Vec<ClaimId>,
    pub(super) trace: TraceItem,
    /// Whether its effect is not known.
    pub(super) in_doubt: bool,
    /// What failed, in words that are the same when the same call fails in the same way again.
    pub(super) failure: Option<String>,
}

/// Decides about every call of a reply, in order. Each of them gets a result, whatever is wrong with it.
pub(super) fn prepare(agent: &Agent, reply: &Reply) -> Vec<Prepared> {
    let (mut spawns, finish) = (0, reply.finish);
    let calls = reply.message.calls().enumerate();
    calls
        .map(|(index, call)| prepare_one(agent, call, Place { index, finish, spawns: &mut spawns }))
        .collect()
}

/// Where a call stands in its reply.
struct Place<'a> {
    index: usize,
    /// Why the reply ended.
    finish: Finish,
    /// How many calls before it start work.
    spawns: &'a mut usize,
}

fn prepare_one(agent: &Agent, call: &ToolCall, place: Place<'_>) -> Prepared {
    let plan = match runnable(agent, call, place) {
        Ok(effect) => Plan::Run(effect),
        Err(refusal) => Plan::Refuse(refusal),
    };
    let mut call = call.clone();
    if call.arguments.is_null() {
        call.arguments = json!({});
    }
    Prepared { call, plan }
}

fn runnable(agent: &Agent, call: &ToolCall, place: Place<'_>) -> Result<Effect, String> {
    let limits = &agent.limits;
    if place.index >= limits.calls_per_reply_max {
        return Err(format!(
            "one reply may hold at most {} tool calls, and this is number {}; it was not carried out. Send it again in your next reply",
            limits.calls_per_reply_max,
            place.index + 1,
        ));
    }
    check_arguments(call, place.finish)?;
    check_required(agent, call)?;
    let allowed = agent.site.setting.rights.allow(&call.name);
    // A call that the toolbox will refuse has no effect.
    let effect =
        agent.toolbox.effect(&call.name, &call.arguments).filter(|_| allowed).unwrap_or(Effect::ReadOnly);
    if effect == Effect::Rejoins {
        *place.spawns += 1;
        if *place.spawns > limits.spawns_per_reply_max {
            return Err(format!(
                "one reply may hold at most {} calls of {} (delegation.max_concurrent_children), and this is number {}; nothing was started for it. Put several tasks into the `tasks` list of one call",
                limits.spawns_per_reply_max, call.name, place.spawns,
            ));
        }
    }
    Ok(effect)
}

/// Says what is wrong with arguments that are no object, and where.
fn check_arguments(call: &ToolCall, finish: Finish) -> Result<(), String> {
    if let Some(text) = &call.malformed {
        let problem = match serde_json::from_str::<Value>(text) {
            Err(error) => error.to_string(),
            Ok(_) => "they could not be read".to_owned(),
        };
        let why = match finish {
            Finish::Length => {
                " Your reply reached the limit of output tokens and was cut off there: write less in one call."
            }
            Finish::Stop | Finish::ToolUse => "",
        };
        return Err(format!(
            "the arguments of {} are not valid JSON: {problem}. Nothing was done; send one JSON object, such as {{\"name\": \"value\"}}.{why}",
            call.name,
        ));
    }
    match &call.arguments {
        Value::Object(_) | Value::Null => Ok(()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Err(format!(
            "the arguments of {} must be one JSON object, not {}. Nothing was done",
            call.name,
            kind(&call.arguments),
        )),
    }
}

/// Says which arguments are missing, before the tool has any effect.
fn check_required(agent: &Agent, call: &ToolCall) -> Result<(), String> {
    let spec = agent.offered.iter().find(|spec| spec.name == call.name);
    let required = spec.and_then(|spec| spec.parameters.get("required")).and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let missing: Vec<&str> =
        names.filter(|name| call.arguments.get(name).is_none_or(Value::is_null)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("{} needs `{}`. Nothing was done; send them all", call.name, missing.join("`, `")))
}

/// The JSON type of a value, in words.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Groups neighbours that may run side by side. The order of the calls stays.
pub(super) fn batches(calls: Vec<Prepared>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for prepared in calls {
        match batches.last_mut() {
            Some(batch) if batch.takes(&prepared) => batch.calls.push(prepared),
            Some(_) | None => batches.push(Batch { calls: vec![prepared] }),
        }
    }
    batches
}

impl Batch {
    fn takes(&self, prepared: &Prepared) -> bool {
        let effect = prepared.effect();
        effect != Effect::Changes && self.calls.iter().all(|call| call.effect() == effect)
    }

    /// The intent to run the batch.
    pub(super) fn intent(&self) -> Next {
        Next::Tools(self.calls.iter().map(Prepared::action).collect())
    }
}

impl Prepared {
    /// What it does to the world.
    pub(super) fn effect(&self) -> Effect {
        match &self.plan {
            Plan::Run(effect) => *effect,
            Plan::Refuse(_) => Effect::ReadOnly,
            Plan::InDoubt => Effect::Changes,
        }
    }

    /// The step that runs it.
    pub(super) fn action(&self) -> Action {
        Action::Tool { call: self.call.clone(), read_only: self.effect().repeat() == Repeat::Harmless }
    }

    /// It had started work when the process died: it rejoins that, whatever is said against a new one like it.
    pub(super) fn rejoin(&mut self) {
        self.plan = Plan::Run(Effect::Rejoins);
    }

    /// It was under way when the process died; nothing of it runs any more.
    pub(super) fn doubt(&mut self) {
        self.plan = Plan::InDoubt;
    }

    /// Carries the call out, and tells of its begin and its end.
    pub(super) async fn run(&self, agent: &Agent) -> Done {
        let line = &agent.site.line;
        let arguments = self.arguments_text();
        let (call, tool) = (self.call.id.clone(), self.call.name.clone());
        let told = (call.clone(), tool.clone(), arguments.clone());
        line.tell(LineEvent::ToolStarted { call: told.0, tool: told.1, arguments: told.2 });
        let begun = Instant::now();
        let output = bounded(self.output(agent).await, agent.limits.result_bytes_max);
        let ToolOutput { content, is_error, acknowledge } = output;
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        line.tell(LineEvent::ToolEnded { call, tool, result: content.clone(), is_error, took_ms });
        let failure = if is_error { self.failure(&arguments, &content) } else { None };
        let result = ToolResult { call_id: self.call.id.clone(), content, is_error };
        let in_doubt = matches!(self.plan, Plan::InDoubt);
        Done { failure, trace: TraceItem::of(&self.call, &result), result, acknowledge, in_doubt }
    }

    fn arguments_text(&self) -> String {
        self.call.malformed.clone().unwrap_or_else(|| self.call.arguments.to_string())
    }

    async fn output(&self, agent: &Agent) -> ToolOutput {
        match &self.plan {
            Plan::Refuse(refusal) => ToolOutput::error(json!({ "error": refusal }).to_string()),
            Plan::InDoubt => ToolOutput::error(json!({ "error": words::in_doubt(&self.call) }).to_string()),
            Plan::Run(_) => {
                let invocation = Invocation {
                    call_id: self.call.id.clone(),
                    arguments: self.call.arguments.clone(),
                    site: Arc::clone(&agent.site),
                };
                agent.toolbox.call(&self.call.name, invocation).await
            }
        }
    }

    /// A call that ran and changed something may fail again and again for good reasons, such as a command that waits
    /// for a service. One that was refused or only looks cannot.
    fn failure(&self, arguments: &str, content: &str) -> Option<String> {
        if self.effect() == Effect::Changes {
            return None;
        }
        let said = content.lines().next().unwrap_or_default();
        Some(format!("{} {} gave {}", self.call.name, arguments, said))
    }
}

fn bounded(mut output: ToolOutput, bytes_max: usize) -> ToolOutput {
    let cut = excerpt(&output.content, bytes_max, |left_out| format!("{left_out} bytes left out"));
    if let Some(cut) = cut {
        output.content = cut;
    }
    output
}
