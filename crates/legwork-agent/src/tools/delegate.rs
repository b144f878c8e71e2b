//! The tool `delegate_task`: the engine's front door for models. A call is parsed once into a [`NewBatch`]; every refusal
//! is a sentence that the model can act on, and nothing exists then.
//!
//! It does not run children and does not decide who may start when; the engine does, behind [`Delegator`].

mod action;
mod answer;
mod budget;
mod control;
mod handed;
mod lists;
pub(super) mod routes;
mod schema;
pub(super) mod tasks;

use super::{Below, Effect, Invocation, Site, Tool, ToolOutput, rights_of_children};
use crate::models::ToolSpec;
use action::Action;
use budget::{Budget, Reserved};
use legwork_core::batch::{
    AtCapacity, Completions, Fallback, NewBatch, OnCrash, Reach, Rights, Route, Setting, Task, Ticket,
};
use legwork_core::budget::Allowance;
use legwork_core::fact::Accepted;
use legwork_core::ids::{CallKey, DelegationId};
use legwork_core::message::ToolResult;
use legwork_core::outcome::StopReason;
use legwork_core::ports::{Delegator, JoinError, Joined, OtherCall, Pending};
use legwork_core::steering::Scope;
use lists::Lists;
use routes::{NamedRoutes, NoRoutes, resolve_routes};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use tasks::{TaskAuthor, TaskError, TaskRules, parse_tasks, route_names};

/// The tool's name.
pub const DELEGATE_TASK: &str = "delegate_task";

/// Said to an agent whose session cannot take results later (OUT-9).
const NO_ASYNC: &str = "no_async: this session (a single prompt, lines from a script, or a subagent's own) ends with its answer, so \
     nothing can come back later; the call was carried out inline, and this reply already holds the outcome";
/// Said of a call for which there was no slot in the background (OUT-9).
const AT_CAPACITY: &str = "at_capacity: as many calls work in the background as may (delegation.max_concurrent_children); the call was \
     carried out inline, and this reply already holds the outcome";
/// Said of work that nobody here can go on with: whoever sent it out once more would have it done twice.
const KEPT: &str =
    "Nothing of it is lost, and its results come in once somebody goes on with it: do not delegate it again.";
/// The same of work that goes on or has ended, of which only the results cannot be had now.
const UNREAD: &str = "The work is kept, and its results come in later: do not delegate it again.";

/// Why results did not come, for the model that waited for them.
fn told(error: &JoinError) -> String {
    match error {
        JoinError::Orphaned(_) | JoinError::GivenUp(_) => format!("{error}. {KEPT}"),
        JoinError::Store(_) => format!("{error}. {UNREAD}"),
        JoinError::Unknown(_) | JoinError::Closed => error.to_string(),
    }
}

/// Whether the result of a call holds what its subagents found, and is not just the handle of work that goes on.
pub(crate) fn carries_results(result: &ToolResult, reach: Reach) -> bool {
    if result.is_error {
        return false;
    }
    match serde_json::from_str::<Value>(&result.content) {
        Ok(answer) => answer.get("results").is_some(),
        // Only results are long enough to be cut.
        Err(_) => reach == Reach::Joined,
    }
}

/// The limits that hold for calls, and that the model is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegateOptions {
    /// How the model is told that results reach it. Where a caller's own reach is less, or it is no session's agent, the
    /// call waits for them all the same, and says so.
    pub reach: Reach,
    /// Children that run at once (`delegation.max_concurrent_children`).
    pub concurrent_max: usize,
    /// What happens to a call when all slots are taken (`delegation.at_capacity`).
    pub at_capacity: AtCapacity,
    /// The depth at which agents may no longer delegate: `delegation.max_spawn_depth`, or 0 when orchestrators are
    /// switched off; children at or below it do not get this tool (BUILD-3).
    pub depth_max: u32,
    /// How the tasks of a call come back (`delegation.independent_completions`).
    pub completions: Completions,
    /// Bytes of one goal, and of one context (`delegation.goal_max_bytes`).
    pub goal_bytes_max: usize,
    /// Children that all calls together may start; `None` for no such limit. In one-shot sessions it is
    /// `delegation.oneshot_max_children` (TASK-14).
    pub children_max: Option<u32>,
    /// Bytes of one child's answer that the caller is shown (`delegation.max_summary_chars`).
    pub summary_bytes_max: usize,
    /// What each child may use up.
    pub allowance: Allowance,
    /// What becomes of a child whose task does not say it when its process dies (`delegation.on_crash`).
    pub on_crash: OnCrash,
    /// The most that children may be given (`delegation.default_toolsets`); `None` for no ceiling but the caller's own rights.
    pub ceiling: Option<Rights>,
    /// The route of all children where it is not that of the conversation (`delegation.model` and its like); `None` for
    /// the caller's own.
    pub children_route: Option<Route>,
}

