//! Sessions: who has them open, what they are called, and their end. Their messages are in `history`.

use super::{fence, owners, prune};
use crate::encoding::{counter, name, to_json};
use crate::failure::Failure;
use legwork_core::ids::{OwnerId, SessionId};
use legwork_core::ports::{Held, Listed, NewSession, SessionKind, SessionRecord};
use legwork_core::record::OwnerRecord;
use legwork_core::steering::Scope;
use legwork_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

const RECORDS: &str = "SELECT o.id, o.boot_id, o.pid, o.start_ticks, o.gone_at IS NOT NULL, \
    s.id, s.name, s.kind, s.folder, s.created_at, s.messages, s.touched_at, s.opening, \
    coalesce((SELECT m.rowid FROM messages m WHERE m.session = s.no ORDER BY m.seq DESC LIMIT 1), 0) \
    FROM sessions s LEFT JOIN owners o ON o.id = s.holder";

/// Creates a session that `holder` has open; an id or a name that is taken is refused.
pub(crate) fn create(connection: &Connection, session: &NewSession, holder: &OwnerId) -> Result<(), Failure> {
    fence::known_owner(connection, holder)?;
    if fence::number_of_session(connection, &session.id)?.is_some() {
        return Err(Failure::conflict(format!("the session id {} is taken", session.id)));
    }
    check_name(connection, &session.id, session.name.as_deref(), &session.folder)?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO sessions (id, name, kind, folder, created_at, messages, touched_at, holder) \
         VALUES (?1, ?2, ?3, ?4, ?5, 0, ?5, ?6)",
    )?;
    let (name, kind) = (session.name.as_deref(), session.kind.as_str());
    statement.execute((
        session.id.as_str(),
        name,
        kind,
        session.folder.as_str(),
        session.at.0,
        holder.as_str(),
    ))?;
    Ok(())
}

/// Refuses a name that another session of the folder has.
fn check_name(
    connection: &Connection,
    id: &SessionId,
    name: Option<&str>,
    folder: &str,
) -> Result<(), Failure> {
    let Some(name) = name else { return Ok(()) };
    let mut statement =
        connection.prepare_cached("SELECT id FROM sessions WHERE folder = ?1 AND name = ?2 AND id <> ?3")?;
    let other = statement.query_row((folder, name, id.as_str()), |row| row.get::<_, String>(0)).optional()?;
    match other {
        Some(other) => Err(Failure::conflict(format!(
            "the name {name:?} is taken in {folder} by {other}; choose another"
        ))),
        None => Ok(()),
    }
}

/// One session.
pub(crate) fn session(connection: &Connection, id: &SessionId) -> Result<Option<SessionRecord>, Failure> {
    let mut statement = connection.prepare_cached(&format!("{RECORDS} WHERE s.id = ?1"))?;
    let mut rows = statement.query((id.as_str(),))?;
    let record = rows.next()?.map(record).transpose();
    record.map_err(|failure| failure.reading(id.as_str()))
}

