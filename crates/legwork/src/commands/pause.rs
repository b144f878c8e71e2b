//! `legwork pause on|off`: the switch that keeps new children from starting in every process of the state folder, and lets
//! them start again. Running ones go on (KILL-1).

use legwork_core::ports::{Facts, Pause};
use serde_json::json;

use crate::args::{PauseArgs, PauseSwitch};
use crate::failure::{CliError, Exit};
use crate::invocation::Invocation;
use crate::owner::Owner;
use crate::{state, stdout};

/// How the switch stands after the command, and whether the command moved it.
struct Standing {
    paused: bool,
    changed: bool,
}

/// Sets the switch, or says how it stands.
///
/// # Errors
/// When the state folder cannot be used, or the answer not be written.
pub async fn run(invocation: &Invocation, args: &PauseArgs) -> Result<Exit, CliError> {
    let standing = match args.switch {
        None => Standing { paused: is_paused(invocation).await?, changed: false },
        Some(PauseSwitch::On) => {
            let store = state::open_to_work(invocation)?;
            Standing { paused: true, changed: store.set_pause(Pause::On, Owner::new().now()).await? }
        }
        Some(PauseSwitch::Off) => match state::open_to_change(invocation).await? {
            Some(store) => {
                Standing { paused: false, changed: store.set_pause(Pause::Off, Owner::new().now()).await? }
            }
            None => Standing { paused: false, changed: false },
        },
    };
    if invocation.common.json {
        stdout::print_json(&json!({"paused": standing.paused, "changed": standing.changed}))?;
    } else {
        stdout::print(text(args.switch, &standing))?;
    }
    Ok(Exit::Success)
}

async fn is_paused(invocation: &Invocation) -> Result<bool, CliError> {
    match state::open_to_look(invocation).await? {
        Some(store) => state::is_paused(&store).await,
        None => Ok(false),
    }
}

fn text(switch: Option<PauseSwitch>, standing: &Standing) -> &'static str {
    match (switch, standing.paused, standing.changed) {
        (Some(_), true, false) => "it was paused already; `legwork pause off` ends it",
        (Some(_), false, false) => "there was no pause",
        (Some(_), false, true) => "the pause is over: subagents that wait start, and new ones may",
        (None, false, _) => "there is no pause: new subagents may start",
        (None | Some(_), true, _) => {
            "paused: no new subagent starts in any process of this state folder, running ones go on; `legwork pause off` \
             ends it"
        }
    }
}
