//! What was shown briefly and can be opened: tool calls and results that came back, each under a number.

use std::collections::VecDeque;

use serde_json::Value;

/// Things that are kept.
const ITEMS_MAX: usize = 500;
/// Bytes that are kept in all; the oldest things go first.
const BYTES_MAX: usize = 4 << 20;

/// One thing in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is, in one line.
    pub title: String,
    /// Its texts, each under a heading.
    pub texts: Vec<(&'static str, String)>,
}

impl Item {
    fn bytes(&self) -> usize {
        self.title.len() + self.texts.iter().map(|(_, text)| text.len()).sum::<usize>()
    }
}

/// Everything that can be opened.
#[derive(Debug, Default)]
pub struct Shelf {
    items: VecDeque<Item>,
    bytes: usize,
    /// How many went already.
    gone: usize,
}

impl Shelf {
    /// Puts a thing on the shelf, and gives its number.
    pub fn put(&mut self, item: Item) -> usize {
        self.bytes += item.bytes();
        self.items.push_back(item);
        while self.items.len() > 1 && (self.items.len() > ITEMS_MAX || self.bytes > BYTES_MAX) {
            self.bytes -= self.items.pop_front().map_or(0, |oldest| oldest.bytes());
            self.gone += 1;
        }
        self.gone + self.items.len()
    }

    /// The thing with this number.
    ///
    /// # Errors
    /// What to say when it is not there.
    pub fn get(&self, number: usize) -> Result<&Item, String> {
        let last = self.gone + self.items.len();
        let place = number.checked_sub(self.gone + 1);
        match place.and_then(|place| self.items.get(place)) {
            Some(item) => Ok(item),
            None if number > 0 && number <= self.gone => Err(format!(
                "#{number} is no longer kept here; the last {} are. The conversation holds it still",
                self.items.len()
            )),
            None if last == 0 => Err("there is nothing to open yet".to_owned()),
            None => Err(format!("there is no #{number}; the last is #{last}")),
        }
    }
}

/// The arguments of a call as people read them: one value a line.
pub fn arguments_in_full(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(fields)) => {
            let line = |(name, value): (&String, &Value)| match value {
                Value::String(text) if text.contains('\n') => format!("{name}:\n{text}"),
                Value::String(text) => format!("{name}: {text}"),
                other => format!("{name}: {other}"),
            };
            fields.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        Ok(_) | Err(_) => arguments.to_owned(),
    }
}

/// The one argument that says most about a call.
pub fn arguments_in_short(arguments: &str) -> String {
    const TELLING: [&str; 9] = ["command", "path", "pattern", "url", "query", "file", "goal", "action", "id"];
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(arguments) else {
        return arguments.to_owned();
    };
    if let Some(Value::Array(tasks)) = fields.get("tasks") {
        let goals: Vec<&str> = tasks.iter().filter_map(|task| task["goal"].as_str()).collect();
        let count = if tasks.len() == 1 { "1 task".to_owned() } else { format!("{} tasks", tasks.len()) };
        return format!("{count}: {}", goals.join("; "));
    }
    let told = TELLING.iter().filter_map(|name| fields.get(*name)?.as_str());
    let told: Vec<&str> = told.take(2).collect();
    if told.is_empty() && !fields.is_empty() { arguments.to_owned() } else { told.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(title: &str, bytes: usize) -> Item {
        Item { title: title.to_owned(), texts: vec![("result", "x".repeat(bytes))] }
    }

    #[test]
    fn numbers_stay_when_old_things_go() {
        let mut shelf = Shelf::default();
        assert_eq!(shelf.get(1), Err("there is nothing to open yet".to_owned()));
        for number in 1..=ITEMS_MAX + 10 {
            assert_eq!(shelf.put(item(&number.to_string(), 1)), number);
        }
        assert!(shelf.get(10).expect_err("it has gone").contains("no longer kept"));
        assert_eq!(shelf.get(11).expect("it is there").title, "11");
        assert!(shelf.get(ITEMS_MAX + 11).expect_err("it never was").contains("the last is #510"));
        let number = shelf.put(item("large", BYTES_MAX));
        assert_eq!(shelf.get(number).expect("it is there").title, "large");
        assert!(shelf.get(number - 1).is_err());
    }

    #[test]
    fn arguments_say_the_most_in_short() {
        let table = [
            (r#"{"command":"cargo test","timeout":3}"#, "cargo test"),
            (r#"{"path":"src","pattern":"fn main"}"#, "src fn main"),
            (r#"{"tasks":[{"goal":"a"},{"goal":"b"}]}"#, "2 tasks: a; b"),
            (r#"{"lines":3}"#, r#"{"lines":3}"#),
            ("{}", ""),
            ("not json", "not json"),
        ];
        for (arguments, short) in table {
            assert_eq!(arguments_in_short(arguments), short);
        }
        assert_eq!(arguments_in_full(r#"{"a":"x\ny","b":2}"#), "a:\nx\ny\nb: 2");
    }
}
