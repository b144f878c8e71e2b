//! Makes an agent out of an assignment: its place, its model, its rights, its tools and its first messages.
//!
//! Everything that can be wrong with an assignment is found here, before anything is asked or run.

use super::local::Shared;
use super::parking::SharedParking;
use super::pictures::{self, Sight};
use super::shared_prompt::Occasion;
use crate::contract::Contract;
use crate::journal::{Journal, Recorded};
use crate::models::Model;
use crate::patience::Patience;
use crate::prompt::{self, Standing};
use crate::room::Room;
use crate::tools::{DELEGATE_TASK, Site};
use crate::turn::{Agent, Context, Start};
use crate::worktree::{self, Need, Tenant, Worktree};
use legwork_core::batch::{Isolation, Lineage, Reach, Setting, Task};
use legwork_core::message::Message;
use legwork_core::ports::{Assignment, Line, StoreError};
use legwork_core::pulse::LineEvent;
use legwork_core::step::Actor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A child that can begin.
pub(super) struct Ready {
    pub(super) agent: Agent,
    pub(super) journal: Journal,
    /// The system text and the goal, or all that was said in earlier attempts.
    pub(super) context: Context,
    pub(super) start: Start,
}

/// Why a child does not begin or go on here.
pub(super) enum Obstacle {
    /// It lacks something, or something is wrong with what was asked.
    Lacks(Box<NotReady>),
    /// What an earlier attempt recorded could not be read: the store was in trouble for too long, or a stop came meanwhile.
    Unreadable(StoreError),
}

impl From<NotReady> for Obstacle {
    fn from(lacking: NotReady) -> Self {
        Obstacle::Lacks(Box::new(lacking))
    }
}

/// A child that cannot begin or go on here.
pub(super) struct NotReady {
    pub(super) assignment: Assignment,
    /// What it lacks, in words for whoever asked for it.
    pub(super) problem: String,
    /// What an earlier attempt recorded.
    pub(super) recorded: Option<Recorded>,
}

/// What a child works with, apart from its messages.
struct Equipment {
    model: Arc<dyn Model>,
    contract: Option<Contract>,
    worktree: Option<Worktree>,
}

/// Prepares the child of an assignment, or says what it lacks. What an earlier attempt recorded is read first: it stands
/// whatever else is lacking.
pub(super) async fn ready(
    shared: &Shared,
    assignment: Assignment,
    line: Arc<dyn Line>,
) -> Result<Ready, Obstacle> {
    let (journal, recorded) = match journal(shared, &assignment, &line).await {
        Ok(read) => read,
        Err(error) if error.may_pass() => return Err(Obstacle::Unreadable(error)),
        Err(error) => {
            let problem = format!("what an earlier attempt recorded cannot be read: {error}");
            return Err(NotReady { assignment, problem, recorded: None }.into());
        }
    };
    match equipment(shared, &assignment, recorded.as_ref()).await {
        Ok(equipment) => furnished(shared, (assignment, equipment), (journal, recorded), line).await,
        Err(problem) => Err(NotReady { assignment, problem, recorded }.into()),
    }
}

async fn equipment(
    shared: &Shared,
    assignment: &Assignment,
    recorded: Option<&Recorded>,
) -> Result<Equipment, String> {
    check_folder(Path::new(&assignment.setting.folder)).await?;
    let model = shared.parts.models.model(&assignment.setting.route)?;
    let contract = contract(&assignment.task)?;
    let worktree = worktree(shared, assignment, recorded).await?;
    Ok(Equipment { model, contract, worktree })
}

/// The agent with everything that it works with, and what it has said and heard so far.
async fn furnished(
    shared: &Shared,
    (mut assignment, equipment): (Assignment, Equipment),
    (journal, recorded): (Journal, Option<Recorded>),
    line: Arc<dyn Line>,
) -> Result<Ready, Obstacle> {
    let Equipment { model, contract, worktree } = equipment;
    let room = Room::of(model.facts().window);
    if let Some(worktree) = &worktree {
        line.tell(LineEvent::Note(format!("works in the worktree {}", worktree.path.display())));
        assignment.setting.folder = worktree.folder.display().to_string();
    }
    let (setting, context, start) = match recorded {
        // Its rights are those that it was given, whatever would be given today.
        Some(recorded) => {
            let context = Context::new(recorded.messages.clone());
            (assignment.setting.clone(), context, Start::Resumed(recorded))
        }
        None => {
            let setting = effective(shared, &assignment);
            let standing = setting.rights.allow(DELEGATE_TASK).then_some(standing(shared, &assignment));
            let folder = PathBuf::from(&setting.folder);
            let occasion = Occasion { delegation: assignment.delegation.clone(), folder, room, standing };
            let sight = Sight::of(shared.parts.pictures, model.as_ref(), &setting);
            let first = first_message(&assignment.task, worktree.as_ref(), sight, &*line).await;
            match opening(shared, occasion, &assignment.task, first).await {
                Ok(context) => (setting, context, Start::Fresh),
                Err(problem) => return Err(NotReady { assignment, problem, recorded: None }.into()),
            }
        }
    };
    let tools = shared.tools.specs(&shared.parts.toolbox, &setting.rights);
    let agent = Agent {
        model,
        toolbox: Arc::clone(&shared.parts.toolbox),
        offered: room.offered(tools, &assignment.task.goal),
        site: Arc::new(site(shared, assignment, setting, line)),
        facts: Arc::clone(&shared.parts.facts),
        limits: shared.parts.limits,
        contract,
    };
    Ok(Ready { agent, journal, context, start })
}

