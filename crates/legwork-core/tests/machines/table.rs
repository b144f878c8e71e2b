//! A table written as text, one line a state, one column an event.

use std::collections::BTreeMap;

/// What a hand-written table says, by state and event.
pub struct Table<'a> {
    columns: Vec<&'a str>,
    rows: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Table<'a> {
    pub fn parse(text: &'a str) -> Self {
        let mut lines = text.lines().map(cells).filter(|cells| cells.len() > 1);
        let columns = lines.next().expect("a table has a head")[1..].to_vec();
        let rows = lines.map(|cells| (cells[0], cells[1..].to_vec())).collect();
        Table { columns, rows }
    }

    pub fn cell(&self, state: &str, event: &str) -> &'a str {
        let row = self.rows.get(state).unwrap_or_else(|| panic!("the table has no line for {state}"));
        let column = self.columns.iter().position(|name| *name == event);
        row[column.unwrap_or_else(|| panic!("the table has no column for {event}"))]
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.split('|').map(str::trim).collect()
}
