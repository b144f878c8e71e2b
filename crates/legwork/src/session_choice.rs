//! What can be done with a stored session: whether it is a conversation, whether it can be opened here, and what it may be
//! called.
//!
//! What is said in it then is not the business of this page.

use legwork_core::ids::SessionId;
use legwork_core::ports::{Conversations, Held, SessionKind, SessionRecord};
use legwork_core::record::OwnerRecord;
use legwork_sqlite::SqliteStore;

use crate::failure::{CliError, Kind};
use crate::lookup;
use crate::owner::{Owner, is_dead};

/// Characters of a name.
const NAME_MAX: usize = 64;
/// How often a session is asked for again whose holder turned out to be dead.
const HOLD_TRIES: usize = 3;
/// How the ids begin that a name must not be taken for.
const ID_SIGNS: [&str; 7] = ["ses_", "deleg_", "sa-", "own_", "clm_", "req_", "-"];

/// Whether somebody talked in it, or may. What `delegate` makes only owns its results.
pub fn is_conversation(record: &SessionRecord) -> bool {
    match record.session.kind {
        SessionKind::Chat | SessionKind::Run => true,
        SessionKind::Shell => false,
    }
}

/// Opens a session for this process, also after the process that had it open has died.
///
/// # Errors
/// When another process has it open, or it is gone.
pub async fn hold(store: &SqliteStore, owner: &Owner, id: &SessionId) -> Result<(), CliError> {
    let mut dead = None;
    let mut tries = 0;
    loop {
        tries += 1;
        match store.hold_session(id, &owner.record.id, dead.as_ref()).await? {
            Held::Here => return Ok(()),
            Held::Unknown => return Err(lookup::unknown(id.as_str())),
            Held::By(holder) if tries < HOLD_TRIES && is_dead(&holder) => dead = Some(holder.id),
            Held::By(holder) => return Err(open_elsewhere(id, &holder)),
        }
    }
}

/// The process that has the session open, as far as can be told.
pub fn holder_alive(record: &SessionRecord) -> Option<&OwnerRecord> {
    record.holder.as_ref().filter(|holder| !is_dead(holder))
}

/// The failure when a session is open in another process.
pub fn open_elsewhere(id: &SessionId, holder: &OwnerRecord) -> CliError {
    let message = format!("the session {id} is open in process {}", holder.process.pid);
    CliError::new(Kind::OpenElsewhere, message).with_hint(format!(
        "end it there first; `legwork show {id}`, `steer` and `stop` work meanwhile, and `legwork sessions fork {id}` makes a copy"
    ))
}

/// A name for a session: one that cannot be taken for an id or an option.
///
/// # Errors
/// When it can, or is empty, too long or not printable.
pub fn name(typed: &str) -> Result<String, CliError> {
    let wrong = |what: String| {
        Err(CliError::new(Kind::Usage, format!("{what}: {}", lookup::shortened(typed)))
            .with_hint(format!("a name has 1 to {NAME_MAX} characters and no line ends, such as `release`")))
    };
    let length = typed.chars().count();
    if typed.trim().is_empty() {
        return wrong("a session cannot have an empty name".to_owned());
    }
    if length > NAME_MAX {
        return wrong(format!("a name of {length} characters is too long for a session"));
    }
    if typed.trim() != typed || typed.chars().any(char::is_control) {
        return wrong("a session's name has no blanks around it and no control characters".to_owned());
    }
    match ID_SIGNS.iter().find(|sign| typed.starts_with(**sign)) {
        Some(sign) => wrong(format!("a session's name must not begin with `{sign}`")),
        None => Ok(typed.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k42_a_name_is_never_taken_for_an_id() {
        for right in ["release", "Über 2", "session", "a-b"] {
            assert_eq!(name(right).expect("it is right"), right);
        }
        let long = "x".repeat(NAME_MAX + 1);
        for wrong in ["", "  ", " a", "a\n", "a\u{1b}[2Jb", "ses_1", "deleg_x", "sa-0", "-x", long.as_str()] {
            let error = name(wrong).expect_err("it is wrong");
            assert_eq!(error.kind(), Kind::Usage, "{wrong:?}");
        }
    }
}
