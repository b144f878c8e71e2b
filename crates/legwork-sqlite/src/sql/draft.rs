//! The rows that one append touches, loaded, moved by the state machines, and written back. Nothing is written before
//! every fact of the append has been applied.

use super::delivery::{self, Columns, Entry};
use super::requests::{self, By};
use super::{due, notices};
use crate::encoding::{from_json, stored, to_json};
use crate::failure::Failure;
use legwork_core::child::ChildEvent;
use legwork_core::delivery::{DeliveryEvent, DeliveryState};
use legwork_core::ids::{ChildId, UnitId};
use legwork_core::outcome::Outcome;
use legwork_core::ports::AppendError;
use legwork_core::record::ChildRecord;
use legwork_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;

/// What an append does to a delegation before it is written.
pub(crate) struct Draft<'c> {
    connection: &'c Connection,
    /// The delegation's row number.
    pub(crate) no: i64,
    /// Its children that have not settled.
    pub(crate) unsettled: i64,
    children: BTreeMap<ChildId, DraftChild>,
    units: BTreeMap<i64, DraftUnit>,
    /// Numbers of units that become ready, in that order.
    ready: Vec<i64>,
    /// Children whose early failure is told.
    noticed: Vec<ChildId>,
}

/// One child's row.
pub(crate) struct DraftChild {
    pub(crate) no: i64,
    pub(crate) unit: i64,
    pub(crate) record: ChildRecord,
    pub(crate) report_seq: Option<i64>,
}

/// One unit's row.
pub(crate) struct DraftUnit {
    pub(crate) id: UnitId,
    pub(crate) unsettled: i64,
    pub(crate) state: DeliveryState,
    /// Lines to append.
    pub(crate) ledger: String,
}

/// A fact that does not fit, or a failure of the store.
pub(crate) enum Unfit {
    /// The append is refused.
    Append(AppendError),
    /// The store failed.
    Store(Failure),
}

impl<E: Into<Failure>> From<E> for Unfit {
    fn from(error: E) -> Self {
        Unfit::Store(error.into())
    }
}

impl Unfit {
    pub(crate) fn illegal(text: impl Into<String>) -> Unfit {
        Unfit::Append(AppendError::Illegal(text.into()))
    }

    /// A row of the delegation that cannot be read refuses its own append.
    pub(crate) fn of_its_own(self, delegation: &str) -> Unfit {
        match self {
            Unfit::Store(failure) if failure.is_damaged_row() => match failure.reading(delegation) {
                Failure::Refused(error) => Unfit::Append(AppendError::Unreadable(error.to_string())),
                failure @ Failure::Sqlite(_) => Unfit::Store(failure),
            },
            other @ (Unfit::Append(_) | Unfit::Store(_)) => other,
        }
    }
}

impl<'c> Draft<'c> {
    pub(crate) fn new(connection: &'c Connection, no: i64, unsettled: i64) -> Self {
        let (children, units) = (BTreeMap::new(), BTreeMap::new());
        Draft { connection, no, unsettled, children, units, ready: Vec::new(), noticed: Vec::new() }
    }

    /// Takes in a child that has no row yet, or is known already.
    pub(crate) fn put_child(&mut self, child: DraftChild) {
        self.children.insert(child.record.id.clone(), child);
    }

    /// Takes in a unit that has no row yet, or is known already.
    pub(crate) fn put_unit(&mut self, no: i64, unit: DraftUnit) {
        self.units.insert(no, unit);
    }

    /// Moves a child. `report_seq` names the fact when it carries a report.
    pub(crate) fn move_child(
        &mut self,
        id: &ChildId,
        event: ChildEvent,
        report_seq: Option<i64>,
        at: Timestamp,
    ) -> Result<(), Unfit> {
        let child = self.child(id)?;
        child.record.apply(event, at).map_err(|illegal| Unfit::illegal(format!("{id}: {illegal}")))?;
        child.report_seq = report_seq.or(child.report_seq);
        let (unit, settled) = (child.unit, child.record.outcome().is_some());
        if settled {
            self.unsettled -= 1;
            self.unit(unit)?.unsettled -= 1;
        }
        Ok(())
    }

    /// Makes a unit's delivery ready; refused while one of its children has not settled.
    pub(crate) fn settle_unit(&mut self, id: &UnitId, at: Timestamp) -> Result<(), Unfit> {
        let no = self.unit_number(id)?;
        let unit = self.unit(no)?;
        if unit.unsettled > 0 {
            return Err(Unfit::illegal(format!("{id}: {} of its children have not settled", unit.unsettled)));
        }
        let state = unit.state.apply(DeliveryEvent::UnitSettled);
        unit.state = state.map_err(|illegal| Unfit::illegal(format!("{id}: {illegal}")))?;
        let entry = Entry { at, claimant: None, reason: "every subagent of the unit has ended" };
        unit.ledger += &entry.line(&unit.state)?;
        self.ready.push(no);
        Ok(())
    }

    /// Tells of a child that has failed while others of its unit go on.
    pub(crate) fn notice(&mut self, id: &ChildId) -> Result<(), Unfit> {
        let child = self.child(id)?;
        let failed = child.record.outcome().is_some_and(Outcome::is_failure);
        let unit = child.unit;
        if !failed || self.unit(unit)?.unsettled == 0 || self.noticed.contains(id) {
            return Err(Unfit::illegal(format!("{id} has not failed before the others of its unit")));
        }
        self.noticed.push(id.clone());
        Ok(())
    }

