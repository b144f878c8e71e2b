//! Watches how deep the arguments of calls nest while they arrive. What nests too deep can never be read, and the
//! library's search for a part of it that can takes time and memory with the square of the depth.

use rig_core::streaming::{Item, Part, StreamEvent};
use std::collections::HashMap;

/// The depth at which the reader of JSON gives up.
const DEPTH_MAX: usize = 128;
/// Bytes of such arguments that are kept, to show what was wrong.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// The calls of one reply.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    calls: HashMap<Part, Arguments>,
}

#[derive(Debug, Default)]
struct Arguments {
    start: String,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Reads on. Once the arguments of a call nest too deep, this is what they begin with.
    pub(super) fn too_deep(&mut self, item: &Item<StreamEvent>) -> Option<String> {
        let Item::Event(StreamEvent::Arguments { part, json }) = item else { return None };
        let arguments = self.calls.entry(*part).or_default();
        arguments.read(json).then(|| std::mem::take(&mut arguments.start))
    }
}

impl Arguments {
    fn read(&mut self, json: &str) -> bool {
        let room = KEPT_BYTES_MAX.saturating_sub(self.start.len());
        self.start.push_str(&json[..json.floor_char_boundary(room)]);
        json.bytes().any(|byte| {
            self.take(byte);
            self.depth >= DEPTH_MAX
        })
    }

    fn take(&mut self, byte: u8) {
        match (self.in_string, byte) {
            (true, _) if self.escaped => self.escaped = false,
            (true, b'\\') => self.escaped = true,
            (_, b'"') => self.in_string = !self.in_string,
            (false, b'[' | b'{') => self.depth += 1,
            (false, b']' | b'}') => self.depth = self.depth.saturating_sub(1),
            (true | false, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, too_deep: bool) {
        for cut in [0, json.len() / 2, json.len()] {
            let mut arguments = Arguments::default();
            let (first, second) = json.split_at(cut);
            assert_eq!(arguments.read(first) || arguments.read(second), too_deep, "{json}");
        }
        let read = serde_json::from_str::<serde_json::Value>(json);
        assert!(!too_deep || read.is_err(), "what can be read is not too deep: {json}");
    }

    #[test]
    fn only_what_nobody_can_read_is_too_deep() {
        check(&format!("{}{}", "[".repeat(127), "]".repeat(127)), false);
        check(&format!("{}{}", "[".repeat(128), "]".repeat(128)), true);
        check(&format!("{{\"a\":{}1{}}}", "{\"b\":[".repeat(64), "]}".repeat(64)), true);
        check(&format!("[{}1]", "[],{},".repeat(200)), false);
        check(&format!("{{\"a\": \"{}\\\"{}\"}}", "[".repeat(500), "{".repeat(500)), false);
    }
}