/// `delegate_task`. The calls of one conversation go to one of these, since it counts their children; agents without
/// such a limit may share one.
pub struct DelegateTool {
    options: DelegateOptions,
    budget: Budget,
    lists: Lists,
    routes: Arc<dyn NamedRoutes>,
    /// Set once the engine runs; the engine's worker has this tool before that.
    delegator: OnceLock<Arc<dyn Delegator>>,
}

impl DelegateTool {
    /// The tool before there is an engine. Calls are refused until [`DelegateTool::connect`].
    pub fn new(options: DelegateOptions) -> Self {
        DelegateTool {
            budget: Budget::new(options.children_max),
            lists: Lists::default(),
            routes: Arc::new(NoRoutes),
            options,
            delegator: OnceLock::new(),
        }
    }

    /// The tool with routes that a call may name.
    pub fn with_routes(self, routes: Arc<dyn NamedRoutes>) -> Self {
        DelegateTool { routes, ..self }
    }

    /// Connects the tool to the engine. A second connection is ignored: the first one stays.
    pub fn connect(&self, delegator: Arc<dyn Delegator>) {
        if self.delegator.set(delegator).is_err() {
            tracing::debug!("delegate_task is connected already");
        }
    }

    async fn carry_out(&self, invocation: &Invocation) -> Result<ToolOutput, String> {
        let delegator =
            self.delegator.get().ok_or("nothing can be delegated in this process; do the work yourself")?;
        let site = &invocation.site;
        match action::action(&invocation.arguments)? {
            Action::Spawn(fields) => self.spawn(delegator.as_ref(), invocation, &fields).await,
            Action::List => {
                let list = control::list(delegator.as_ref(), site, &self.lists).await;
                Ok(ToolOutput::ok(list.to_string()))
            }
            Action::Steer { id, message } => {
                let steered = control::steer(delegator.as_ref(), site, id, message).await?;
                Ok(ToolOutput::ok(steered.to_string()))
            }
            Action::Stop { id } => {
                let stopped = control::stop(delegator.as_ref(), site, id).await?;
                Ok(ToolOutput::ok(stopped.to_string()))
            }
        }
    }

    async fn spawn(
        &self,
        delegator: &dyn Delegator,
        invocation: &Invocation,
        fields: &Value,
    ) -> Result<ToolOutput, String> {
        let Invocation { call_id, site, .. } = invocation;
        let key = call_key(site, call_id);
        // What was accepted is rejoined as it stands: no setting of today judges it again.
        if let Some(first) = delegator.accepted(&key).await.map_err(|error| error.to_string())? {
            self.asks_the_same(&key, &first, fields)?;
            self.budget.count(first.tasks.len());
            let accepted = (&first.ticket(), first.tasks.as_slice());
            return self.answered(delegator, site, accepted, self.unused(fields, &first.tasks)).await;
        }
        let (tasks, reserved) = match self.asked(fields, site) {
            Ok(asked) => asked,
            // Whether the caller may delegate at all comes before what it asks for (TOOL-13). A call that can be carried
            // out leaves that to the engine, which decides when it accepts it.
            Err(wrong) => {
                let objection = delegator.objection(&site.lineage).await;
                return Err(objection.map_or(wrong, |refusal| refusal.to_string()));
            }
        };
        let context = tasks::beside(fields, "context");
        let batch = NewBatch { context, ..self.batch(site, key, tasks.clone()) };
        let unused = self.unused(fields, &tasks);
        let ticket = delegator.dispatch(batch).await.map_err(|error| error.to_string())?;
        reserved.keep();
        self.answered(delegator, site, (&ticket, &tasks), unused).await
    }

    /// Refuses a call that has the id of another one with other goals. Where its arguments cannot be read any more it
    /// is taken for the same: ids are made unique when a reply is stored, and what is asked again after a crash must
    /// come back to its subagents.
    fn asks_the_same(&self, key: &CallKey, first: &Accepted, fields: &Value) -> Result<(), String> {
        let rules = TaskRules {
            author: TaskAuthor::Model,
            goal_bytes_max: usize::MAX,
            on_crash: self.options.on_crash,
            tasks_max: None,
        };
        let Ok(now) = parse_tasks(fields, &rules) else { return Ok(()) };
        let goals = first.tasks.iter().map(|task| &task.goal);
        if goals.eq(now.iter().map(|task| &task.goal)) {
            return Ok(());
        }
        Err(OtherCall::new(key, &first.delegation, &first.tasks, &now).to_string())
    }

