//! The strict check: what a demanding provider refuses in the order of roles and the pairing of calls and results.
//!
//! It walks the conversation in its neutral shape. The shape of one wire format's fields is checked beside that
//! format; both speak in `Violation`s, which are answered with 400 and counted in the log.

use std::collections::HashSet;

use super::conversation::{Conversation, Role, SeenCall, SeenMessage};

/// Whether neighbours of the same role are legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alternation {
    /// Two user or two assistant messages in a row are legal.
    Free,
    /// They are violations.
    Strict,
}

/// The rule that a request broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The request is no HTTP that the server reads: head, length or body.
    Http,
    /// The body is no JSON object, or not declared as JSON.
    Json,
    /// A required field is missing or empty.
    Missing,
    /// A field has a type or a value that it must not have.
    IllegalValue,
    /// There are no messages.
    NoMessages,
    /// A system message stands elsewhere than first.
    SystemNotFirst,
    /// The first message after the system's is not the user's.
    UserNotFirst,
    /// Two messages of the same role in a row, under `Alternation::Strict`.
    Alternation,
    /// An assistant message says nothing and calls nothing.
    NothingSaid,
    /// A call has no result before the next message of another role, or at the end.
    Unanswered,
    /// A tool message answers no call of the assistant message before it.
    StrayResult,
    /// Two calls of the conversation have one id, or one call has two results.
    DuplicateId,
    /// The arguments of a call in the history are not JSON text.
    Arguments,
    /// The last message is neither the user's nor a tool's.
    LastRole,
    /// The scripts have nothing for this request.
    Unscripted,
}

/// One broken rule of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    /// The place in the request, such as `messages[3].role`.
    pub param: String,
    pub message: String,
}

impl Violation {
    pub(super) fn new(rule: Rule, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { rule, param: param.into(), message: message.into() }
    }
}

/// Checks order and pairing, and stops at the first violation.
pub(super) fn check(conversation: &Conversation, alternation: Alternation) -> Result<(), Violation> {
    let mut walk = Walk { alternation, ..Walk::default() };
    for (index, message) in conversation.messages.iter().enumerate() {
        walk.visit(index, message)?;
    }
    walk.finish(conversation.messages.len())
}

/// What the walk remembers of the messages behind it.
struct Walk {
    alternation: Alternation,
    last: Option<Role>,
    user_seen: bool,
    /// Ids of the last assistant message's calls that have no result yet, in order.
    open: Vec<String>,
    all_ids: HashSet<String>,
    answered: HashSet<String>,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            alternation: Alternation::Free,
            last: None,
            user_seen: false,
            open: Vec::new(),
            all_ids: HashSet::new(),
            answered: HashSet::new(),
        }
    }
}

impl Walk {
    fn visit(&mut self, index: usize, message: &SeenMessage) -> Result<(), Violation> {
        let place = format!("messages[{index}]");
        if message.role != Role::Tool {
            self.nothing_open(&place)?;
        }
        match message.role {
            Role::System => self.system(index, &place)?,
            Role::User => self.user(&place)?,
            Role::Assistant => self.assistant(&place, message)?,
            Role::Tool => self.tool(&place, message)?,
        }
        self.last = Some(message.role);
        Ok(())
    }

    fn system(&self, index: usize, place: &str) -> Result<(), Violation> {
        if index == 0 {
            return Ok(());
        }
        Err(Violation::new(
            Rule::SystemNotFirst,
            format!("{place}.role"),
            "a system message must be the first message",
        ))
    }

    fn user(&mut self, place: &str) -> Result<(), Violation> {
        self.user_seen = true;
        self.not_twice(Role::User, place)
    }

    fn assistant(&mut self, place: &str, message: &SeenMessage) -> Result<(), Violation> {
        if !self.user_seen {
            let text = "an assistant message stands before the first user message";
            return Err(Violation::new(Rule::UserNotFirst, format!("{place}.role"), text));
        }
        self.not_twice(Role::Assistant, place)?;
        for (number, call) in message.calls.iter().enumerate() {
            self.call(&format!("{place}.tool_calls[{number}]"), call)?;
        }
        Ok(())
    }

    fn call(&mut self, place: &str, call: &SeenCall) -> Result<(), Violation> {
        if !self.all_ids.insert(call.id.clone()) {
            let text = format!("the id `{}` belongs to an earlier call already", call.id);
            return Err(Violation::new(Rule::DuplicateId, format!("{place}.id"), text));
        }
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments) {
            let text = format!("the arguments of `{}` are not JSON text: {error}", call.id);
            return Err(Violation::new(Rule::Arguments, format!("{place}.function.arguments"), text));
        }
        self.open.push(call.id.clone());
        Ok(())
    }

    fn tool(&mut self, place: &str, message: &SeenMessage) -> Result<(), Violation> {
        let id = message.answers.as_deref().unwrap_or_default();
        let param = format!("{place}.tool_call_id");
        if let Some(position) = self.open.iter().position(|open| open == id) {
            self.open.remove(position);
            self.answered.insert(id.to_owned());
            return Ok(());
        }
        if self.answered.contains(id) {
            let text = format!("the call `{id}` has a result already");
            return Err(Violation::new(Rule::DuplicateId, param, text));
        }
        let text =
            format!("a tool message must answer a call of the assistant message before it; `{id}` is none");
        Err(Violation::new(Rule::StrayResult, param, text))
    }

    fn not_twice(&self, role: Role, place: &str) -> Result<(), Violation> {
        if self.alternation == Alternation::Free || self.last != Some(role) {
            return Ok(());
        }
        let text = format!("two messages of the role {role:?} follow one another");
        Err(Violation::new(Rule::Alternation, format!("{place}.role"), text))
    }

    fn nothing_open(&self, place: &str) -> Result<(), Violation> {
        if self.open.is_empty() {
            return Ok(());
        }
        let missing = self.open.join("`, `");
        let text = format!("every call needs a tool message right after it; there is none for `{missing}`");
        Err(Violation::new(Rule::Unanswered, place, text))
    }

    fn finish(&self, length: usize) -> Result<(), Violation> {
        self.nothing_open("messages")?;
        match self.last {
            Some(Role::User | Role::Tool) => Ok(()),
            Some(role @ (Role::System | Role::Assistant)) => {
                let param = format!("messages[{}].role", length - 1);
                let text =
                    format!("the last message must be the user's or a tool's, not of the role {role:?}");
                Err(Violation::new(Rule::LastRole, param, text))
            }
            None => Err(Violation::new(Rule::NoMessages, "messages", "there are no messages")),
        }
    }
}
