//! Tables that say something about a model: named routes, the links of a fallback chain, and the fields that go into every
//! request. One list of their keys serves reading, checking, showing and the schema.
//!
//! Which model comes out of a block, and which key may go where, is decided in [`super::model`].

use std::collections::BTreeMap;

pub use legwork_agent::models::EXTRA_BODY;
use serde_json::{Map, Value, json};

use super::field;
use super::nearest::nearest;
use super::problem::{Complaint, Spot};
use super::raw::{Item, Raw};
use super::secret::{MASK, Secret};
use super::values::{ApiMode, ReasoningEffort};

/// Characters of a route's name.
const NAME_CHARS_MAX: usize = 64;
/// Characters of a route's description: every one of them is in every request of a model that may delegate.
const DESCRIPTION_CHARS_MAX: usize = 300;
/// Links of one fallback chain.
const LINKS_MAX: usize = 8;

/// Fields of a request that are not to be overridden: they are what legwork itself says.
const FIXED_FIELDS: &[&str] = &[
    "model",
    "messages",
    "input",
    "contents",
    "system",
    "instructions",
    "systemInstruction",
    "tools",
    "stream",
    "stream_options",
    "store",
    "extra_headers",
];

/// Fields of every model request, laid over what legwork sends.
pub type Overrides = Map<String, Value>;

/// What one table says about a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelBlock {
    /// The provider's name for the model.
    pub model: String,
    /// Who answers.
    pub provider: String,
    /// The address.
    pub base_url: String,
    /// The key for the address or provider beside it.
    pub api_key: Secret,
    /// The name of the variable that holds that key.
    pub api_key_env: String,
    /// Whether the table says itself that no key is needed: `api_key = ""`.
    pub needs_no_key: bool,
    /// The protocol, if one is named.
    pub api_mode: Option<ApiMode>,
    /// How hard the model thinks, if that is named.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Fields of every request.
    pub request_overrides: Overrides,
    /// What answers when the model fails. None: nothing is said; an empty list: nothing answers.
    pub fallback_providers: Option<Vec<ModelBlock>>,
}

/// A named route.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NamedRoute {
    /// What it is good for, as the model reads it.
    pub description: String,
    /// The model, where it is and what it is asked with.
    pub block: ModelBlock,
}

/// A key within a block.
struct BlockKey {
    name: &'static str,
    doc: &'static str,
    kind: ValueKind,
    /// Whether it stands in the links of a chain too.
    in_links: bool,
}

#[derive(Clone, Copy)]
enum ValueKind {
    Description,
    Text(fn(&mut ModelBlock) -> &mut String),
    Url,
    Key,
    Variable,
    Mode,
    Effort,
    Overrides,
    Links,
    Ignored,
}

const fn block_key(name: &'static str, kind: ValueKind, in_links: bool, doc: &'static str) -> BlockKey {
    BlockKey { name, doc, kind, in_links }
}

const BLOCK_KEYS: &[BlockKey] = &[
    block_key(
        "description",
        ValueKind::Description,
        false,
        "What it is good for, as the model that chooses reads it.",
    ),
    block_key("model", ValueKind::Text(|block| &mut block.model), true, "The model, by its plain name."),
    block_key(
        "provider",
        ValueKind::Text(|block| &mut block.provider),
        true,
        "The provider; empty: the parent's.",
    ),
    block_key("base_url", ValueKind::Url, true, "The address; empty: the provider's own, or the parent's."),
    block_key(
        "api_key",
        ValueKind::Key,
        true,
        "The key for the address or provider beside it; never shown. Empty: none is needed there.",
    ),
    block_key(
        "api_key_env",
        ValueKind::Variable,
        true,
        "The name of the environment variable that holds that key.",
    ),
    block_key("api_mode", ValueKind::Mode, true, "The protocol, if not the usual one."),
    block_key(
        "reasoning_effort",
        ValueKind::Effort,
        true,
        "How hard the model thinks; empty: as the parent.",
    ),
    block_key("request_overrides", ValueKind::Overrides, true, "Extra fields of every request."),
    block_key(
        "fallback_providers",
        ValueKind::Links,
        false,
        "What answers when this model fails; unset: nothing.",
    ),
    block_key("command", ValueKind::Ignored, false, "Has no effect in a route."),
    block_key("args", ValueKind::Ignored, false, "Has no effect in a route."),
];

