//! The messages of sessions' histories.

use super::claims::{self, End};
use super::fence;
use crate::encoding::{counter, from_json, stored, to_json};
use crate::failure::Failure;
use legwork_core::ids::{ClaimId, SessionId};
use legwork_core::message::Message;
use legwork_core::ports::{StoreError, Turn};
use rusqlite::Connection;

/// A turn with the text of its messages, made before the writer is asked.
pub(crate) struct Prepared {
    turn: Turn,
    bodies: Vec<String>,
    opening: Option<String>,
}

impl Prepared {
    pub(crate) fn new(turn: Turn) -> Result<Self, StoreError> {
        let bodies = turn.messages.iter().map(to_json).collect::<Result<_, _>>()?;
        let opening = turn.opening();
        Ok(Prepared { turn, bodies, opening })
    }

    pub(crate) fn turn(&self) -> &Turn {
        &self.turn
    }

    pub(crate) fn claims(&self) -> &[ClaimId] {
        &self.turn.acknowledge
    }
}

/// Appends messages and ends the claims they carry, all or nothing.
pub(crate) fn append(connection: &Connection, prepared: &Prepared) -> Result<(), Failure> {
    let no = check(connection, prepared)?;
    let endings = claims::check_all(connection, prepared.claims(), &End::Acknowledge)?;
    write(connection, no, prepared)?;
    claims::write_all(connection, &endings, &End::Acknowledge, prepared.turn.at)
}

/// The number of the session that a turn belongs to. Refused when the writer does not hold it, or knows another
/// history than the stored one.
pub(crate) fn check(connection: &Connection, prepared: &Prepared) -> Result<i64, Failure> {
    let turn = &prepared.turn;
    let no = fence::pass_session(connection, &turn.session, &turn.writer)?;
    let mut statement = connection.prepare_cached("SELECT messages FROM sessions WHERE no = ?1")?;
    let messages = counter(statement.query_row((no,), |row| row.get(0))?);
    if messages != turn.expected_messages {
        return Err(Failure::conflict(format!(
            "the session has {messages} messages and the writer knew of {}",
            turn.expected_messages
        )));
    }
    Ok(no)
}

/// Writes the messages of a turn that [`check`] let pass.
pub(crate) fn write(connection: &Connection, no: i64, prepared: &Prepared) -> Result<(), Failure> {
    let turn = &prepared.turn;
    let mut statement =
        connection.prepare_cached("INSERT INTO messages (session, seq, at, body) VALUES (?1, ?2, ?3, ?4)")?;
    for (seq, body) in (turn.expected_messages..).zip(&prepared.bodies) {
        statement.execute((no, stored(seq), turn.at.0, body.as_str()))?;
    }
    let length = turn.expected_messages + prepared.bodies.len() as u64;
    let mut statement = connection.prepare_cached(
        "UPDATE sessions SET messages = ?2, touched_at = ?3, opening = coalesce(opening, ?4) WHERE no = ?1",
    )?;
    statement.execute((no, stored(length), turn.at.0, prepared.opening.as_deref()))?;
    Ok(())
}

/// A history in order.
pub(crate) fn messages(connection: &Connection, id: &SessionId) -> Result<Vec<Message>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT m.body FROM messages m JOIN sessions s ON s.no = m.session WHERE s.id = ?1 ORDER BY m.seq",
    )?;
    let mut rows = statement.query((id.as_str(),))?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        let body: Result<String, Failure> = row.get(0).map_err(Failure::from);
        let message = body.and_then(|body| from_json(&body));
        let place = messages.len() + 1;
        messages.push(message.map_err(|failure| failure.reading(&format!("message {place} of {id}")))?);
    }
    Ok(messages)
}
