//! The only composition root: puts store, models, tools, worker and engine together for a working verb.

mod closing;
mod refused;

use std::sync::Arc;
use std::time::Duration;

use legwork_agent::hooks::{HOOK_LIMIT, HookRunner, Hooks, Unfired};
use legwork_agent::models::RetryPolicy;
use legwork_agent::process::{Shells, SystemProcesses};
use legwork_agent::session::SessionSetup;
use legwork_agent::tools::{
    Below, Commands, DelegateOptions, DelegateTool, FetchAddresses, Toolbox, built_in, rights_of_children,
    toolset,
};
use legwork_agent::transcripts::FileTranscripts;
use legwork_agent::turn::TurnLimits;
use legwork_agent::worker::{LocalWorker, ModelSource, Pictures, WorkerParts};
use legwork_core::batch::{Isolation, OnCrash, Reach, Rights, Setting};
use legwork_core::budget::Allowance;
use legwork_core::ids::{DelegationId, Epoch, SessionId};
use legwork_core::ports::{Conversations, Delegator, Facts, Held, NewSession, SessionKind, Store};
use legwork_core::step::Fence;
use legwork_engine::recovery;
use legwork_engine::{AtCapacity, Engine, Handle, Options, Patience, Wiring};
use legwork_sqlite::SqliteStore;
use tokio::task::JoinSet;

use crate::args::CommonArgs;
use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::model_source::Models;
use crate::owner::{self, Owner};
use crate::paths::StateFolder;
use crate::settings::{self, DelegationSettings, Settings};
use crate::signals::Signals;
use crate::{retention, state, suspension};
use closing::HOOKS_SLACK;

/// What a stop may take on top of its grace until everything it reached is stored.
const STOP_SLACK: Duration = Duration::from_millis(400);

/// What bounds the tools of one conversation.
#[derive(Debug, Clone, Copy)]
pub struct ToolBounds {
    /// How many subagents its calls may start in all; `None` for as many as it likes.
    children_max: Option<u32>,
    /// How what it delegates comes back.
    reach: Reach,
}

impl ToolBounds {
    /// Those of a conversation whose results reach it so.
    pub fn of(reach: Reach) -> ToolBounds {
        ToolBounds { children_max: None, reach }
    }

    /// Those of a single prompt (CFG-18).
    pub fn of_a_prompt(settings: &DelegationSettings) -> ToolBounds {
        let most = settings.oneshot_max_children.map(|most| u32::try_from(most).unwrap_or(u32::MAX));
        ToolBounds { children_max: most, reach: Reach::Joined }
    }
}

/// Everything a working verb needs.
pub struct Workplace {
    /// The database.
    pub store: Arc<SqliteStore>,
    /// This process as an owner.
    pub owner: Owner,
    /// The engine's handle.
    pub handle: Handle,
    /// What agents of this process run with.
    pub setting: Setting,
    /// What children of somebody who is no agent may do.
    rights_of_children: Rights,
    /// The models of this process.
    pub models: Arc<Models>,
    /// How commands are run, where their process groups are noted, and those in the background.
    pub commands: Commands,
    transcripts: Arc<FileTranscripts>,
    state: StateFolder,
    retention: Duration,
    stop_grace: Duration,
    /// Taken when the workplace is closed.
    engine: Option<Engine>,
    /// Whether it was closed in time, so that nothing of it runs any more.
    is_over: bool,
    /// Heeds Ctrl-Z.
    _suspension: JoinSet<()>,
    /// Fires the user's hooks; ends after the engine.
    hooks: JoinSet<()>,
    /// What it has not fired them for.
    unfired: Unfired,
}

impl Workplace {
    /// Opens the state folder, ends what commands of dead processes left running, and starts the engine. The work of dead
    /// processes is left to whoever opens its session or names it.
    ///
    /// # Errors
    /// When no model is configured, or the state folder or the system cannot be used. Nothing runs then.
    pub async fn open(invocation: &Invocation, settings: &Settings) -> Result<Workplace, CliError> {
        invocation.paths.work_can_begin()?;
        Workplace::open_with(invocation, settings, Models::resolve(invocation, settings).await?).await
    }

