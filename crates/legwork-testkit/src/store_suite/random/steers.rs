//! Random stops and steers, what becomes of them, and the pause.

use super::appends::{self, DELEGATIONS};
use super::pair::Pair;
use crate::store_suite::sample;
use legwork_core::ids::RequestId;
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::Pause;
use legwork_core::steering::{Request, Scope, Wish};
use legwork_core::step::{Actor, StepChange};

/// Requests that there can be.
const REQUESTS: u32 = 25;

pub(super) async fn ask_or_settle(pair: &mut Pair) {
    let id = RequestId::from_bits(u64::from(pair.dice.upto(REQUESTS)));
    let (owner, at) = (sample::owner_id(1), pair.at());
    match pair.dice.below(10) {
        0..7 => {
            let request = random_request(pair, id);
            pair.both(&request, |store| store.ask(request.clone())).await;
        }
        7..9 => pair.both(&id, |store| store.settle_request(&id, &owner, at)).await,
        _ => {
            let pause = if pair.dice.chance(50) { Pause::On } else { Pause::Off };
            pair.both(&pause, |store| store.set_pause(pause, at)).await;
        }
    }
}

fn random_request(pair: &mut Pair, id: RequestId) -> Request {
    let accepted = appends::accepted(pair.dice.upto(DELEGATIONS));
    let child = Scope::Child(pair.dice.pick(&accepted.children));
    let at = pair.at();
    if pair.dice.chance(30) {
        let scope = pair.dice.pick(&[Scope::All, Scope::Session(accepted.lineage.session), child]);
        let wish = Wish::Stop { reason: StopReason::Cancelled, force: Force::Ask };
        return Request { id, at, scope, wish };
    }
    let scope = if pair.dice.chance(3) { Scope::All } else { child };
    Request { id, at, scope, wish: Wish::Steer { text: format!("text at {}", at.0) } }
}

/// Steers for a write to take in: mostly those of its actor, and mostly in a step that begins there.
pub(super) async fn some_seen(
    pair: &mut Pair,
    actor: &Actor,
    changes: &[StepChange],
) -> Vec<(RequestId, u32)> {
    let mut seen = Vec::new();
    if let Actor::Child(child) = actor {
        let steers = pair.reference.steers(child).await.expect("memory can be read").rows;
        seen.extend(steers.into_iter().map(|steer| steer.request.id).filter(|_| pair.dice.chance(30)));
    }
    if pair.dice.chance(3) {
        seen.push(RequestId::from_bits(u64::from(pair.dice.upto(REQUESTS))));
    }
    let begun = changes.iter().find_map(|change| match change {
        StepChange::Intend { seq, .. } => Some(*seq),
        StepChange::Finish { .. } | StepChange::Fail { .. } => None,
    });
    let step = begun.filter(|_| pair.dice.chance(95)).unwrap_or(2);
    seen.into_iter().map(|request| (request, step)).collect()
}