/// The sessions of a folder, or all, newest first, beside those that cannot be read.
pub(crate) fn sessions(
    connection: &Connection,
    folder: Option<&str>,
) -> Result<Listed<SessionRecord, SessionId>, Failure> {
    let sql = format!("{RECORDS} WHERE ?1 IS NULL OR s.folder = ?1 ORDER BY s.no DESC");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query((folder,))?;
    let mut listed = Listed::default();
    while let Some(row) = rows.next()? {
        match record(row) {
            Ok(record) => listed.rows.push(record),
            Err(failure) if failure.is_damaged_row() => {
                listed.unreadable.push(SessionId::from_stored(name(row, 5)?));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(listed)
}

fn record(row: &Row<'_>) -> Result<SessionRecord, Failure> {
    let is_held = row.get::<_, Option<String>>(0)?.is_some();
    let session = NewSession {
        id: SessionId::from_stored(row.get::<_, String>(5)?),
        name: row.get(6)?,
        kind: kind(&row.get::<_, String>(7)?)?,
        folder: row.get(8)?,
        at: Timestamp(row.get(9)?),
    };
    Ok(SessionRecord {
        session,
        holder: if is_held { known(owners::record(row, 0))? } else { None },
        opening: row.get(12)?,
        messages: counter(row.get(10)?),
        touched_at: Timestamp(row.get(11)?),
        last: counter(row.get(13)?),
    })
}

fn kind(word: &str) -> Result<SessionKind, Failure> {
    let kinds = [SessionKind::Chat, SessionKind::Run, SessionKind::Shell];
    let kind = kinds.into_iter().find(|kind| kind.as_str() == word);
    kind.ok_or_else(|| Failure::corrupt("a session is stored as a kind that there is not"))
}

/// Opens a session for `owner`, unless somebody else than `instead_of` has it.
pub(crate) fn hold(
    connection: &Connection,
    id: &SessionId,
    owner: &OwnerId,
    instead_of: Option<&OwnerId>,
) -> Result<Held, Failure> {
    fence::known_owner(connection, owner)?;
    let Some(no) = fence::number_of_session(connection, id)? else { return Ok(Held::Unknown) };
    if let Some(holder) = holder(connection, no)?
        && holder.id != *owner
        && Some(&holder.id) != instead_of
    {
        return Ok(Held::By(holder));
    }
    let mut statement = connection.prepare_cached("UPDATE sessions SET holder = ?2 WHERE id = ?1")?;
    statement.execute((id.as_str(), owner.as_str()))?;
    Ok(Held::Here)
}

/// The process that has a session open. One whose row cannot be read is nobody who could be found, and keeps nobody out: should it
/// live, it writes nothing more once another process holds the session.
fn known(holder: rusqlite::Result<OwnerRecord>) -> Result<Option<OwnerRecord>, Failure> {
    match holder.optional().map_err(Failure::from) {
        Err(failure) if failure.is_damaged_row() => Ok(None),
        known => known,
    }
}

/// Who has a session open. What else stands in its row is not read: it may be damaged, and is deleted all the same.
fn holder(connection: &Connection, no: i64) -> Result<Option<OwnerRecord>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT o.id, o.boot_id, o.pid, o.start_ticks, o.gone_at IS NOT NULL \
         FROM sessions s JOIN owners o ON o.id = s.holder WHERE s.no = ?1",
    )?;
    known(statement.query_row((no,), |row| owners::record(row, 0)))
}

/// Closes a session that `owner` holds.
pub(crate) fn release(connection: &Connection, id: &SessionId, owner: &OwnerId) -> Result<(), Failure> {
    let mut statement =
        connection.prepare_cached("UPDATE sessions SET holder = NULL WHERE id = ?1 AND holder = ?2")?;
    statement.execute((id.as_str(), owner.as_str()))?;
    Ok(())
}

/// Gives a session a name, or takes it away.
pub(crate) fn rename(connection: &Connection, id: &SessionId, name: Option<&str>) -> Result<(), Failure> {
    let record = session(connection, id)?.ok_or_else(|| unknown(id))?;
    check_name(connection, id, name, &record.session.folder)?;
    let mut statement = connection.prepare_cached("UPDATE sessions SET name = ?2 WHERE id = ?1")?;
    statement.execute((id.as_str(), name))?;
    Ok(())
}

/// Removes a session and what is only its own.
pub(crate) fn delete(connection: &Connection, id: &SessionId) -> Result<(), Failure> {
    let no = fence::number_of_session(connection, id)?.ok_or_else(|| unknown(id))?;
    if let Some(holder) = holder(connection, no)? {
        return Err(Failure::conflict(format!("{id} is open in {}; close it first", holder.claimant())));
    }
    let delegations = removable(connection, id)?;
    for delegation in delegations {
        prune::remove(connection, delegation)?;
    }
    remove(connection, id, no)
}

/// Removes a session that `owner` holds and that nobody has used. `false` when it is not like that.
pub(crate) fn discard(connection: &Connection, id: &SessionId, owner: &OwnerId) -> Result<bool, Failure> {
    let mut unused = connection.prepare_cached(
        "SELECT no FROM sessions WHERE id = ?1 AND holder = ?2 AND messages = 0 \
         AND NOT EXISTS (SELECT 1 FROM delegations WHERE session = ?1)",
    )?;
    let no = unused.query_row((id.as_str(), owner.as_str()), |row| row.get::<_, i64>(0)).optional()?;
    let Some(no) = no else { return Ok(false) };
    remove(connection, id, no)?;
    Ok(true)
}

/// Removes what is only the session's own.
fn remove(connection: &Connection, id: &SessionId, no: i64) -> Result<(), Failure> {
    let scope = to_json(&Scope::Session(id.clone()))?;
    let mut requests = connection.prepare_cached(
        "DELETE FROM requests WHERE CASE WHEN json_valid(body) THEN body -> '$.scope' = ?1 ELSE FALSE END",
    )?;
    requests.execute((scope,))?;
    connection.prepare_cached("DELETE FROM steps WHERE actor = ?1")?.execute((-no,))?;
    connection.prepare_cached("DELETE FROM messages WHERE session = ?1")?.execute((no,))?;
    connection.prepare_cached("DELETE FROM sessions WHERE no = ?1")?.execute((no,))?;
    Ok(())
}

/// The delegations of a session; refused while one of them is not over in all respects.
fn removable(connection: &Connection, id: &SessionId) -> Result<Vec<i64>, Failure> {
    let mut waiting =
        connection.prepare_cached("SELECT id FROM units WHERE due_to = ?1 AND place >= 0 LIMIT 1")?;
    if let Some(unit) = waiting.query_row((id.as_str(),), |row| row.get::<_, String>(0)).optional()? {
        let text = format!("the results of {unit} still wait for {id}; read or dismiss them first");
        return Err(Failure::conflict(text));
    }
    let mut statement = connection.prepare_cached(
        "SELECT no, id, EXISTS (SELECT 1 FROM units WHERE delegation = d.no AND place >= 0 AND state NOT IN ('delivered', 'dismissed')) \
         FROM delegations d WHERE session = ?1",
    )?;
    let mut rows = statement.query((id.as_str(),))?;
    let mut numbers = Vec::new();
    while let Some(row) = rows.next()? {
        if row.get(2)? {
            let delegation: String = row.get(1)?;
            return Err(Failure::conflict(format!("{delegation} of {id} has not ended; stop it first")));
        }
        numbers.push(row.get(0)?);
    }
    Ok(numbers)
}

fn unknown(id: &SessionId) -> Failure {
    Failure::conflict(format!("there is no session {id}"))
}
