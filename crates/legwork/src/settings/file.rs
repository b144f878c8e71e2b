//! A configuration file, read into entries with their positions.
//!
//! Owns the TOML; names, types and bounds are judged later, by the key table.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use toml::de::{DeInteger, DeTable, DeValue};

use super::keys;
use super::problem::{Place, Problem, Spot};
use super::raw::{Item, Raw};

/// No configuration is longer than this.
const MAX_BYTES: u64 = 1 << 20;

/// One `key = value` of a file.
#[derive(Debug)]
pub struct Entry {
    /// The dotted name: `section.key`, or a single name where the section is missing or unknown.
    pub name: String,
    /// The position of the name.
    pub name_at: Place,
    /// The position of the value.
    pub value_at: Place,
    /// The line of the value.
    pub line: usize,
    /// The value.
    pub raw: Raw,
}

/// Whether a file has to exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Somebody named it.
    Required,
    /// It is looked for at its usual place.
    Optional,
}

/// Reads a file into entries, in their order in the file. A missing optional file has none.
///
/// # Errors
/// When the file cannot be read, is longer than 1 MiB or is not TOML; the place is given.
pub fn read(path: &Path, presence: Presence) -> Result<Vec<Entry>, Problem> {
    let bytes = match read_bounded(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound && presence == Presence::Optional => {
            return Ok(Vec::new());
        }
        Err(cause) => return Err(Problem::Unreadable { path: path.to_owned(), cause }),
    };
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Problem::TooLong { path: path.to_owned(), limit: MAX_BYTES });
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(path, text),
        Err(error) => {
            let readable = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let place = Source { path, text: &readable }.place(readable.len());
            Err(Problem::Syntax {
                place,
                message: "this byte is not UTF-8; save the file as UTF-8".to_owned(),
            })
        }
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(path: &Path, text: &str) -> Result<Vec<Entry>, Problem> {
    let source = Source { path, text };
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        Problem::Syntax { place: source.place(at), message: error.message().replace('\n', " ") }
    })?;
    let sections = keys::sections();
    let mut entries = Vec::new();
    for (name, value) in document.get_ref() {
        match value.get_ref() {
            DeValue::Table(table) if sections.contains(&name.get_ref().as_ref()) => {
                for (leaf, value) in table {
                    let dotted = format!("{}.{}", name.get_ref(), leaf.get_ref());
                    entries.push((
                        leaf.span().start,
                        source.entry(dotted, leaf.span(), (value.span(), value.get_ref())),
                    ));
                }
            }
            other => {
                let entry = source.entry(name.get_ref().to_string(), name.span(), (value.span(), other));
                entries.push((name.span().start, entry));
            }
        }
    }
    entries.sort_by_key(|(start, _)| *start);
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn entry(&self, name: String, name_at: Range<usize>, value: (Range<usize>, &DeValue<'_>)) -> Entry {
        let (value_at, value) = value;
        let Spot { line, .. } = self.spot(value_at.start);
        Entry {
            name,
            name_at: self.place(name_at.start),
            value_at: self.place(value_at.start),
            line,
            raw: self.raw(value),
        }
    }

    fn place(&self, byte: usize) -> Place {
        let Spot { line, column } = self.spot(byte);
        Place::File { path: self.path.to_owned(), line, column }
    }

    fn spot(&self, byte: usize) -> Spot {
        let (line, column) = position(self.text, byte);
        Spot { line, column }
    }

    fn raw(&self, value: &DeValue<'_>) -> Raw {
        match value {
            DeValue::String(text) => Raw::Text(text.to_string()),
            DeValue::Integer(integer) => whole(integer),
            DeValue::Float(number) => {
                number.as_str().parse().map_or(Raw::Other("a number that is none"), Raw::Fraction)
            }
            DeValue::Boolean(flag) => Raw::Flag(*flag),
            DeValue::Datetime(_) => Raw::Other("a date"),
            DeValue::Array(items) => Raw::List(items.iter().map(|item| self.raw(item.get_ref())).collect()),
            DeValue::Table(table) => Raw::Table(self.items(table)),
        }
    }

    /// The entries of a table within a section, in their order in the file.
    fn items(&self, table: &DeTable<'_>) -> Vec<Item> {
        let mut items: Vec<(usize, Item)> = table
            .iter()
            .map(|(name, value)| {
                let item = Item {
                    name: name.get_ref().to_string(),
                    name_at: self.spot(name.span().start),
                    value_at: self.spot(value.span().start),
                    raw: self.raw(value.get_ref()),
                };
                (name.span().start, item)
            })
            .collect();
        items.sort_by_key(|(start, _)| *start);
        items.into_iter().map(|(_, item)| item).collect()
    }
}

/// Line and column of a byte, both from 1, the column in characters.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

fn whole(integer: &DeInteger<'_>) -> Raw {
    let number = i64::from_str_radix(integer.as_str(), integer.radix());
    number.map_or(Raw::Other("a number past 64 bits"), Raw::Whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<(String, String, Raw)> {
        let entries = parse(Path::new("c.toml"), text).expect("the text is TOML");
        entries.into_iter().map(|entry| (entry.name, entry.value_at.to_string(), entry.raw)).collect()
    }

    #[test]
    fn entries_come_in_file_order_with_their_positions() {
        let found = entries("# ü\n[model]\ndefault = 'a/b'\n\n[delegation]\nqueue_max=0x10\n");
        let expected = [
            ("model.default", "c.toml:3:11", Raw::Text("a/b".to_owned())),
            ("delegation.queue_max", "c.toml:6:11", Raw::Whole(16)),
        ];
        let expected = expected.map(|(name, at, raw)| (name.to_owned(), at.to_owned(), raw));
        assert_eq!(found, expected);
    }

    #[test]
    fn tables_within_a_section_keep_the_places_of_what_is_in_them() {
        let text = "[delegation.routes.b]\nmodel = 'x'\n[delegation.routes.a]\n  model = 1.5\n";
        let entries = parse(Path::new("c.toml"), text).expect("the text is TOML");
        let Raw::Table(routes) = &entries[0].raw else { panic!("a table: {entries:?}") };
        let names: Vec<&str> = routes.iter().map(|item| item.name.as_str()).collect();
        assert_eq!((entries[0].name.as_str(), names), ("delegation.routes", vec!["b", "a"]));
        let Raw::Table(a) = &routes[1].raw else { panic!("a table: {routes:?}") };
        assert_eq!((&a[0].raw, a[0].value_at), (&Raw::Fraction(1.5), Spot { line: 4, column: 11 }));
    }

    #[test]
    fn a_key_outside_of_a_known_section_keeps_its_own_name() {
        let found = entries("max_iterations = 3\n[delegaton]\nx = 1\n");
        assert_eq!(
            found.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(),
            ["max_iterations", "delegaton"]
        );
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(position("a\nüö=1", "a\nüö".len()), (2, 3));
        assert_eq!(position("", 0), (1, 1));
    }

    #[test]
    fn syntax_errors_have_line_and_column() {
        let problem = parse(Path::new("c.toml"), "[model]\ndefault = \n").expect_err("a value is missing");
        assert!(problem.to_string().starts_with("c.toml:2:"), "{problem}");
    }
}