    /// The answer to an accepted call: its handle, or its results.
    async fn answered(
        &self,
        delegator: &dyn Delegator,
        site: &Site,
        (ticket, tasks): (&Ticket, &[Task]),
        mut unused: Vec<String>,
    ) -> Result<ToolOutput, String> {
        match ticket.reach {
            Reach::Push | Reach::History => {
                unused.retain(|key| key != tasks::BACKGROUND);
                Ok(self.handed(delegator, site, (ticket, tasks, &unused)).await)
            }
            Reach::Joined => self.join(delegator, site, ticket, unused).await,
        }
    }

    /// The arguments of a call that have no effect in it.
    fn unused(&self, fields: &Value, tasks: &[Task]) -> Vec<String> {
        let mut unused = tasks::without_effect(fields);
        if self.options.completions == Completions::Together && tasks.iter().any(|task| task.group.is_some())
        {
            unused.push(tasks::GROUP.to_owned());
        }
        unused
    }

    /// The tasks of a call, and room for them in what this conversation may start.
    fn asked(&self, fields: &Value, site: &Site) -> Result<(Vec<Task>, Reserved<'_>), String> {
        let DelegateOptions { goal_bytes_max, on_crash, .. } = self.options;
        let tasks_max = match self.options.at_capacity {
            AtCapacity::Sync => Some(self.options.concurrent_max),
            AtCapacity::Queue | AtCapacity::Reject => None,
        };
        let rules = TaskRules { author: TaskAuthor::Model, goal_bytes_max, on_crash, tasks_max };
        let tasks = self.tasks(fields, &rules, site).map_err(|error| error.to_string())?;
        let reserved = self.budget.reserve(tasks.len())?;
        Ok((tasks, reserved))
    }

    /// The tasks of a call, each with the route that is named for it. A route that cannot be used is said before anything
    /// else that is wrong with the list (TOOL-13).
    fn tasks(&self, fields: &Value, rules: &TaskRules, site: &Site) -> Result<Vec<Task>, TaskError> {
        let routes = match route_names(fields, rules) {
            Ok(names) => Ok(resolve_routes(&names, self.routes.as_ref(), &site.setting.route)?),
            Err(unreadable) => Err(unreadable),
        };
        let mut tasks = parse_tasks(fields, rules)?;
        for (task, route) in tasks.iter_mut().zip(routes?) {
            task.route = route;
        }
        Ok(tasks)
    }

    /// The handle of a call that comes back later, with the results of those units that did not find room in the
    /// background (CAP-9).
    async fn handed(
        &self,
        delegator: &dyn Delegator,
        site: &Site,
        (ticket, tasks, unused): (&Ticket, &[Task], &[String]),
    ) -> ToolOutput {
        let mut handle = handed::handle(ticket, tasks, unused);
        let (mut entries, mut acknowledge) = (Vec::new(), Vec::new());
        for unit in ticket.units.iter().filter(|unit| unit.inline) {
            match delegator.join_unit(&ticket.delegation, &unit.id).await {
                Ok(joined) => {
                    acknowledge.extend(joined.claims.iter().cloned());
                    let (wanted, showing) = (unit.task_indexes.clone(), self.showing(site));
                    entries.extend(answer::entries(joined, wanted, showing).await);
                }
                Err(error) => entries.extend(answer::unknown(&unit.task_indexes, &told(&error))),
            }
        }
        if !entries.is_empty() {
            handed::add_inline(&mut handle, entries);
        }
        ToolOutput { acknowledge, ..ToolOutput::ok(handle.to_string()) }
    }

    /// Waits for what was delegated; the caller gives its slot back meanwhile.
    async fn join(
        &self,
        delegator: &dyn Delegator,
        site: &Site,
        ticket: &Ticket,
        mut unused: Vec<String>,
    ) -> Result<ToolOutput, String> {
        let delegation = &ticket.delegation;
        site.line.park().await;
        let joined = joined(delegator, site, delegation).await;
        let unparked = site.line.unpark().await;
        // A stop that comes after the results does not take them away: they are stored with the end of the turn.
        let joined = match (joined, unparked) {
            (Ok(joined), Ok(()) | Err(_)) => joined,
            (Err(_), Err(notice)) => {
                return Err(format!("stopped ({:?}) while waiting for {delegation}", notice.reason));
            }
            (Err(error), Ok(())) => return Err(told(&error)),
        };
        let mut notes = Vec::new();
        if ticket.fallback == Some(Fallback::AtCapacity) {
            unused.retain(|key| key != tasks::BACKGROUND);
            notes.push(AT_CAPACITY.to_owned());
        } else if site.lineage.depth == 0 {
            unused.retain(|key| key != tasks::BACKGROUND);
            notes.push(NO_ASYNC.to_owned());
        }
        if !unused.is_empty() {
            notes.push(handed::without_effect(&unused));
        }
        Ok(answer::output(joined, self.showing(site), notes).await)
    }