/// What was read, how it is shown, and what is worth a word although nothing is wrong.
pub struct Read<T> {
    pub value: T,
    pub shown: Value,
    pub warnings: Vec<String>,
}

/// Reads the named routes.
pub fn routes(raw: &Raw) -> Result<Read<BTreeMap<String, NamedRoute>>, Complaint> {
    let mut read = Read { value: BTreeMap::new(), shown: json!({}), warnings: Vec::new() };
    for item in raw.table()? {
        check_name(&item.name).map_err(|complaint| complaint.inside(&item.name, item.name_at))?;
        let route = route(item).map_err(|complaint| complaint.inside(&item.name, item.value_at))?;
        read.shown[&item.name] = route.shown;
        read.warnings.extend(route.warnings);
        read.value.insert(item.name.clone(), route.value);
    }
    Ok(read)
}

fn check_name(name: &str) -> Result<(), Complaint> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(legal) {
        return Err(Complaint::WrongType {
            expected: format!("a name of at most {NAME_CHARS_MAX} letters, digits, `-`, `_` and `.`"),
            found: format!("{:?}", super::raw::cut(name)),
        });
    }
    Ok(())
}

fn route(item: &Item) -> Result<Read<NamedRoute>, Complaint> {
    let mut route = NamedRoute::default();
    let mut shown = Map::new();
    let mut warnings = Vec::new();
    for item_of in item.raw.table()? {
        let value = take(&mut route, item_of, Within::Route)?;
        if value.is_null() {
            warnings
                .push(format!("`delegation.routes.{}.{}` has no effect in a route", item.name, item_of.name));
        }
        shown.insert(item_of.name.clone(), value);
    }
    if route.block.model.trim().is_empty() {
        return Err(Complaint::WrongType {
            expected: "a table with a `model`".to_owned(),
            found: "none in it".to_owned(),
        });
    }
    Ok(Read { value: route, shown: Value::Object(shown), warnings })
}

/// Which kind of table a key stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Route,
    Link,
}

/// Reads one key of a block, and gives it as it may be shown; null for one without effect.
fn take(route: &mut NamedRoute, item: &Item, within: Within) -> Result<Value, Complaint> {
    let fits = |key: &&BlockKey| within == Within::Route || key.in_links;
    let Some(key) = BLOCK_KEYS.iter().filter(fits).find(|key| key.name == item.name) else {
        let names = BLOCK_KEYS.iter().filter(fits).map(|key| key.name);
        let nearest = nearest(&item.name, names).map(str::to_owned);
        return Err(Complaint::Unknown { nearest }.inside(&item.name, item.name_at));
    };
    value(route, key.kind, &item.raw).map_err(|complaint| complaint.inside(&item.name, item.value_at))
}

