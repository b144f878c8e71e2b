//! How a value of each kind is read, checked and put in its place.
//!
//! One [`Field`] belongs to each key of the table. It knows type, bounds and default; it does not know where the value
//! came from, only with what right it comes.

use std::collections::BTreeMap;
use std::time::Duration;

use legwork_agent::tools::toolset_names;
use serde_json::Value;

use super::blocks::{self, ModelBlock, NamedRoute, Overrides};
use super::model::Endpoint;
use super::nearest::nearest;
use super::origin::Shown;
use super::problem::Complaint;
use super::raw::Raw;
use super::secret::Secret;
use super::values::Settings;

/// What a layer may do to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Set it to anything within its bounds.
    Any,
    /// Set it to the value in force or a tighter one; no limit at all is the loosest.
    Lower,
    /// Turn a switch to this position only.
    Only(bool),
}

/// The unit in which a time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Millis,
    Seconds,
    Days,
}

impl Unit {
    fn duration(self, number: u64) -> Duration {
        match self {
            Unit::Millis => Duration::from_millis(number),
            Unit::Seconds => Duration::from_secs(number),
            Unit::Days => Duration::from_secs(number.saturating_mul(24 * 60 * 60)),
        }
    }
}

/// The numbers that a key accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub min: u64,
    pub max: u64,
    /// What 0 means, where 0 is accepted beside the range.
    pub zero: Option<&'static str>,
}

impl Bounds {
    /// No ceiling but that of the file format.
    pub const NO_CEILING: u64 = i64::MAX.unsigned_abs();

    fn read(&self, raw: &Raw) -> Result<u64, Complaint> {
        let found = raw.whole()?;
        let refusal = || Complaint::OutOfBounds { accepts: self.describe(), found: found.to_string() };
        let number = u64::try_from(found).map_err(|_| refusal())?;
        let is_accepted = (self.min..=self.max).contains(&number) || (number == 0 && self.zero.is_some());
        if is_accepted { Ok(number) } else { Err(refusal()) }
    }

    /// The bounds in words.
    pub fn describe(&self) -> String {
        let range = match self.max {
            Bounds::NO_CEILING => format!("at least {}", self.min),
            max => format!("between {} and {max}", self.min),
        };
        match self.zero {
            None => range,
            Some(meaning) => format!("{range}, or 0 ({meaning})"),
        }
    }
}

type Slot<T> = fn(&mut Settings) -> &mut T;

/// Kind, bounds, default and place of one key.
#[derive(Debug, Clone, Copy)]
pub enum Field {
    /// Any text; empty by default.
    Text { slot: Slot<String> },
    /// The name of an environment variable; empty by default.
    Variable { slot: Slot<String> },
    /// The http or https address of a provider; empty by default.
    Url { slot: Slot<String> },
    /// A key; never shown.
    Secret { slot: Slot<Secret> },
    /// A switch.
    Flag { slot: Slot<bool>, default: bool },
    /// A number of things.
    Count { slot: Slot<usize>, default: usize, bounds: Bounds },
    /// A number of things, where 0 takes the limit away.
    Limit { slot: Slot<Option<usize>>, default: usize, bounds: Bounds },
    /// A time.
    Time { slot: Slot<Duration>, default: u64, unit: Unit, bounds: Bounds },
    /// A time, where 0 takes the limit away.
    Deadline { slot: Slot<Option<Duration>>, default: u64, unit: Unit, bounds: Bounds },
    /// One word of a closed list; its index is put. Without a default it may be empty.
    Choice { put: fn(&mut Settings, Option<usize>), default: Option<usize>, words: &'static [&'static str] },
    /// A list of texts; unset is not the same as empty.
    List { slot: Slot<Option<Vec<String>>> },
    /// Names of sets of tools, or of tools; unset is not the same as empty.
    Toolsets { slot: Slot<Option<Vec<String>>> },
    /// Fields of every model request.
    Overrides { slot: Slot<Overrides> },
    /// A fallback chain; unset is not the same as empty.
    Links { slot: Slot<Option<Vec<ModelBlock>>> },
    /// Named routes.
    Routes { slot: Slot<BTreeMap<String, NamedRoute>> },
    /// A table that nothing reads yet: only its type is checked.
    Table,
    /// A key of older configurations that has no effect; the text says what replaced it.
    Retired { instead: &'static str },
}

impl Field {
    /// Whether its value is a table, which only a file can hold.
    pub fn is_table(&self) -> bool {
        matches!(self, Field::Overrides { .. } | Field::Routes { .. } | Field::Table)
    }

