//! `legwork dismiss ID`: gives undelivered results up, by name and never otherwise. What still runs, is about to arrive or
//! has arrived is left alone, and it is said why.

use legwork_core::delivery::DeliveryState;
use legwork_core::ids::UnitId;
use legwork_core::ports::Facts;
use legwork_core::record::DelegationRecord;
use legwork_core::taking::UnitAt;
use legwork_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::args::DismissArgs;
use crate::failure::{CliError, Exit, Kind};
use crate::invocation::Invocation;
use crate::lookup::{self, Target};
use crate::owner::{Owner, is_dead};
use crate::whereabouts::Whereabouts;
use crate::{state, stdout, wording};

/// What the ledger says when no reason was given.
const REASON: &str = "given up by name, from the command line";
const REASON_WIDTH: usize = 500;
/// How often a unit is looked at again that moved meanwhile.
const LOOKS_MAX: usize = 3;

/// What became of one unit.
struct Verdict {
    unit: UnitId,
    state: DeliveryState,
    dismissed: bool,
    /// Where its results are, for those that were left.
    sentence: String,
}

/// Gives up what can be given up.
///
/// # Errors
/// When there is no such delegation or unit, nothing of it could be given up although something is undelivered, or the
/// store cannot be used.
pub async fn run(invocation: &Invocation, args: &DismissArgs) -> Result<Exit, CliError> {
    let reason = reason(args.reason.as_deref())?;
    let store = state::open_to_change(invocation).await?.ok_or_else(|| lookup::unknown(&args.id))?;
    let target = lookup::find(invocation, &store, &args.id).await?.of_delegation(&args.id)?;
    let (record, places) = units(target, &args.id)?;
    let owner = Owner::new();
    let mut verdicts = Vec::new();
    for place in places {
        verdicts.push(judge((invocation, &store), &owner, UnitAt { record: &record, place }, &reason).await?);
    }
    refuse_if_nothing_went(&record, &verdicts)?;
    if invocation.common.json {
        stdout::print_json(&to_json(&record, &verdicts))?;
    } else {
        stdout::print(&to_text(&verdicts))?;
    }
    Ok(Exit::Success)
}

fn reason(typed: Option<&str>) -> Result<String, CliError> {
    let Some(typed) = typed else { return Ok(REASON.to_owned()) };
    let reason = wording::one_line(typed, REASON_WIDTH);
    if reason.is_empty() {
        return Err(CliError::new(Kind::Usage, "the reason is empty")
            .with_hint("say why the results are given up, or leave --reason out"));
    }
    Ok(reason)
}

/// The delegation, and the positions of the units that are meant.
fn units(target: Target, typed: &str) -> Result<(Box<DelegationRecord>, Vec<usize>), CliError> {
    match target {
        Target::Delegation(record) => {
            let all = (0..record.accepted.units.len()).collect();
            Ok((record, all))
        }
        Target::Unit(record, place) => Ok((record, vec![place])),
        Target::Child(record, task_index) => {
            let unit = record.accepted.units.iter().find(|unit| unit.task_indexes.contains(&task_index));
            let unit = unit.map_or(record.accepted.delegation.as_str(), |unit| unit.id.as_str());
            let message = format!(
                "{} is a child; results arrive by unit, and its unit is {unit}",
                lookup::shortened(typed)
            );
            Err(CliError::new(Kind::Usage, message)
                .with_hint(format!("`legwork dismiss {unit}` gives that up")))
        }
        Target::Session(_) => Err(lookup::unknown(typed)),
    }
}

/// Gives one unit up if that can be done, and says where it is otherwise.
async fn judge(
    (invocation, store): (&Invocation, &SqliteStore),
    owner: &Owner,
    UnitAt { record, place }: UnitAt<'_>,
    reason: &str,
) -> Result<Verdict, CliError> {
    let unit = &record.accepted.units[place].id;
    let mut seen = record.clone();
    let mut dismissed = false;
    for _ in 0..LOOKS_MAX {
        dismissed = match &seen.deliveries[place].state {
            DeliveryState::Ready { .. } | DeliveryState::Parked(_) => {
                store.dismiss(unit, owner.now(), reason).await?
            }
            DeliveryState::Claimed { claim, .. } => {
                owner.taker(store).free(claim, seen.deliveries[place].claimant()).await?
                    && store.dismiss(unit, owner.now(), reason).await?
            }
            DeliveryState::Held | DeliveryState::Delivered | DeliveryState::Dismissed => false,
        };
        let id = &record.accepted.delegation;
        seen = store.delegation(id).await?.ok_or_else(|| lookup::unknown(id.as_str()))?;
        let may_go =
            matches!(seen.deliveries[place].state, DeliveryState::Ready { .. } | DeliveryState::Parked(_));
        if dismissed || !may_go {
            break;
        }
    }
    let sentence = Whereabouts::of(invocation, store, &seen, place).await?.sentence();
    Ok(Verdict { unit: unit.clone(), state: seen.deliveries[place].state.clone(), dismissed, sentence })
}

/// Nothing was given up, and something of it has not arrived: that is not what was asked for.
fn refuse_if_nothing_went(record: &DelegationRecord, verdicts: &[Verdict]) -> Result<(), CliError> {
    let open: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.state.is_final()).collect();
    if open.is_empty() || verdicts.iter().any(|verdict| verdict.dismissed) {
        return Ok(());
    }
    let lines: Vec<String> = open.iter().map(|verdict| verdict.line()).collect();
    // A stop of the whole delegation would end what nobody has named.
    let id = match verdicts {
        [unit] => unit.unit.as_str(),
        _several => record.accepted.delegation.as_str(),
    };
    let running = open.iter().any(|verdict| verdict.state == DeliveryState::Held);
    let hint = match (running, is_dead(&record.owner)) {
        (true, true) => format!(
            "`legwork results {id} --wait` goes on with the work and prints what comes of it; `legwork stop {id}` ends it"
        ),
        (true, false) => format!(
            "`legwork stop {id}` ends the work first; what it had produced is kept until you give that up"
        ),
        (false, _) => format!("`legwork show {id}` tells whether it has arrived"),
    };
    Err(CliError::new(Kind::Refused, format!("nothing was given up: {}", lines.join("\n"))).with_hint(hint))
}

impl Verdict {
    fn line(&self) -> String {
        if self.dismissed {
            format!("{}: given up; it can be read until it is cleared away", self.unit)
        } else {
            format!("{}: left: {}", self.unit, self.sentence)
        }
    }
}

fn to_text(verdicts: &[Verdict]) -> String {
    verdicts.iter().map(Verdict::line).collect::<Vec<_>>().join("\n")
}

fn to_json(record: &DelegationRecord, verdicts: &[Verdict]) -> Value {
    let (gone, left): (Vec<&Verdict>, Vec<&Verdict>) = verdicts.iter().partition(|verdict| verdict.dismissed);
    let gone: Vec<&UnitId> = gone.iter().map(|verdict| &verdict.unit).collect();
    let left: Vec<Value> = left
        .iter()
        .map(|verdict| {
            json!({"unit_id": verdict.unit, "delivery": verdict.state.as_str(), "where": verdict.sentence})
        })
        .collect();
    json!({"delegation_id": record.accepted.delegation, "dismissed": gone, "left": left})
}