fn value(route: &mut NamedRoute, kind: ValueKind, raw: &Raw) -> Result<Value, Complaint> {
    let block = &mut route.block;
    match kind {
        ValueKind::Description => {
            let text: String = raw.text()?.split_whitespace().collect::<Vec<_>>().join(" ");
            if text.chars().count() > DESCRIPTION_CHARS_MAX {
                let accepts = format!("of at most {DESCRIPTION_CHARS_MAX} characters");
                return Err(Complaint::OutOfBounds { accepts, found: text.chars().count().to_string() });
            }
            route.description = text;
            Ok(json!(route.description))
        }
        ValueKind::Text(slot) => {
            raw.text()?.trim().clone_into(slot(block));
            Ok(json!(slot(block)))
        }
        ValueKind::Url => {
            field::address(raw)?.clone_into(&mut block.base_url);
            Ok(json!(block.base_url))
        }
        ValueKind::Key => {
            block.api_key = Secret::new(raw.text().map_err(field::hide)?);
            block.needs_no_key = block.api_key.is_empty();
            Ok(if block.needs_no_key { json!("") } else { json!(MASK) })
        }
        ValueKind::Variable => {
            field::variable_name(raw)?.clone_into(&mut block.api_key_env);
            Ok(json!(block.api_key_env))
        }
        ValueKind::Mode => {
            block.api_mode = field::choice(raw, ApiMode::WORDS, None)?.map(|index| ApiMode::ALL[index]);
            Ok(json!(block.api_mode.map_or("", ApiMode::word)))
        }
        ValueKind::Effort => {
            let index = field::choice(raw, ReasoningEffort::WORDS, None)?;
            block.reasoning_effort = index.map(|index| ReasoningEffort::ALL[index]);
            Ok(json!(block.reasoning_effort.map_or("", ReasoningEffort::word)))
        }
        ValueKind::Overrides => {
            let read = overrides(raw)?;
            block.request_overrides = read.value;
            Ok(read.shown)
        }
        ValueKind::Links => {
            let read = links(raw)?;
            block.fallback_providers = Some(read.value);
            Ok(read.shown)
        }
        ValueKind::Ignored => Ok(Value::Null),
    }
}

/// Reads the fields that are laid over every request.
pub fn overrides(raw: &Raw) -> Result<Read<Overrides>, Complaint> {
    let mut fields = Map::new();
    for item in raw.table()? {
        fixed(item)?;
        let value = item.raw.to_json().map_err(|complaint| complaint.inside(&item.name, item.value_at))?;
        if item.name == EXTRA_BODY {
            let inner = item.raw.table().map_err(|complaint| complaint.inside(EXTRA_BODY, item.value_at))?;
            inner
                .iter()
                .try_for_each(fixed)
                .map_err(|complaint| complaint.inside(EXTRA_BODY, item.value_at))?;
        }
        fields.insert(item.name.clone(), value);
    }
    let shown = masked(&Value::Object(fields.clone()));
    Ok(Read { value: fields, shown, warnings: Vec::new() })
}

fn fixed(item: &Item) -> Result<(), Complaint> {
    if !FIXED_FIELDS.contains(&item.name.as_str()) {
        return Ok(());
    }
    let complaint = Complaint::WrongType {
        expected: "another name".to_owned(),
        found: "a field that legwork itself fills".to_owned(),
    };
    Err(complaint.inside(&item.name, item.name_at))
}

