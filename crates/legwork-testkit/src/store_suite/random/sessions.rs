//! Random calls about sessions: who has them open, what they are called, what they say.

use super::appends::OWNERS;
use super::calls::{self, SESSIONS};
use super::pair::Pair;
use crate::store_suite::sample;
use legwork_core::ids::{OwnerId, SessionId};
use legwork_core::message::{Author, Message};
use legwork_core::ports::Turn;

pub(super) async fn append_turn(pair: &mut Pair) {
    let session = sample::session_id(pair.dice.upto(SESSIONS));
    let turn = random_turn(pair, &session).await;
    pair.both(&turn, |store| store.append_turn(turn.clone())).await;
}

/// A turn that mostly fits.
pub(super) async fn random_turn(pair: &mut Pair, session: &SessionId) -> Turn {
    let history = pair.reference.history(session).await.expect("memory can be read");
    let off = u64::from(pair.dice.chance(15));
    let author = pair.dice.pick(&[Author::User, Author::Completion]);
    let text = format!("message at {}", pair.at().0);
    Turn {
        session: session.clone(),
        writer: likely_writer(pair, session).await,
        expected_messages: history.len() as u64 + off,
        at: pair.at(),
        messages: vec![Message::text(author, text); pair.dice.below(3)],
        acknowledge: if pair.dice.chance(40) { calls::some_claims(pair).await } else { vec![] },
    }
}

/// Mostly the process that has the session open.
pub(super) async fn likely_writer(pair: &mut Pair, session: &SessionId) -> OwnerId {
    let record = pair.reference.session(session).await.expect("memory can be read");
    let holder = record.and_then(|record| record.holder).filter(|_| pair.dice.chance(90));
    holder.map_or_else(|| sample::owner_id(pair.dice.upto(OWNERS)), |holder| holder.id)
}

pub(super) async fn hold_or_let_go(pair: &mut Pair) {
    let id = sample::session_id(pair.dice.upto(SESSIONS));
    let owner = sample::owner_id(pair.dice.upto(OWNERS));
    match pair.dice.below(9) {
        0..4 => {
            let dead = pair.dice.chance(40).then(|| sample::owner_id(pair.dice.upto(OWNERS)));
            let what = (&id, &owner, &dead);
            pair.both(&what, |store| store.hold_session(&id, &owner, dead.as_ref())).await;
        }
        4..6 => {
            let owner = likely_writer(pair, &id).await;
            pair.both(&(&id, &owner), |store| store.release_session(&id, &owner)).await;
        }
        6 => {
            let name = pair.dice.pick(&[None, Some("one"), Some("two")]);
            pair.both(&(&id, name), |store| store.rename_session(&id, name)).await;
        }
        7 => {
            let owner = likely_writer(pair, &id).await;
            pair.both(&(&id, &owner), |store| store.discard_session(&id, &owner)).await;
        }
        _ => pair.both(&id, |store| store.delete_session(&id)).await,
    }
}
