//! `legwork sessions export`: a conversation whole, to read or for another program.

use legwork_core::message::Message;
use legwork_core::ports::{Conversations, Listed};
use legwork_core::record::DelegationRecord;
use serde_json::{Value, json};

use super::digest;
use super::markdown;
use super::{ExportArgs, Format};
use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::{orphans, stdout};

/// Prints all messages as they are stored.
///
/// # Errors
/// When there is no such session, the formats contradict each other, or the state folder cannot be used.
pub async fn run(invocation: &Invocation, args: &ExportArgs) -> Result<(), CliError> {
    let format = format(args.format, invocation.common.json)?;
    let (store, digest) = digest::find(invocation, &args.session.id).await?;
    let messages = store.history(&digest.record.session.id).await?;
    let Listed { rows: delegations, unreadable } =
        digest::delegations(&store, &digest.record.session.id).await?;
    orphans::tell_unreadable(&unreadable);
    match format {
        Format::Md => stdout::print(markdown::page(&digest, &messages, &delegations).trim_end()),
        Format::Json => {
            let mut fields = digest.to_json();
            let history = messages.iter().map(|message| stored(message, &delegations));
            fields.insert("history".to_owned(), history.collect());
            fields
                .insert("delegations".to_owned(), delegations.iter().map(digest::delegation_json).collect());
            stdout::print_json(&Value::Object(fields))
        }
    }
}

/// A message as it is stored, with what tells a completion from what somebody said.
fn stored(message: &Message, delegations: &[DelegationRecord]) -> Value {
    let mut fields = json!(message);
    if let Some((kind, metadata)) = digest::completion_json(message, delegations) {
        (fields["display_kind"], fields["metadata"]) = (kind, metadata);
    }
    fields
}

fn format(asked: Option<Format>, json: bool) -> Result<Format, CliError> {
    match (asked, json) {
        (Some(Format::Md), true) => {
            Err(CliError::new(Kind::Usage, "--json and --format md contradict each other")
                .with_hint("leave one of them out"))
        }
        (Some(Format::Json), _) | (None, true) => Ok(Format::Json),
        (Some(Format::Md) | None, false) => Ok(Format::Md),
    }
}