    /// The same with these models.
    ///
    /// # Errors
    /// As for [`Workplace::open`].
    pub async fn open_with(
        invocation: &Invocation,
        settings: &Settings,
        models: Models,
    ) -> Result<Workplace, CliError> {
        let models = Arc::new(models);
        let store = state::open_to_work(invocation)?;
        let owner = owner::enter(store.as_ref()).await?;
        recovery::sweep(owner.rescuer(store.as_ref())).await?;
        if let Err(error) = legwork_agent::process::adopt_orphans() {
            tracing::warn!(%error, "processes that leave their group cannot be adopted on this system");
        }
        let commands = Commands::new(Shells::new(std::env::vars_os())?, store.clone());
        if settings.delegation.surface_child_process_notifications {
            commands.background.surface();
        }
        let tools = Tools::of(settings, &models, commands.clone(), ToolBounds::of(Reach::Joined));
        let transcripts = Arc::new(transcripts(invocation)?);
        let wiring = Wiring {
            store: store.clone(),
            worker: Arc::new(LocalWorker::new(parts(
                invocation,
                settings,
                &tools,
                (store.clone(), models.clone()),
            )?)),
            transcripts: transcripts.clone(),
            processes: Arc::new(SystemProcesses),
            clock: owner.clock,
            bits: owner.bits.clone(),
            owner: owner.record.clone(),
        };
        let engine = Engine::start(options(&settings.delegation), wiring).await?;
        tools.delegate.connect(Arc::new(engine.handle()));
        let (mut hooks, mut unfired) = (JoinSet::new(), Unfired::default());
        if let Some(runner) = hook_runner(invocation, settings, (&store, &owner, &commands)) {
            unfired = runner.unfired.clone();
            hooks.spawn(runner.run(engine.handle().watch()));
        }
        Ok(Workplace {
            _suspension: suspension::heed(store.clone())?,
            hooks,
            unfired,
            handle: engine.handle(),
            rights_of_children: first_children(&settings.delegation, &tools.toolbox),
            setting: setting(invocation, settings, &models, &tools),
            models,
            commands,
            state: invocation.paths.state()?,
            retention: settings.delegation.retention,
            stop_grace: settings.delegation.stop_grace,
            transcripts,
            store,
            owner,
            engine: Some(engine),
            is_over: false,
        })
    }

    /// Creates a session of this folder that no agent writes to, so that it is open nowhere.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn new_session(&self, kind: SessionKind) -> Result<SessionId, CliError> {
        let id = self.owner.new_session();
        let session = NewSession {
            id: id.clone(),
            name: None,
            kind,
            folder: self.setting.folder.clone(),
            at: self.owner.now(),
        };
        let holder = &self.owner.record.id;
        self.store.create_session(session, holder).await?;
        self.store.release_session(&id, holder).await?;
        Ok(id)
    }

    /// Takes a session away again that was made for a call which came to nothing. What of it is used by now stays.
    pub async fn forget_session(&self, id: &SessionId) {
        let holder = &self.owner.record.id;
        let forgotten = match self.store.hold_session(id, holder, None).await {
            Ok(Held::Here) => self.store.discard_session(id, holder).await.map(drop),
            Ok(Held::By(_) | Held::Unknown) => Ok(()),
            Err(error) => Err(error),
        };
        let released = self.store.release_session(id, holder).await;
        if let Err(error) = forgotten.and(released) {
            // It is empty, and free with this process.
            tracing::debug!(%error, "a session in which nothing came to be stays");
        }
    }

    /// What children of the shell run with, wherever they run: never more than the ceiling of this configuration.
    pub fn setting_of_children(&self) -> Setting {
        Setting { rights: self.rights_of_children.clone(), ..self.setting.clone() }
    }

    /// What the agent of a conversation needs.
    ///
    /// # Errors
    /// When its model is not there, or the state folder is not known.
    pub fn conversation(
        &self,
        invocation: &Invocation,
        settings: &Settings,
        bounds: ToolBounds,
    ) -> Result<SessionSetup, CliError> {
        let setting = Setting { route: self.models.main.clone(), ..self.setting.clone() };
        let model = self.models.model(&setting.route);
        Ok(SessionSetup {
            store: self.store.clone(),
            processes: Arc::new(SystemProcesses),
            model: model.map_err(|error| CliError::new(Kind::NoModel, error))?,
            toolbox: self.tools(settings, bounds),
            commands: self.commands.clone(),
            limits: match bounds.reach {
                // Somebody sits before it, and it tries again by itself what came back.
                Reach::Push => patient(limits(&settings.delegation), Duration::ZERO),
                Reach::History | Reach::Joined => limits(&settings.delegation),
            },
            fence: Fence { owner: self.owner.record.id.clone(), epoch: Epoch::FIRST },
            setting,
            reach: bounds.reach,
            depth_max: depth_max(&settings.delegation),
            spill: invocation.paths.state()?.spill(),
        })
    }

    fn tools(&self, settings: &Settings, bounds: ToolBounds) -> Arc<Toolbox> {
        let tools = Tools::of(settings, &self.models, self.commands.clone(), bounds);
        tools.delegate.connect(Arc::new(self.handle.clone()));
        tools.toolbox
    }

    /// How long work that is cut off has to come to its end.
    pub fn stop_grace(&self) -> Duration {
        self.stop_grace
    }

    /// How long a stop may take until everything it reached is stored.
    pub fn stop_max(&self) -> Duration {
        self.stop_grace + STOP_SLACK
    }

    /// Removes what is old enough, unless the program was told to end or is told so meanwhile: it may take a while.
    pub async fn tidy_up(&self, signals: &mut Signals) {
        if signals.told().is_some() {
            return;
        }
        let tidied = retention::enforce(self.store.as_ref(), &self.state, self.retention);
        if let Ok(Err(error)) = signals.unless_told(tidied).await {
            tracing::warn!(%error, "what is old could not be removed");
        }
    }
}