    /// Puts the default in place and gives it in the form to be shown.
    pub fn reset(&self, settings: &mut Settings) -> Shown {
        match *self {
            Field::Text { slot } | Field::Variable { slot } | Field::Url { slot } => {
                slot(settings).clear();
                Shown::Text(String::new())
            }
            Field::Secret { slot } => {
                *slot(settings) = Secret::default();
                Shown::Text(String::new())
            }
            Field::Flag { slot, default } => put(slot(settings), default, Shown::Flag(default)),
            Field::Count { slot, default, .. } => put(slot(settings), default, count(default)),
            Field::Limit { slot, default, .. } => put(slot(settings), limit(default), count(default)),
            Field::Time { slot, default, unit, .. } => {
                put(slot(settings), unit.duration(default), Shown::Whole(default))
            }
            Field::Deadline { slot, default, unit, .. } => {
                put(slot(settings), deadline(unit, default), Shown::Whole(default))
            }
            Field::Choice { put, default, words } => {
                put(settings, default);
                default.map_or(Shown::Unset, |index| Shown::Text(words[index].to_owned()))
            }
            Field::List { slot } | Field::Toolsets { slot } => put(slot(settings), None, Shown::Unset),
            Field::Overrides { slot } => put(slot(settings), Overrides::new(), no_table()),
            Field::Links { slot } => put(slot(settings), None, Shown::Unset),
            Field::Routes { slot } => put(slot(settings), BTreeMap::new(), no_table()),
            Field::Table => no_table(),
            Field::Retired { .. } => Shown::Unset,
        }
    }

    /// Reads a value and puts it in place. `None` when the layer has no right to it: the value in force stays.
    ///
    /// # Errors
    /// When the value has the wrong type or lies outside the bounds.
    pub fn accept(
        &self,
        raw: &Raw,
        right: Right,
        settings: &mut Settings,
    ) -> Result<Option<Shown>, Complaint> {
        match *self {
            Field::Flag { slot, .. } => {
                let flag = raw.flag()?;
                let may = right == Right::Any || right == Right::Only(flag);
                Ok(may.then(|| put(slot(settings), flag, Shown::Flag(flag))))
            }
            Field::Count { slot, bounds, .. } => {
                let number = fit(bounds.read(raw)?);
                let may = number <= *slot(settings) || right == Right::Any;
                Ok(may.then(|| put(slot(settings), number, count(number))))
            }
            Field::Limit { slot, bounds, .. } => {
                let number = fit(bounds.read(raw)?);
                let tighter = limit(number).unwrap_or(usize::MAX) <= slot(settings).unwrap_or(usize::MAX);
                Ok((tighter || right == Right::Any)
                    .then(|| put(slot(settings), limit(number), count(number))))
            }
            Field::Time { slot, unit, bounds, .. } => {
                let number = bounds.read(raw)?;
                let time = unit.duration(number);
                let may = time <= *slot(settings) || right == Right::Any;
                Ok(may.then(|| put(slot(settings), time, Shown::Whole(number))))
            }
            Field::Deadline { slot, unit, bounds, .. } => {
                let number = bounds.read(raw)?;
                let time = deadline(unit, number);
                let tighter = time.unwrap_or(Duration::MAX) <= slot(settings).unwrap_or(Duration::MAX);
                Ok((tighter || right == Right::Any).then(|| put(slot(settings), time, Shown::Whole(number))))
            }
            Field::Text { .. }
            | Field::Variable { .. }
            | Field::Url { .. }
            | Field::Secret { .. }
            | Field::Choice { .. }
            | Field::List { .. }
            | Field::Toolsets { .. }
            | Field::Overrides { .. }
            | Field::Links { .. }
            | Field::Routes { .. }
            | Field::Table
            | Field::Retired { .. } => {
                if right != Right::Any {
                    return Ok(None);
                }
                self.accept_words(raw, settings).map(Some)
            }
        }
    }

