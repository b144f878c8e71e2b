//! What the program left: exit code, outputs, and how long it took.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// A run of the program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; -1 after a signal that nobody handled.
    pub code: i32,
    /// From the moment on when the test began to wait, as far as the machine gave the test its turns.
    pub took: Duration,
    /// From the start on.
    pub lived: Duration,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Stdout, which must be exactly one JSON document on one line.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.stdout.matches('\n').count(), 1, "one line: {self}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The `results` of the document on stdout.
    #[track_caller]
    pub fn results(&self) -> Vec<Value> {
        self.json()["results"].as_array().unwrap_or_else(|| panic!("no results: {self}")).clone()
    }

    /// The statuses of the results, in the order of the document.
    #[track_caller]
    pub fn statuses(&self) -> Vec<String> {
        self.results().iter().map(|entry| text(&entry["status"])).collect()
    }

    /// A failure in its JSON form: the exit code, the kind, and each of the words in message or hint.
    #[track_caller]
    pub fn assert_refused(&self, code: i32, kind: &str, words: &[&str]) {
        let document = self.json();
        let error = &document["error"];
        assert_eq!((self.code, error["kind"].as_str()), (code, Some(kind)), "{self}");
        let told = format!("{} {}", text(&error["message"]), error["hint"].as_str().unwrap_or_default());
        for word in words {
            assert!(told.contains(word), "{word:?} is missing: {self}");
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ended { code, lived, stdout, stderr, .. } = self;
        write!(f, "exit {code} after {lived:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