fn transcripts(invocation: &Invocation) -> Result<FileTranscripts, CliError> {
    FileTranscripts::new(invocation.paths.state()?.live()).map_err(|error| {
        CliError::new(Kind::Internal, format!("the system refused a thread for transcripts: {error}"))
    })
}

/// The tools, the one of them that must still be connected to the engine, and what runs in the background.
struct Tools {
    toolbox: Arc<Toolbox>,
    delegate: Arc<DelegateTool>,
    commands: Commands,
}

impl Tools {
    fn of(
        settings: &Settings,
        models: &Arc<Models>,
        commands: Commands,
        ToolBounds { children_max, reach }: ToolBounds,
    ) -> Tools {
        let fetched = if settings.tools.fetch_private_addresses {
            FetchAddresses::Private
        } else {
            FetchAddresses::Public
        };
        let settings = &settings.delegation;
        let delegate = Arc::new(
            DelegateTool::new(DelegateOptions {
                reach,
                concurrent_max: settings.max_concurrent_children,
                at_capacity: at_capacity(settings),
                depth_max: depth_max(settings),
                completions: settings.completions(),
                goal_bytes_max: settings.goal_max_bytes,
                children_max,
                summary_bytes_max: settings.max_summary_chars.unwrap_or(usize::MAX),
                allowance: Allowance { steps_max: steps_max(settings) },
                on_crash: settings.on_crash.into(),
                ceiling: ceiling(settings),
                children_route: (models.children != models.main).then(|| models.children.clone()),
            })
            .with_routes(models.clone()),
        );
        let mut tools = built_in(&commands, fetched);
        tools.push(delegate.clone());
        Tools { toolbox: Arc::new(Toolbox::new(tools).hiding(models.secrets())), delegate, commands }
    }
}

fn parts(
    invocation: &Invocation,
    settings: &Settings,
    tools: &Tools,
    (store, models): (Arc<dyn Store>, Arc<Models>),
) -> Result<WorkerParts, CliError> {
    Ok(WorkerParts {
        facts: Arc::clone(&store) as Arc<dyn Facts>,
        store,
        models,
        toolbox: tools.toolbox.clone(),
        commands: tools.commands.clone(),
        limits: limits_of_children(&settings.delegation),
        depth_max: depth_max(&settings.delegation),
        pictures: match settings.model.images {
            settings::Images::Auto => Pictures::ByModel,
            settings::Images::Always => Pictures::Always,
            settings::Images::Never => Pictures::Never,
        },
        spill: invocation.paths.state()?.spill(),
        diagnostics: invocation.paths.state()?.diagnostics(),
    })
}

/// What fires the user's hooks, if there are any.
fn hook_runner(
    invocation: &Invocation,
    settings: &Settings,
    (store, owner, commands): (&Arc<SqliteStore>, &Owner, &Commands),
) -> Option<HookRunner> {
    let lines = |lines: &Option<Vec<String>>| lines.clone().unwrap_or_default();
    let hooks = Hooks {
        subagent_start: lines(&settings.hooks.subagent_start),
        subagent_stop: lines(&settings.hooks.subagent_stop),
        delegation_finished: lines(&settings.hooks.delegation_finished),
    };
    (!hooks.is_empty()).then(|| HookRunner {
        hooks,
        facts: Arc::clone(store) as Arc<dyn Facts>,
        commands: commands.clone(),
        owner: owner.record.id.clone(),
        depth_max: depth_max(&settings.delegation),
        folder: invocation.paths.working_folder().to_owned(),
        limit: HOOK_LIMIT,
        unfired: Unfired::default(),
    })
}

/// Fires the user's hooks for ends that this process has stored without an engine. Whatever becomes of them changes nothing.
pub async fn tell_hooks_of(invocation: &Invocation, owner: &Owner, ends: &[(DelegationId, usize)]) {
    if ends.is_empty() {
        return;
    }
    if let Err(error) = tell_of(invocation, owner, ends).await {
        tracing::warn!(%error, "hooks are not fired for what was settled");
    }
}