/// The same without what by its name is a secret.
fn masked(value: &Value) -> Value {
    const SIGNS: [&str; 5] = ["key", "token", "secret", "password", "authorization"];
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, value)| {
                    let name_low = name.to_ascii_lowercase();
                    // A number of tokens is no secret.
                    let is_secret = value.is_string() && SIGNS.iter().any(|sign| name_low.contains(sign));
                    (name.clone(), if is_secret { json!(MASK) } else { masked(value) })
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(masked).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Reads a fallback chain: a list of `PROVIDER/NAME` and tables.
pub fn links(raw: &Raw) -> Result<Read<Vec<ModelBlock>>, Complaint> {
    let items: Vec<Raw> = match raw {
        Raw::List(items) => items.clone(),
        Raw::Word(_) => raw.list()?.into_iter().map(Raw::Text).collect(),
        Raw::Text(_) | Raw::Whole(_) | Raw::Fraction(_) | Raw::Flag(_) | Raw::Table(_) | Raw::Other(_) => {
            return Err(raw.is_not("a list of PROVIDER/NAME or of tables"));
        }
    };
    if items.len() > LINKS_MAX {
        let accepts = format!("of at most {LINKS_MAX} entries");
        return Err(Complaint::OutOfBounds { accepts, found: items.len().to_string() });
    }
    let mut read = Read { value: Vec::new(), shown: json!([]), warnings: Vec::new() };
    for (index, item) in items.iter().enumerate() {
        let (block, shown) = link(item).map_err(|complaint| numbered(complaint, index))?;
        read.value.push(block);
        read.shown.as_array_mut().expect("it was made as a list").push(shown);
    }
    Ok(read)
}

fn numbered(complaint: Complaint, index: usize) -> Complaint {
    let spot: Option<Spot> = complaint.spot();
    let name = format!("entry {}", index + 1);
    match spot {
        Some(spot) => complaint.inside(&name, spot),
        None => Complaint::Inside { path: name, spot: None, complaint: Box::new(complaint) },
    }
}

fn link(raw: &Raw) -> Result<(ModelBlock, Value), Complaint> {
    let mut route = NamedRoute::default();
    let shown = match raw {
        Raw::Text(text) => {
            let expected = "PROVIDER/NAME or a table with `provider` and `model`";
            let (provider, model) = text.trim().split_once('/').ok_or_else(|| raw.is_not(expected))?;
            if provider.is_empty() || model.trim().is_empty() {
                return Err(raw.is_not(expected));
            }
            (route.block.provider, route.block.model) = (provider.to_owned(), model.to_owned());
            json!(text)
        }
        Raw::Table(items) => {
            let mut shown = Map::new();
            for item in items {
                shown.insert(item.name.clone(), take(&mut route, item, Within::Link)?);
            }
            Value::Object(shown)
        }
        Raw::Word(_) | Raw::Whole(_) | Raw::Fraction(_) | Raw::Flag(_) | Raw::List(_) | Raw::Other(_) => {
            return Err(raw.is_not("PROVIDER/NAME or a table"));
        }
    };
    if route.block.model.is_empty() {
        return Err(Complaint::WrongType {
            expected: "a table with a `model`".to_owned(),
            found: "none in it".to_owned(),
        });
    }
    Ok((route.block, shown))
}

/// The schema of the table of routes.
pub fn routes_schema() -> Value {
    json!({
        "type": "object",
        "default": {},
        "propertyNames": {"pattern": format!("^[A-Za-z0-9_.-]{{1,{NAME_CHARS_MAX}}}$")},
        "additionalProperties": block_schema(Within::Route),
    })
}

/// The schema of a fallback chain.
pub fn links_schema() -> Value {
    let reference = json!({"type": "string", "pattern": "^[^/]+/.+$"});
    json!({"type": "array", "maxItems": LINKS_MAX, "items": {"oneOf": [reference, block_schema(Within::Link)]}})
}

/// The schema of the fields of a request.
pub fn overrides_schema() -> Value {
    json!({"type": "object", "default": {}, "propertyNames": {"not": {"enum": FIXED_FIELDS}}})
}

fn block_schema(within: Within) -> Value {
    let fits = |key: &&BlockKey| within == Within::Route || key.in_links;
    let properties: Map<String, Value> = BLOCK_KEYS
        .iter()
        .filter(fits)
        .map(|key| {
            let mut schema = kind_schema(key.kind);
            schema["description"] = json!(key.doc);
            (key.name.to_owned(), schema)
        })
        .collect();
    json!({"type": "object", "additionalProperties": false, "required": ["model"], "properties": properties})
}

fn kind_schema(kind: ValueKind) -> Value {
    let word_of = |words: &[&str]| json!({"enum": words.iter().chain(&[""]).collect::<Vec<_>>()});
    match kind {
        ValueKind::Description => json!({"type": "string", "maxLength": DESCRIPTION_CHARS_MAX}),
        ValueKind::Text(_) => json!({"type": "string"}),
        ValueKind::Url => json!({"type": "string", "pattern": "^(https?://.+)?$"}),
        ValueKind::Key => json!({"type": "string", "writeOnly": true}),
        ValueKind::Variable => json!({"type": "string", "pattern": "^([A-Za-z_][A-Za-z0-9_]*)?$"}),
        ValueKind::Mode => word_of(ApiMode::WORDS),
        ValueKind::Effort => word_of(ReasoningEffort::WORDS),
        ValueKind::Overrides => overrides_schema(),
        ValueKind::Links => links_schema(),
        ValueKind::Ignored => json!({"deprecated": true}),
    }
}