    /// The kinds that cannot be tightened: only a layer that may do anything may set them.
    fn accept_words(&self, raw: &Raw, settings: &mut Settings) -> Result<Shown, Complaint> {
        match *self {
            Field::Text { slot } => set_text(slot(settings), raw.text()?),
            Field::Variable { slot } => set_text(slot(settings), variable_name(raw)?),
            Field::Url { slot } => set_text(slot(settings), address(raw)?),
            Field::Secret { slot } => {
                let secret = Secret::new(raw.text().map_err(hide)?);
                let shown = if secret.is_empty() { Shown::Text(String::new()) } else { Shown::Masked };
                Ok(put(slot(settings), secret, shown))
            }
            Field::Choice { put, words, default } => {
                let index = choice(raw, words, default)?;
                put(settings, index);
                Ok(index.map_or(Shown::Unset, |index| Shown::Text(words[index].to_owned())))
            }
            Field::List { slot } => {
                let items = raw.list()?;
                Ok(put(slot(settings), Some(items.clone()), Shown::List(items)))
            }
            Field::Toolsets { slot } => {
                let items = raw.list()?;
                items.iter().try_for_each(|item| known_toolset(item))?;
                Ok(put(slot(settings), Some(items.clone()), Shown::List(items)))
            }
            Field::Overrides { slot } => {
                let read = blocks::overrides(raw)?;
                Ok(put(slot(settings), read.value, Shown::Table(read.shown)))
            }
            Field::Links { slot } => {
                let read = blocks::links(raw)?;
                Ok(put(slot(settings), Some(read.value), Shown::Table(read.shown)))
            }
            Field::Routes { slot } => {
                let read = blocks::routes(raw)?;
                settings.warnings.extend(read.warnings);
                Ok(put(slot(settings), read.value, Shown::Table(read.shown)))
            }
            Field::Table => table(raw),
            Field::Retired { .. } => Ok(Shown::Unset),
            Field::Flag { .. }
            | Field::Count { .. }
            | Field::Limit { .. }
            | Field::Time { .. }
            | Field::Deadline { .. } => unreachable!("BUG: switches and numbers are handled by `accept`"),
        }
    }
}

fn put<T>(slot: &mut T, value: T, shown: Shown) -> Shown {
    *slot = value;
    shown
}

fn set_text(slot: &mut String, text: &str) -> Result<Shown, Complaint> {
    text.clone_into(slot);
    Ok(Shown::Text(text.to_owned()))
}

fn fit(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn count(number: usize) -> Shown {
    Shown::Whole(u64::try_from(number).unwrap_or(u64::MAX))
}

fn limit(number: usize) -> Option<usize> {
    (number != 0).then_some(number)
}

fn deadline(unit: Unit, number: u64) -> Option<Duration> {
    (number != 0).then(|| unit.duration(number))
}

/// A word of the list. `false` means the word `none` where there is one.
pub(super) fn choice(raw: &Raw, words: &[&str], default: Option<usize>) -> Result<Option<usize>, Complaint> {
    let word = if *raw == Raw::Flag(false) { "none" } else { raw.text()? };
    if word.is_empty() && default.is_none() {
        return Ok(None);
    }
    let index = words.iter().position(|known| *known == word);
    index.map(Some).ok_or_else(|| raw.is_not(&format!("one of {}", words.join(", "))))
}

/// The name of a variable. What was found is not repeated: it may be the key itself, pasted into the wrong place.
pub(super) fn variable_name(raw: &Raw) -> Result<&str, Complaint> {
    let name = raw.text().map_err(hide)?;
    let starts_well = !name.starts_with(|c: char| c.is_ascii_digit());
    if starts_well && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(name);
    }
    Err(Complaint::WrongType {
        expected: "the name of an environment variable that holds the key, such as MY_API_KEY".to_owned(),
        found: "something else (not shown, it may be a key)".to_owned(),
    })
}

pub(super) fn address(raw: &Raw) -> Result<&str, Complaint> {
    let text = raw.text()?;
    if text.is_empty() {
        return Ok(text);
    }
    match Endpoint::parse(text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Complaint::WrongType {
            expected: "an http or https address such as https://host/v1".to_owned(),
            found: error.to_string(),
        }),
    }
}

fn known_toolset(name: &str) -> Result<(), Complaint> {
    let known = toolset_names();
    if known.contains(&name) {
        return Ok(());
    }
    let meant = nearest(name, known.iter().copied());
    let expected =
        meant.map_or_else(|| format!("names among {}", known.join(", ")), |name| format!("`{name}`"));
    Err(Complaint::WrongType { expected, found: format!("{:?}", super::raw::cut(name)) })
}

fn table(raw: &Raw) -> Result<Shown, Complaint> {
    let names = raw.table()?.iter().map(|item| (item.name.clone(), Value::from("…")));
    Ok(Shown::Table(Value::Object(names.collect())))
}

fn no_table() -> Shown {
    Shown::Table(Value::Object(serde_json::Map::new()))
}

/// A complaint about a secret tells the type that was wanted and nothing of what was found.
pub(super) fn hide(complaint: Complaint) -> Complaint {
    match complaint {
        Complaint::WrongType { expected, .. } => {
            Complaint::WrongType { expected, found: "something else (not shown)".to_owned() }
        }
        Complaint::OutOfBounds { .. }
        | Complaint::Unknown { .. }
        | Complaint::Inside { .. }
        | Complaint::NotBuilt { .. } => complaint,
    }
}