    /// The units, by row number.
    pub(crate) fn units(&self) -> impl Iterator<Item = (i64, &DraftUnit)> {
        self.units.iter().map(|(no, unit)| (*no, unit))
    }

    /// A child that is part of the draft.
    pub(crate) fn known_child(&self, id: &ChildId) -> Result<&DraftChild, Failure> {
        self.children.get(id).ok_or_else(|| Failure::conflict(format!("{id} stands for two tasks")))
    }

    /// The connection that the draft loads its rows through.
    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    fn child(&mut self, id: &ChildId) -> Result<&mut DraftChild, Unfit> {
        if !self.children.contains_key(id) {
            let child = self.load_child(id)?;
            self.children.insert(id.clone(), child);
        }
        self.children.get_mut(id).ok_or_else(|| unknown(id.as_str()))
    }

    fn unit(&mut self, no: i64) -> Result<&mut DraftUnit, Unfit> {
        if !self.units.contains_key(&no) {
            let unit = self.load_unit(no)?;
            self.units.insert(no, unit);
        }
        self.units.get_mut(&no).ok_or_else(|| unknown("a unit"))
    }

    fn unit_number(&self, id: &UnitId) -> Result<i64, Unfit> {
        if let Some((no, _)) = self.units.iter().find(|(_, unit)| unit.id == *id) {
            return Ok(*no);
        }
        let mut statement =
            self.connection.prepare_cached("SELECT no FROM units WHERE id = ?1 AND delegation = ?2")?;
        let no = statement.query_row((id.as_str(), self.no), |row| row.get(0)).optional()?;
        no.ok_or_else(|| unknown(id.as_str()))
    }

    fn load_child(&self, id: &ChildId) -> Result<DraftChild, Unfit> {
        let mut statement = self.connection.prepare_cached(
            "SELECT no, unit, state, started_at, ended_at, report FROM children WHERE id = ?1 AND delegation = ?2",
        )?;
        let mut rows = statement.query((id.as_str(), self.no))?;
        let row = rows.next()?.ok_or_else(|| unknown(id.as_str()))?;
        let mut record = ChildRecord::new(id.clone());
        record.state = from_json(&row.get::<_, String>(2)?)?;
        record.started_at = row.get::<_, Option<i64>>(3)?.map(Timestamp);
        record.ended_at = row.get::<_, Option<i64>>(4)?.map(Timestamp);
        Ok(DraftChild { no: row.get(0)?, unit: row.get(1)?, record, report_seq: row.get(5)? })
    }

    fn load_unit(&self, no: i64) -> Result<DraftUnit, Unfit> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT state, tries, claim, parked, id, unsettled FROM units WHERE no = ?1")?;
        let mut rows = statement.query((no,))?;
        let row = rows.next()?.ok_or_else(|| unknown("a unit"))?;
        let id = UnitId::from_stored(row.get::<_, String>(4)?);
        Ok(DraftUnit { id, unsettled: row.get(5)?, state: delivery::read(row, 0)?, ledger: String::new() })
    }

    /// Brings the loaded rows up to date in the store. What a child that settles has not read is missed with that.
    pub(crate) fn update_rows(&self, by: By<'_>) -> Result<(), Failure> {
        for child in self.children.values() {
            self.update_child(child)?;
            if child.record.outcome().is_some() {
                requests::miss(self.connection, &child.record.id, by)?;
            }
        }
        for (no, unit) in &self.units {
            self.update_unit(*no, unit)?;
        }
        for id in &self.noticed {
            notices::insert(self.connection, self.no, id, by.at)?;
        }
        for no in &self.ready {
            notices::withdraw(self.connection, *no, by.at)?;
        }
        self.enqueue_ready()
    }

    /// Puts the units that become ready behind what is due to the session already.
    pub(crate) fn enqueue_ready(&self) -> Result<(), Failure> {
        self.ready.iter().try_for_each(|no| due::enqueue(self.connection, *no))
    }

    fn update_child(&self, child: &DraftChild) -> Result<(), Failure> {
        let mut statement = self.connection.prepare_cached(
            "UPDATE children SET state = ?2, started_at = ?3, ended_at = ?4, report = ?5 WHERE no = ?1",
        )?;
        let record = &child.record;
        let times = (record.started_at.map(|at| at.0), record.ended_at.map(|at| at.0));
        statement.execute((child.no, to_json(&record.state)?, times.0, times.1, child.report_seq))?;
        Ok(())
    }

    fn update_unit(&self, no: i64, unit: &DraftUnit) -> Result<(), Failure> {
        if unit.ledger.is_empty() {
            let mut statement =
                self.connection.prepare_cached("UPDATE units SET unsettled = ?2 WHERE no = ?1")?;
            statement.execute((no, unit.unsettled))?;
            return Ok(());
        }
        // No claim is involved: a fact of the owner only makes a held delivery ready.
        let Columns { state, tries, .. } = delivery::columns(&unit.state)?;
        let mut statement = self.connection.prepare_cached(
            "UPDATE units SET unsettled = ?2, state = ?3, tries = ?4, ledger = ledger || ?5 WHERE no = ?1",
        )?;
        statement.execute((no, unit.unsettled, state, tries, unit.ledger.as_str()))?;
        Ok(())
    }
}

fn unknown(what: &str) -> Unfit {
    Unfit::illegal(format!("{what} is not part of the delegation"))
}

/// A fact's place as its row keeps it.
pub(crate) fn place(seq: u64) -> i64 {
    stored(seq)
}