async fn tell_of(
    invocation: &Invocation,
    owner: &Owner,
    ends: &[(DelegationId, usize)],
) -> Result<(), CliError> {
    let common = CommonArgs { quiet: true, ..invocation.common.clone() };
    let settings = Invocation { common, ..invocation.clone() }.settings()?;
    let store = state::open_to_work(invocation)?;
    let commands = Commands::new(Shells::new(std::env::vars_os())?, store.clone());
    let Some(runner) = hook_runner(invocation, &settings, (&store, owner, &commands)) else { return Ok(()) };
    // Deadline: as for hooks that are still to be fired when the work of an engine has ended.
    if tokio::time::timeout(HOOKS_SLACK, runner.tell_ends(ends)).await.is_err() {
        tracing::warn!(
            "hooks were cut: they had {} s; {}",
            HOOKS_SLACK.as_secs(),
            closing::left_out(&runner.unfired)
        );
    }
    commands.close().await;
    Ok(())
}

/// The limits of every agent of this process.
pub fn limits(settings: &DelegationSettings) -> TurnLimits {
    let limits =
        TurnLimits { spawns_per_reply_max: settings.max_concurrent_children, ..TurnLimits::default() };
    patient(limits, settings.throttled)
}

/// With so long a wait for a model that limits its callers.
fn patient(limits: TurnLimits, throttled_max: Duration) -> TurnLimits {
    TurnLimits { retry: RetryPolicy { throttled_max, ..limits.retry }, ..limits }
}

/// The limits of children: theirs is the size from which on histories are summarised early.
fn limits_of_children(settings: &DelegationSettings) -> TurnLimits {
    let summarise_from = settings.compression_threshold_tokens.map(|tokens| tokens as u64);
    TurnLimits { summarise_from, ..limits(settings) }
}

/// The most that children may be given, where the operator says so.
fn ceiling(settings: &DelegationSettings) -> Option<Rights> {
    settings.default_toolsets.as_ref().map(|names| toolset(names.iter().map(String::as_str)))
}

/// What the children of somebody who is no agent may do.
fn first_children(settings: &DelegationSettings, toolbox: &Toolbox) -> Rights {
    let below = if depth_max(settings) > 1 { Below::Delegates } else { Below::Leaf };
    rights_of_children(&all_rights(toolbox), ceiling(settings).as_ref(), below)
}

fn all_rights(toolbox: &Toolbox) -> Rights {
    Rights { tools: toolbox.names().map(str::to_owned).collect() }
}

fn setting(invocation: &Invocation, settings: &Settings, models: &Models, tools: &Tools) -> Setting {
    Setting {
        folder: invocation.paths.folder_text(),
        route: models.children.clone(),
        rights: all_rights(&tools.toolbox),
        allowance: Allowance { steps_max: steps_max(&settings.delegation) },
        isolation: isolation(&settings.delegation),
    }
}

fn isolation(settings: &DelegationSettings) -> Isolation {
    if settings.worktree_isolation { Isolation::Worktree } else { Isolation::Shared }
}

fn steps_max(settings: &DelegationSettings) -> u32 {
    u32::try_from(settings.max_iterations).unwrap_or(u32::MAX)
}

/// How deep agents may be: no deeper than the first children when orchestrators are switched off (KILL-2).
pub fn depth_max(settings: &DelegationSettings) -> u32 {
    let most = if settings.orchestrator_enabled { settings.max_spawn_depth } else { 1 };
    u32::try_from(most).unwrap_or(u32::MAX)
}

fn at_capacity(settings: &DelegationSettings) -> AtCapacity {
    match settings.at_capacity {
        settings::AtCapacity::Queue => AtCapacity::Queue,
        settings::AtCapacity::Sync => AtCapacity::Sync,
        settings::AtCapacity::Reject => AtCapacity::Reject,
    }
}

fn options(settings: &DelegationSettings) -> Options {
    Options {
        children_max: settings.max_concurrent_children,
        queue_max: settings.queue_max,
        depth_max: depth_max(settings),
        at_capacity: at_capacity(settings),
        completions: settings.completions(),
        patience: Patience {
            idle: settings.stall_idle,
            tool: settings.stall_tool,
            grace: settings.stall_grace,
            inactivity: settings.child_timeout,
        },
        stop_grace: settings.stop_grace,
        lease: settings.lease,
    }
}

impl From<settings::OnCrash> for OnCrash {
    fn from(chosen: settings::OnCrash) -> OnCrash {
        match chosen {
            settings::OnCrash::Resume => OnCrash::Resume,
            settings::OnCrash::Report => OnCrash::Report,
        }
    }
}