/// The child's own worktree, if it is to have one.
async fn worktree(
    shared: &Shared,
    assignment: &Assignment,
    recorded: Option<&Recorded>,
) -> Result<Option<Worktree>, String> {
    let need = match (assignment.setting.isolation, assignment.attempt, recorded.is_some()) {
        (Isolation::Shared, _, _) => return Ok(None),
        (Isolation::Worktree, _, true) => Need::Known,
        (Isolation::Worktree, 0 | 1, false) => Need::New,
        (Isolation::Worktree, _, false) => Need::Unbegun,
    };
    let folder = Path::new(&assignment.setting.folder);
    let tenant = Tenant { child: &assignment.child, fence: &assignment.fence, folder };
    shared.worktrees.take(tenant, need).await.map(Some)
}

/// The child's journal, with what an earlier attempt recorded in it.
async fn journal(
    shared: &Shared,
    assignment: &Assignment,
    line: &Arc<dyn Line>,
) -> Result<(Journal, Option<Recorded>), StoreError> {
    let patience = Patience::on(Arc::clone(line), shared.parts.limits.store_trouble_max)
        .telling(Arc::clone(&shared.trouble));
    let store = || Arc::clone(&shared.parts.store);
    let (actor, fence) = (Actor::Child(assignment.child.clone()), assignment.fence.clone());
    let (mut journal, recorded) = if assignment.attempt <= 1 {
        (Journal::fresh(store(), actor, fence), None)
    } else {
        let mut trial = patience.begin();
        let (journal, recorded) = loop {
            match Journal::open(store(), actor.clone(), fence.clone()).await {
                Ok(opened) => break opened,
                Err(error) => trial.failed(error).await?,
            }
        };
        // An attempt that was cut off before its first commit has left nothing to go on from.
        (journal, Some(recorded).filter(|recorded| !recorded.messages.is_empty()))
    };
    journal.be_patient(patience);
    Ok((journal, recorded))
}

/// The goal with a note about the worktree (WT-4), and the pictures, which come behind both (BUILD-26).
async fn first_message(task: &Task, worktree: Option<&Worktree>, sight: Sight, line: &dyn Line) -> Message {
    let goal = match worktree {
        None => task.goal.clone(),
        Some(worktree) => format!("{}\n\n{}", task.goal, worktree::note(worktree)),
    };
    let (first, missing) = pictures::shown(goal, task.images.clone(), sight).await;
    for why in missing {
        tracing::warn!(%why, "a picture of a task is not shown");
        line.tell(LineEvent::Note(format!("a picture is not shown: {why}")));
    }
    first
}

/// The system text, and the first message.
async fn opening(
    shared: &Shared,
    occasion: Occasion,
    task: &Task,
    first: Message,
) -> Result<Context, String> {
    let own = prompt::own(task.context.as_deref(), task.output_schema.as_ref());
    let system = shared.prompt.message(occasion, own).await?;
    Ok(Context::new(vec![system, Arc::new(first)]))
}

/// What the answer must meet. The schema was found to be one when the task was accepted.
pub(super) fn contract(task: &Task) -> Result<Option<Contract>, String> {
    let contract = task.output_schema.as_ref().map(Contract::of).transpose();
    contract.map_err(|error| format!("the output_schema of the task is no valid JSON Schema: {error}"))
}

fn site(shared: &Shared, assignment: Assignment, setting: Setting, line: Arc<dyn Line>) -> Site {
    let Assignment { child, session, depth, fence, .. } = assignment;
    Site {
        spill: shared.parts.spill.clone(),
        lineage: Lineage { parent: Some(child.clone()), depth, ..Lineage::of_session(session) },
        actor: Actor::Child(child),
        fence,
        setting,
        reach: Reach::Joined,
        line: SharedParking::over(line),
    }
}

async fn check_folder(folder: &Path) -> Result<(), String> {
    match tokio::fs::metadata(folder).await {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(format!("the working folder {} is not a folder", folder.display())),
        Err(error) => Err(format!("the working folder {} cannot be used: {error}", folder.display())),
    }
}

fn standing(shared: &Shared, assignment: &Assignment) -> Standing {
    Standing { depth: assignment.depth, depth_max: shared.parts.depth_max }
}

/// The setting as it holds for a child that begins now: one that stands too deep may not delegate, whatever its rights say.
fn effective(shared: &Shared, assignment: &Assignment) -> Setting {
    let mut setting = assignment.setting.clone();
    if !standing(shared, assignment).may_delegate() {
        setting.rights.tools.remove(DELEGATE_TASK);
    }
    setting
}
