//! What was said to children, and whether they have read it: the fate behind each receipt.

use legwork_core::ids::{ChildId, RequestId};
use legwork_core::ports::Facts;
use legwork_core::steering::{Fate, RequestRecord, Wish};
use legwork_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::failure::CliError;

/// The steers of these children, child by child, oldest first.
///
/// # Errors
/// When the store fails.
pub async fn of(store: &SqliteStore, children: &[ChildId]) -> Result<Vec<Value>, CliError> {
    let mut steers = Vec::new();
    for child in children {
        let said = store.steers(child).await?;
        steers.extend(said.rows.iter().filter_map(|record| steer(child, record)));
        steers.extend(said.unreadable.iter().map(|receipt| unreadable(child, receipt)));
    }
    Ok(steers)
}

/// One that cannot be read: it is there all the same.
fn unreadable(child: &ChildId, receipt: &RequestId) -> Value {
    json!({
        "receipt": receipt,
        "subagent_id": child,
        "at": null,
        "fate": "unreadable",
        "seen_at_step": null,
        "decided_at": null,
        "text": null,
    })
}

/// One steer; a stop is none.
fn steer(child: &ChildId, record: &RequestRecord) -> Option<Value> {
    let Wish::Steer { text } = &record.request.wish else { return None };
    let (fate, step) = match &record.fate {
        Fate::Open => ("queued", None),
        Fate::CarriedOut => ("carried out", None),
        Fate::Seen { step } => ("seen", Some(*step)),
        Fate::Missed => ("missed", None),
    };
    Some(json!({
        "receipt": record.request.id,
        "subagent_id": child,
        "at": record.request.at,
        "fate": fate,
        "seen_at_step": step,
        "decided_at": record.decided_at,
        "text": text,
    }))
}