    fn showing(&self, site: &Site) -> answer::Showing {
        answer::Showing { summary_bytes_max: self.options.summary_bytes_max, spill: site.spill.clone() }
    }

    /// How results reach this caller: only a session's own agent can be told of them later (MODE-1, MODE-2).
    fn reach(&self, site: &Site) -> Reach {
        if site.lineage.depth > 0 {
            return Reach::Joined;
        }
        match self.options.reach {
            Reach::Push | Reach::History => site.reach,
            Reach::Joined => Reach::Joined,
        }
    }

    fn batch(&self, site: &Site, key: CallKey, tasks: Vec<Task>) -> NewBatch {
        NewBatch {
            lineage: site.lineage.clone(),
            call_key: Some(key),
            reach: self.reach(site),
            tasks,
            context: None,
            setting: self.child_setting(site),
        }
    }

    /// The caller's setting with the children's allowance, and with the right to delegate only where their depth has
    /// room for it. Nothing is added to the caller's rights (invariant 18). A session's agent gives the children their own
    /// route if they have one; deeper callers are children and have it already.
    fn child_setting(&self, site: &Site) -> Setting {
        let mut setting = Setting { allowance: self.options.allowance, ..site.setting.clone() };
        if site.lineage.depth == 0
            && let Some(route) = &self.options.children_route
        {
            setting.route = route.clone();
        }
        let has_room = site.lineage.depth.saturating_add(1) < self.options.depth_max;
        let below = if has_room { Below::Delegates } else { Below::Leaf };
        setting.rights = rights_of_children(&setting.rights, self.options.ceiling.as_ref(), below);
        setting
    }
}

/// What makes a call of `site` one and the same, however often it is asked (invariant 6).
fn call_key(site: &Site, call_id: &str) -> CallKey {
    CallKey { caller: site.actor.as_str().to_owned(), call: call_id.to_owned() }
}

/// Waits for what was delegated. Where a session that can be told later waits all the same, a stop of its turn reaches what
/// it waits for (DISP-7), and what has been done until then is the result. For a child the engine sees to that, and for
/// a session that always waits whoever stops it does.
async fn joined(
    delegator: &dyn Delegator,
    site: &Site,
    delegation: &DelegationId,
) -> Result<Joined, JoinError> {
    let mut join = delegator.join(delegation);
    if site.lineage.depth > 0 || site.reach == Reach::Joined {
        return join.await;
    }
    let notice = tokio::select! {
        biased;
        joined = &mut join => return joined,
        notice = site.line.stopped() => notice,
    };
    // A process that ends leaves its work to the next one.
    if notice.reason != StopReason::Shutdown {
        delegator.stop(Scope::Delegation(delegation.clone()), StopReason::ParentStopped, notice.force).await;
    }
    join.await
}

impl Tool for DelegateTool {
    fn spec(&self) -> ToolSpec {
        schema::spec(&self.options, self.routes.as_ref())
    }

    fn effect(&self) -> Effect {
        Effect::Rejoins
    }

    /// Control actions start nothing and do not count as calls that do (TOOL-21), also where they are not whole. To
    /// repeat one is harmless: what is stopped stays stopped, and a child that is told something twice reads it twice.
    /// So one that keeps failing ends the turn, as looking in vain does.
    fn effect_of(&self, arguments: &Value) -> Effect {
        if action::starts(arguments) { Effect::Rejoins } else { Effect::ReadOnly }
    }

    fn call(&self, invocation: Invocation) -> Pending<'_, ToolOutput> {
        Box::pin(async move {
            let answered = self.carry_out(&invocation).await;
            answered.unwrap_or_else(|error| ToolOutput::error(json!({ "error": error }).to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::ids::DelegationId;
    use legwork_core::ports::StoreError;

    /// A model that is told only that it failed sends the work out once more, and both are done.
    #[test]
    fn k08_what_somebody_will_go_on_with_is_not_to_be_delegated_again() {
        let id = || DelegationId::from_bits(7);
        let unread = JoinError::Store(StoreError::Full("no room".to_owned()));
        for goes_on in [JoinError::Orphaned(id()), JoinError::GivenUp("no room".to_owned()), unread] {
            assert!(told(&goes_on).contains("do not delegate it again"), "{goes_on}");
        }
        assert!(!told(&JoinError::Unknown(id())).contains(KEPT));
    }
}
