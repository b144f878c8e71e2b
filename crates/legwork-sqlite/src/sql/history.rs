//! Sessions and the messages of their histories.

use super::claims::{self, End};
use super::fence;
use crate::encoding::{counter, from_json, stored, to_json};
use crate::failure::Failure;
use legwork_core::ids::SessionId;
use legwork_core::message::Message;
use legwork_core::ports::{NewSession, SessionRecord, StoreError, Turn};
use legwork_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

const COLUMNS: &str = "id, name, kind, folder, created_at, messages, touched_at";

/// A turn with the text of its messages, made before the writer is asked.
pub(crate) struct Prepared {
    turn: Turn,
    bodies: Vec<String>,
}

impl Prepared {
    pub(crate) fn new(turn: Turn) -> Result<Self, StoreError> {
        let bodies = turn.messages.iter().map(to_json).collect::<Result<_, _>>()?;
        Ok(Prepared { turn, bodies })
    }
}

/// Creates a session; an id that is taken is refused.
pub(crate) fn create(connection: &Connection, session: &NewSession) -> Result<(), Failure> {
    if fence::number_of_session(connection, &session.id)?.is_some() {
        return Err(Failure::conflict(format!("the session id {} is taken", session.id)));
    }
    let mut statement = connection.prepare_cached(
        "INSERT INTO sessions (id, name, kind, folder, created_at, messages, touched_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, 0, ?5)",
    )?;
    let (kind, folder) = (session.kind.as_str(), session.folder.as_str());
    statement.execute((session.id.as_str(), session.name.as_deref(), kind, folder, session.at.0))?;
    Ok(())
}

/// One session.
pub(crate) fn session(connection: &Connection, id: &SessionId) -> Result<Option<SessionRecord>, Failure> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row((id.as_str(),), record).optional()?)
}

/// The sessions of a folder, or all, newest first.
pub(crate) fn sessions(connection: &Connection, folder: Option<&str>) -> Result<Vec<SessionRecord>, Failure> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE ?1 IS NULL OR folder = ?1 ORDER BY no DESC");
    let mut statement = connection.prepare_cached(&sql)?;
    let records = statement.query_map((folder,), record)?;
    Ok(records.collect::<Result<_, _>>()?)
}

/// Appends messages and ends the claims they carry, all or nothing.
pub(crate) fn append(connection: &Connection, prepared: &Prepared) -> Result<(), Failure> {
    let turn = &prepared.turn;
    let no = check_length(connection, turn)?;
    let endings = claims::check_all(connection, &turn.acknowledge, &End::Acknowledge)?;
    let mut statement =
        connection.prepare_cached("INSERT INTO messages (session, seq, at, body) VALUES (?1, ?2, ?3, ?4)")?;
    for (seq, body) in (turn.expected_messages..).zip(&prepared.bodies) {
        statement.execute((no, stored(seq), turn.at.0, body.as_str()))?;
    }
    let length = turn.expected_messages + prepared.bodies.len() as u64;
    let mut statement =
        connection.prepare_cached("UPDATE sessions SET messages = ?2, touched_at = ?3 WHERE no = ?1")?;
    statement.execute((no, stored(length), turn.at.0))?;
    claims::write_all(connection, &endings, &End::Acknowledge, turn.at)
}

fn check_length(connection: &Connection, turn: &Turn) -> Result<i64, Failure> {
    let mut statement = connection.prepare_cached("SELECT no, messages FROM sessions WHERE id = ?1")?;
    let found = statement.query_row((turn.session.as_str(),), |row| Ok((row.get(0)?, row.get(1)?)));
    let (no, messages) = found
        .optional()?
        .ok_or_else(|| Failure::conflict(format!("there is no session {}", turn.session)))?;
    if counter(messages) != turn.expected_messages {
        return Err(Failure::conflict(format!(
            "the session has {} messages and the writer knew of {}",
            counter(messages),
            turn.expected_messages
        )));
    }
    Ok(no)
}

/// A history in order.
pub(crate) fn messages(connection: &Connection, id: &SessionId) -> Result<Vec<Message>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT m.body FROM messages m JOIN sessions s ON s.no = m.session WHERE s.id = ?1 ORDER BY m.seq",
    )?;
    let mut rows = statement.query((id.as_str(),))?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.push(from_json(&row.get::<_, String>(0)?)?);
    }
    Ok(messages)
}

fn record(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    let session = NewSession {
        id: SessionId::from_stored(row.get::<_, String>(0)?),
        name: row.get(1)?,
        kind: row.get(2)?,
        folder: row.get(3)?,
        at: Timestamp(row.get(4)?),
    };
    Ok(SessionRecord { session, messages: counter(row.get(5)?), touched_at: Timestamp(row.get(6)?) })
}
