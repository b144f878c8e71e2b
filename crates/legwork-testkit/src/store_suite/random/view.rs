//! Everything that can be read, compared.

use super::appends::{self, DELEGATIONS, OWNERS};
use super::calls::SESSIONS;
use super::pair::Pair;
use crate::store_suite::sample;
use legwork_core::ids::{DelegationId, SessionId};
use legwork_core::ports::{Filter, Pending, Store, StoreError, Undelivered};
use legwork_core::step::Actor;

pub(super) async fn compare_everything(pair: &Pair) {
    for n in 1..=DELEGATIONS {
        compare_delegation(pair, n).await;
    }
    for n in 1..=SESSIONS {
        let id = sample::session_id(n);
        pair.both(&id, |store| store.session(&id)).await;
        pair.both(&id, |store| store.history(&id)).await;
        pair.both(&id, |store| store.undelivered(&id)).await;
        pair.both(&id, |store| in_portions(store, id.clone())).await;
        pair.both(&id, |store| store.steps(&Actor::Session(id.clone()))).await;
        pair.both(&id, |store| store.delegations(Filter::OpenOf(id.clone()))).await;
        pair.both(&id, |store| store.delegations(Filter::Of(id.clone()))).await;
    }
    for n in 1..=OWNERS {
        let id = sample::owner_id(n);
        pair.both(&id, |store| store.groups_of(&id)).await;
    }
    pair.both(&"sessions", |store| store.sessions(Some("/project/1"))).await;
    pair.both(&"open", |store| store.delegations(Filter::Open)).await;
    pair.both(&"recent", |store| store.delegations(Filter::Recent(4))).await;
    pair.both(&"owners", |store| store.owners_of_open()).await;
    for text in ["deleg_", "deleg_00000002", "deleg_00000004-", "sa-0", "sa-1-00000003", "ses_", "x"] {
        pair.both(&text, |store| store.find(text)).await;
    }
    compare_requests(pair).await;
    compare_health(pair).await;
}

/// What is due to a session, read two by two; places only have to grow.
fn in_portions(store: &dyn Store, session: SessionId) -> Pending<'_, Result<Vec<Undelivered>, StoreError>> {
    Box::pin(async move {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let portion = store.due(&session, after, 2).await?;
            let Some(last) = portion.last_place().filter(|last| *last > after) else { return Ok(all) };
            after = last;
            all.extend(portion.rows.into_iter().map(|due| due.due));
        }
    })
}

async fn compare_delegation(pair: &Pair, n: u32) {
    let id = DelegationId::from_bits(n);
    pair.both(&id, |store| store.delegation(&id)).await;
    pair.both(&id, |store| store.delegations(Filter::Below(id.clone()))).await;
    let accepted = appends::accepted(n);
    for child in accepted.children {
        pair.both(&child, |store| store.steers(&child)).await;
        let actor = Actor::Child(child);
        pair.both(&actor, |store| store.steps(&actor)).await;
    }
    let key = sample::call_key(n);
    pair.both(&key, |store| store.by_call_key(&key)).await;
}

/// Without their numbers: those only have to grow.
async fn compare_requests(pair: &Pair) {
    pair.both(&"requests", |store| {
        let news = store.news(0);
        Box::pin(async move {
            let news = news.await?;
            Ok((news.requests.into_iter().map(|(_, request)| request).collect::<Vec<_>>(), news.pause))
        })
    })
    .await;
}

async fn compare_health(pair: &Pair) {
    pair.both(&"health", |store| {
        let health = store.health();
        Box::pin(async move {
            let health = health.await?;
            Ok((health.open, health.undelivered, health.problems))
        })
    })
    .await;
}
