//! What of a provider's own form travels along with a message of ours: reasoning with its signature or ciphertext, and
//! calls and texts that hold more than can be built anew. It goes back only to the model that made it.
//!
//! It owns how that is stored in the opaque fields of a message; what the items mean is the wire library's business.

use legwork_core::message::{Message, Part};
use reqwest::Url;
use rig_core::message as rig;
use serde_json::{Map, Value, json};

/// The names under which an opaque field holds the item of a piece of reasoning, those of calls by their ids, those of
/// texts by their place among the texts of the message, and who made them.
const ITEM: &str = "item";
const CALLS: &str = "calls";
const TEXTS: &str = "texts";
const ORIGIN: &str = "origin";

/// The very model that a message comes from or goes to: what it is, and at which address.
#[derive(Debug, Clone)]
pub(super) struct Thinker {
    origin: rig::Origin,
    /// Scheme, host and port.
    at: String,
}

impl Thinker {
    /// The model that the library names like this, at that address.
    pub fn new(origin: rig::Origin, base: &Url) -> Self {
        Thinker { origin, at: base.origin().ascii_serialization() }
    }

    /// The model as the library names it.
    pub fn origin(&self) -> &rig::Origin {
        &self.origin
    }

    fn stored(&self) -> Value {
        let rig::Origin { api, provider, model, .. } = &self.origin;
        json!({ "api": api, "provider": provider, "model": model, "at": self.at })
    }

    /// Whether an opaque field came from this model. What cannot be read was written by another adapter.
    fn made(&self, opaque: &Value) -> bool {
        opaque.get(ORIGIN).is_some_and(|origin| *origin == self.stored())
    }
}

/// The items that travel back with one message to one model.
pub(super) struct Carried<'a> {
    thinker: &'a Thinker,
    calls: Option<&'a Map<String, Value>>,
    texts: Option<&'a Map<String, Value>>,
}

impl<'a> Carried<'a> {
    pub fn of(message: &'a Message, thinker: &'a Thinker) -> Self {
        let opaques = message.parts.iter().filter_map(|part| match part {
            Part::Reasoning { opaque, .. } => opaque.as_ref(),
            Part::Text { .. } | Part::Call(_) | Part::Result(_) | Part::Image(_) | Part::Summary(_) => None,
        });
        let mut carried = Carried { thinker, calls: None, texts: None };
        for opaque in opaques.filter(|opaque| thinker.made(opaque)) {
            carried.calls = carried.calls.or_else(|| opaque.get(CALLS)?.as_object());
            carried.texts = carried.texts.or_else(|| opaque.get(TEXTS)?.as_object());
        }
        carried
    }

    /// The item of a piece of reasoning, if it came from the model that is asked now.
    pub fn reasoning<'b>(&self, opaque: &'b Value) -> Option<&'b Value> {
        if self.thinker.made(opaque) { opaque.get(ITEM) } else { None }
    }

    /// The item of the call with this id.
    pub fn call(&self, id: &str) -> Option<&'a Value> {
        self.calls?.get(id)
    }

    /// The item of the text at this place among the texts of the message.
    pub fn text(&self, place: usize) -> Option<&'a Value> {
        self.texts?.get(&place.to_string())
    }
}

/// The items of a reply, as they are put away.
pub(super) struct Keeping<'a> {
    thinker: &'a Thinker,
    calls: Map<String, Value>,
    texts: Map<String, Value>,
}

impl<'a> Keeping<'a> {
    pub fn new(thinker: &'a Thinker) -> Self {
        Keeping { thinker, calls: Map::new(), texts: Map::new() }
    }

    /// The opaque field of a piece of reasoning.
    pub fn reasoning(&self, item: &Value) -> Value {
        json!({ ORIGIN: self.thinker.stored(), ITEM: item })
    }

    /// Keeps the item of a call, where a call built anew would lose something of it.
    pub fn call(&mut self, id: &str, item: Value) {
        let known = ["id", "type", "function", "index", "name", "input"];
        if holds_more(&item, &known) {
            self.calls.insert(id.to_owned(), item);
        }
    }

    /// Keeps the item of the text at this place, where a text built anew would lose something of it.
    pub fn text(&mut self, place: usize, item: Value) {
        if holds_more(&item, &["type", "text", "thought", "citations"]) {
            self.texts.insert(place.to_string(), item);
        }
    }

    /// The part that holds the items of calls and texts, if any were kept.
    pub fn part(self) -> Option<Part> {
        let mut fields = Map::new();
        for (name, items) in [(CALLS, self.calls), (TEXTS, self.texts)] {
            if !items.is_empty() {
                fields.insert(name.to_owned(), Value::Object(items));
            }
        }
        if fields.is_empty() {
            return None;
        }
        fields.insert(ORIGIN.to_owned(), self.thinker.stored());
        Some(Part::Reasoning { text: String::new(), opaque: Some(Value::Object(fields)) })
    }
}

/// Whether an item has fields beside these, such as a signature.
fn holds_more(item: &Value, known: &[&str]) -> bool {
    item.as_object().is_some_and(|fields| fields.keys().any(|key| !known.contains(&key.as_str())))
}
