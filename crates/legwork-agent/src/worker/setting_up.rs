//! Makes an agent out of an assignment: its place, its model, its rights, its tools and its first messages.
//!
//! Everything that can be wrong with an assignment is found here, before anything is asked or run.

use super::local::Shared;
use super::parking::SharedParking;
use super::shared_prompt::Occasion;
use crate::prompt::Standing;
use crate::room::Room;
use crate::tools::{DELEGATE_TASK, Site};
use crate::turn::Agent;
use legwork_core::batch::{Lineage, Setting};
use legwork_core::message::{Author, Message};
use legwork_core::ports::{Assignment, Line};
use legwork_core::step::Actor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A child that can begin.
pub(super) struct Ready {
    pub(super) agent: Agent,
    /// The system text and the goal.
    pub(super) opening: Vec<Arc<Message>>,
}

/// Prepares the child of an assignment, or says what it lacks.
pub(super) async fn ready(
    shared: &Shared,
    assignment: Assignment,
    line: Arc<dyn Line>,
) -> Result<Ready, String> {
    if assignment.attempt > 1 {
        return Err(format!(
            "this is attempt {}, and resuming a child from its journal is not built yet; ask for the task again",
            assignment.attempt,
        ));
    }
    let folder = PathBuf::from(&assignment.setting.folder);
    check_folder(&folder).await?;
    let model = shared.parts.models.model(&assignment.setting.route)?;
    let room = Room::of(model.facts().window);
    let setting = effective(shared, &assignment);
    let standing = setting.rights.allow(DELEGATE_TASK).then_some(standing(shared, &assignment));
    let occasion = Occasion { delegation: assignment.delegation.clone(), folder, room, standing };
    let system = shared.prompt.message(occasion, assignment.task.context.as_deref()).await?;
    let tools = shared.tools.specs(&shared.parts.toolbox, &setting.rights);
    let offered = room.offered(tools, &assignment.task.goal);
    let opening = vec![system, Arc::new(Message::text(Author::User, assignment.task.goal.clone()))];
    let agent = Agent {
        model,
        toolbox: Arc::clone(&shared.parts.toolbox),
        offered,
        site: Arc::new(site(shared, assignment, setting, line)),
        limits: shared.parts.limits,
    };
    Ok(Ready { agent, opening })
}

fn site(shared: &Shared, assignment: Assignment, setting: Setting, line: Arc<dyn Line>) -> Site {
    let Assignment { child, session, depth, fence, .. } = assignment;
    Site {
        spill: shared.parts.spill.clone(),
        lineage: Lineage { session, parent: Some(child.clone()), depth },
        actor: Actor::Child(child),
        fence,
        setting,
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

/// The setting as it holds for this child: one that stands too deep may not delegate, whatever its rights say.
fn effective(shared: &Shared, assignment: &Assignment) -> Setting {
    let mut setting = assignment.setting.clone();
    if !standing(shared, assignment).may_delegate() {
        setting.rights.tools.remove(DELEGATE_TASK);
    }
    setting
}
