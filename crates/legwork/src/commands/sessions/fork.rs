//! `legwork sessions fork`: a new session with a copy of the conversation. It owns nothing of the old one: what was
//! delegated there comes back there.

use legwork_core::ports::{Conversations, NewSession, SessionRecord, StoreError, Turn};
use legwork_sqlite::SqliteStore;
use serde_json::json;

use super::ForkArgs;
use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::owner::{self, Owner};
use crate::{lookup, session_choice, state, stdout};

/// Makes the copy and prints its id.
///
/// # Errors
/// When there is no such session, there is nothing in it, the name is taken, or the store cannot be used. No copy is left
/// then.
pub async fn run(invocation: &Invocation, args: &ForkArgs) -> Result<(), CliError> {
    let name = args.name.as_deref().map(session_choice::name).transpose()?;
    let typed = &args.session.id;
    let store = state::open_to_change(invocation).await?.ok_or_else(|| lookup::unknown(typed))?;
    let from = lookup::session(invocation, &store, typed).await?;
    if from.messages == 0 {
        let message = format!("there is nothing in {} to copy", from.session.id);
        return Err(CliError::new(Kind::Refused, message));
    }
    if let Some(name) = &name {
        refuse_taken(&store, &from.session.folder, name).await?;
    }
    let owner = owner::enter(store.as_ref()).await?;
    let session = NewSession {
        id: owner.new_session(),
        name,
        kind: from.session.kind,
        folder: from.session.folder.clone(),
        at: owner.now(),
    };
    let copied = copy(&store, &owner, &from, &session).await?;
    let (id, name) = (&session.id, &session.name);
    if invocation.common.json {
        return stdout::print_json(
            &json!({"session_id": id, "name": name, "forked_from": from.session.id, "messages": copied}),
        );
    }
    stdout::print(&format!(
        "{id}: a copy of {} with {copied} messages; `legwork chat --resume {id}` goes on with it",
        from.session.id
    ))
}

/// A name belongs to one session of a folder.
async fn refuse_taken(store: &SqliteStore, folder: &str, name: &str) -> Result<(), CliError> {
    let known = store.sessions(Some(folder)).await?.rows;
    let with = |name: &str| known.iter().find(|known| known.session.name.as_deref() == Some(name));
    let Some(holder) = with(name) else { return Ok(()) };
    let free = (2..).map(|number| format!("{name}-{number}")).find(|free| with(free).is_none());
    let message =
        format!("the name {name:?} is taken in {folder} by {}; nothing was copied", holder.session.id);
    let hint = free.map(|free| format!("`--name {free:?}` is free")).unwrap_or_default();
    Err(CliError::new(Kind::Usage, message).with_hint(hint))
}

/// Copies the history, and removes the new session when that fails.
async fn copy(
    store: &SqliteStore,
    owner: &Owner,
    from: &SessionRecord,
    to: &NewSession,
) -> Result<usize, CliError> {
    let messages = store.history(&from.session.id).await?;
    let copied = messages.len();
    if let Err(error) = store.create_session(to.clone(), &owner.record.id).await {
        // Somebody may have taken the name meanwhile.
        if let (StoreError::Conflict(_), Some(name)) = (&error, &to.name) {
            refuse_taken(store, &to.folder, name).await?;
        }
        return Err(error.into());
    }
    let turn = Turn {
        session: to.id.clone(),
        writer: owner.record.id.clone(),
        expected_messages: 0,
        at: owner.now(),
        messages,
        acknowledge: Vec::new(),
    };
    let written = store.append_turn(turn).await;
    let released = store.release_session(&to.id, &owner.record.id).await;
    if let Err(error) = written.and(released) {
        if let Err(left) = store.delete_session(&to.id).await {
            tracing::warn!(session = %to.id, error = %left, "a copy that is not whole could not be removed");
        }
        return Err(error.into());
    }
    Ok(copied)
}
