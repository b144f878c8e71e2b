//! A value as it was found, before its key has judged it.
//!
//! Files carry types, variables and options carry words; both become a [`Raw`]. What a key accepts is decided in
//! [`super::field`].

use serde_json::Value;

use super::problem::{Complaint, Spot};

/// One `name = value` of a table within a section.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The name.
    pub name: String,
    /// Where the name stands.
    pub name_at: Spot,
    /// Where the value stands.
    pub value_at: Spot,
    /// The value.
    pub raw: Raw,
}

/// A value as found in a file, a variable or an option.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    /// The text of a variable or an option, whose type only the key knows.
    Word(String),
    /// A string of a file.
    Text(String),
    /// An integer of a file.
    Whole(i64),
    /// A boolean of a file.
    Flag(bool),
    /// A number with a fraction of a file.
    Fraction(f64),
    /// An array of a file.
    List(Vec<Raw>),
    /// A table of a file, in the order in which it is written.
    Table(Vec<Item>),
    /// A value of a type that no key takes: a date, an integer past 64 bits. Holds what it is.
    Other(&'static str),
}

const TRUE: [&str; 4] = ["true", "yes", "on", "1"];
const FALSE: [&str; 4] = ["false", "no", "off", "0"];

/// Reads a truth value as people write it in variables.
pub fn truth(word: &str) -> Option<bool> {
    let word = word.trim().to_ascii_lowercase();
    if TRUE.contains(&word.as_str()) {
        return Some(true);
    }
    FALSE.contains(&word.as_str()).then_some(false)
}

impl Raw {
    /// The text, when the value is one.
    pub fn text(&self) -> Result<&str, Complaint> {
        match self {
            Raw::Word(text) | Raw::Text(text) => Ok(text),
            Raw::Whole(_)
            | Raw::Fraction(_)
            | Raw::Flag(_)
            | Raw::List(_)
            | Raw::Table(_)
            | Raw::Other(_) => Err(self.is_not("text in quotes")),
        }
    }

    /// The whole number, when the value is one.
    pub fn whole(&self) -> Result<i64, Complaint> {
        const EXPECTED: &str = "a whole number";
        match self {
            Raw::Whole(number) => Ok(*number),
            Raw::Word(word) => word.trim().parse().map_err(|_| self.is_not(EXPECTED)),
            Raw::Text(_) | Raw::Fraction(_) | Raw::Flag(_) | Raw::List(_) | Raw::Table(_) | Raw::Other(_) => {
                Err(self.is_not(EXPECTED))
            }
        }
    }

    /// The truth value, when the value is one; words such as `yes` and `off` count.
    pub fn flag(&self) -> Result<bool, Complaint> {
        const EXPECTED: &str = "true or false";
        match self {
            Raw::Flag(flag) => Ok(*flag),
            Raw::Word(word) | Raw::Text(word) => truth(word).ok_or_else(|| self.is_not(EXPECTED)),
            Raw::Whole(_) | Raw::Fraction(_) | Raw::List(_) | Raw::Table(_) | Raw::Other(_) => {
                Err(self.is_not(EXPECTED))
            }
        }
    }

    /// The list of texts, when the value is one. In a variable the items are parted by commas.
    pub fn list(&self) -> Result<Vec<String>, Complaint> {
        const EXPECTED: &str = "a list of texts";
        match self {
            Raw::List(items) => items.iter().map(|item| Ok(item.text()?.to_owned())).collect(),
            Raw::Word(word) => {
                let items = word.split(',').map(str::trim).filter(|item| !item.is_empty());
                Ok(items.map(str::to_owned).collect())
            }
            Raw::Text(_)
            | Raw::Whole(_)
            | Raw::Fraction(_)
            | Raw::Flag(_)
            | Raw::Table(_)
            | Raw::Other(_) => Err(self.is_not(EXPECTED)),
        }
    }

    /// The entries, when the value is a table.
    pub fn table(&self) -> Result<&[Item], Complaint> {
        match self {
            Raw::Table(items) => Ok(items),
            Raw::Word(_) => Err(self.is_not("a table, which only a file can hold")),
            Raw::Text(_) | Raw::Whole(_) | Raw::Fraction(_) | Raw::Flag(_) | Raw::List(_) | Raw::Other(_) => {
                Err(self.is_not("a table"))
            }
        }
    }

    /// The value as it goes into a request.
    pub fn to_json(&self) -> Result<Value, Complaint> {
        match self {
            Raw::Word(text) | Raw::Text(text) => Ok(Value::from(text.as_str())),
            Raw::Whole(number) => Ok(Value::from(*number)),
            Raw::Fraction(number) => serde_json::Number::from_f64(*number)
                .map(Value::Number)
                .ok_or_else(|| self.is_not("a number that JSON can hold")),
            Raw::Flag(flag) => Ok(Value::from(*flag)),
            Raw::List(items) => {
                items.iter().map(Raw::to_json).collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            Raw::Table(items) => {
                let fields = items.iter().map(|item| Ok((item.name.clone(), item.raw.to_json()?)));
                fields.collect::<Result<serde_json::Map<_, _>, _>>().map(Value::Object)
            }
            Raw::Other(_) => Err(self.is_not("a value that JSON can hold")),
        }
    }

    /// The complaint that this value is not what was expected.
    pub fn is_not(&self, expected: &str) -> Complaint {
        Complaint::WrongType { expected: expected.to_owned(), found: self.describe() }
    }

    /// What was found, in words. Long texts are cut.
    pub fn describe(&self) -> String {
        match self {
            Raw::Word(text) | Raw::Text(text) => format!("{:?}", cut(text)),
            Raw::Whole(number) => number.to_string(),
            Raw::Flag(flag) => flag.to_string(),
            Raw::Fraction(_) => "a fraction".to_owned(),
            Raw::List(_) => "a list".to_owned(),
            Raw::Table(_) => "a table".to_owned(),
            Raw::Other(what) => (*what).to_owned(),
        }
    }
}

/// The first characters of a text, enough to find it again.
pub fn cut(text: &str) -> String {
    const KEPT: usize = 60;
    match text.char_indices().nth(KEPT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cfg_08_text_counts_as_a_truth_value() {
        for word in ["true", "Yes", " on ", "1"] {
            assert_eq!(Raw::Text(word.to_owned()).flag(), Ok(true), "{word}");
        }
        for word in ["false", "NO", "off", "0"] {
            assert_eq!(Raw::Word(word.to_owned()).flag(), Ok(false), "{word}");
        }
        assert!(Raw::Text("maybe".to_owned()).flag().is_err());
        assert!(Raw::Whole(1).flag().is_err());
    }

    #[test]
    fn lists_of_variables_are_parted_by_commas() {
        assert_eq!(Raw::Word("a, b,,".to_owned()).list(), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert!(Raw::List(vec![Raw::Whole(1)]).list().is_err());
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        assert_eq!(cut(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
        assert_eq!(cut("short"), "short");
    }
}
