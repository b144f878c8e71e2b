//! Offers facts to the store when its answers may be wrong in one way: it answers with an error and has recorded them all the
//! same. After an error, and where it refuses something, what it has is read.
//!
//! It does not decide what becomes of facts that are not recorded.

use legwork_core::fact::{Append, Fact};
use legwork_core::ids::DelegationId;
use legwork_core::ports::{AppendError, Store, StoreError};
use legwork_core::record::DelegationRecord;
use std::collections::{HashMap, HashSet};

/// What became of facts that were offered, in their order.
pub(crate) struct Offered {
    pub(crate) fates: Vec<Became>,
    /// The first failure of the store, whatever it has recorded.
    pub(crate) error: Option<StoreError>,
}

/// What became of one append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Became {
    /// The store has it, from this offer or an earlier one.
    Recorded,
    /// It does not fit.
    Refused(AppendError),
    /// The store failed, and does not have it.
    Absent,
    /// The store failed, and does not tell whether it has it.
    Unclear,
}

/// Offers facts in one commit. They may have been offered before, and what did not fail in the end may be offered again.
pub(crate) async fn offer(store: &dyn Store, appends: &[Append]) -> Offered {
    let Told { answers, mut error } = told(store, appends).await;
    let mut looked: HashMap<&DelegationId, Result<Option<DelegationRecord>, StoreError>> = HashMap::new();
    let mut fates = Vec::with_capacity(appends.len());
    for (append, told) in appends.iter().zip(answers) {
        if told == Some(Ok(())) {
            fates.push(Became::Recorded);
            continue;
        }
        if !looked.contains_key(&append.delegation) {
            looked.insert(&append.delegation, store.delegation(&append.delegation).await);
        }
        fates.push(match (&looked[&append.delegation], told) {
            (Ok(Some(record)), _) if holds(record, append) => Became::Recorded,
            (Ok(_), Some(Err(refusal))) => Became::Refused(refusal),
            (Ok(_), Some(Ok(())) | None) => Became::Absent,
            // What cannot be read takes nothing, and no other look will tell more.
            (Err(StoreError::Corrupt(_)), Some(Err(refusal @ AppendError::Unreadable(_)))) => {
                Became::Refused(refusal)
            }
            (Err(unreadable), _) => {
                error.get_or_insert_with(|| unreadable.clone());
                Became::Unclear
            }
        });
    }
    Offered { fates, error }
}

/// What the store answered.
struct Told {
    /// To each append; none where the store failed.
    answers: Vec<Option<Result<(), AppendError>>>,
    error: Option<StoreError>,
}

/// Offers them together. What finds no room does not keep out what may find some: the facts of each delegation are then offered
/// by themselves.
async fn told(store: &dyn Store, appends: &[Append]) -> Told {
    let error = match store.append(appends.to_vec()).await {
        Ok(answers) => return Told { answers: answers.into_iter().map(Some).collect(), error: None },
        Err(error) => error,
    };
    let mut told = Told { answers: vec![None; appends.len()], error: Some(error) };
    let is_one = appends.iter().all(|append| append.delegation == appends[0].delegation);
    if matches!(told.error, Some(StoreError::Full(_))) && !is_one {
        one_by_one(store, appends, &mut told).await;
    }
    told
}

/// As many commits as there are delegations, as long as nothing else than room is lacking.
async fn one_by_one(store: &dyn Store, appends: &[Append], told: &mut Told) {
    told.error = None;
    let mut tried = HashSet::new();
    for Append { delegation, .. } in appends {
        if !tried.insert(delegation) {
            continue;
        }
        let places: Vec<usize> =
            (0..appends.len()).filter(|place| appends[*place].delegation == *delegation).collect();
        let own = places.iter().map(|place| appends[*place].clone()).collect();
        match store.append(own).await {
            Ok(answers) => {
                for (place, answer) in places.into_iter().zip(answers) {
                    told.answers[place] = Some(answer);
                }
            }
            Err(error) => {
                let lacks_room = matches!(error, StoreError::Full(_));
                told.error.get_or_insert(error);
                if !lacks_room {
                    return;
                }
            }
        }
    }
}

/// Whether the append makes a delegation.
pub(crate) fn is_new(append: &Append) -> bool {
    append.facts.iter().any(|fact| matches!(fact, Fact::Accepted(_)))
}

/// Whether what is stored of a delegation has these facts. Nobody else writes facts under the id and epoch of their writer, and
/// it writes them in their order, so their number tells.
fn holds(record: &DelegationRecord, append: &Append) -> bool {
    let is_ours = record.owner.id == append.owner && record.epoch == append.epoch;
    let has_all = record.seq >= append.expected_seq + append.facts.len() as u64;
    let is_same = append.facts.iter().all(|fact| match fact {
        Fact::Accepted(accepted) => record.accepted.children == accepted.children,
        Fact::Moved { .. } | Fact::Noticed { .. } | Fact::UnitSettled { .. } => true,
    });
    is_ours && has_all && is_same
}
