//! The strict check: what a demanding provider refuses in the order of roles and the pairing of calls and results.
//!
//! It walks the conversation in its neutral shape. The shape of one wire format's fields is checked beside that
//! format; both speak in `Violation`s, which are answered with 400 and counted in the log.

use std::collections::HashSet;

use super::conversation::{Conversation, Role, SeenCall, SeenMessage};
use super::memory::{Memory, Origin};

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
    /// There is no key, or it does not stand where the format has it.
    NoKey,
    /// The key is not the one that the scripts ask for.
    WrongKey,
    /// A required field or header is missing or empty.
    Missing,
    /// A field has a type or a value that it must not have.
    IllegalValue,
    /// There are no messages.
    NoMessages,
    /// A system message stands elsewhere than first.
    SystemNotFirst,
    /// The first message after the system's is not the user's.
    UserNotFirst,
    /// Two messages of the same role in a row, under `Alternation::Strict` or in a format that never allows it.
    Alternation,
    /// An assistant message says nothing and calls nothing.
    NothingSaid,
    /// A call has no result before the next message of another role, or at the end.
    Unanswered,
    /// A tool message answers no call of the assistant message before it.
    StrayResult,
    /// In a message that carries results, something stands before one of them.
    ResultNotFirst,
    /// Two calls of the conversation have one id, or one call has two results.
    DuplicateId,
    /// The arguments of a call in the history are not what the format wants: JSON text, or an object.
    Arguments,
    /// A call that was made after reasoning comes back without it.
    ReasoningMissing,
    /// Reasoning comes back, but not as it was sent, or without its signature.
    ReasoningChanged,
    /// Reasoning comes back without what it led to.
    ReasoningAlone,
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

    /// All of it in one sentence.
    pub(super) fn sentence(&self) -> String {
        format!("{} ({:?} at `{}`)", self.message, self.rule, self.param)
    }
}

/// What a wire format asks of the order of a conversation, and how it names the places in it.
#[derive(Debug)]
pub(super) struct Rules {
    /// What is added to the place of a message to name its role.
    pub role: &'static str,
    /// What is added to the place of a call to name its id.
    pub call_id: &'static str,
    /// What is added to the place of a call to name its arguments.
    pub arguments: &'static str,
    /// What is added to the place of a result to name the call that it answers.
    pub answers: &'static str,
    pub reasoning: Returned,
}

/// Whether reasoning must come back together with the calls that it led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returned {
    Never,
    /// In the messages after the user's last.
    InTurn,
    Always,
}

/// What a conversation is checked against.
pub(super) struct Standard<'a> {
    pub rules: &'static Rules,
    pub alternation: Alternation,
    pub memory: &'a Memory,
}

/// Checks order and pairing, and stops at the first violation.
pub(super) fn check(conversation: &Conversation, standard: &Standard<'_>) -> Result<(), Violation> {
    let mut walk = Walk::new(standard);
    for (index, message) in conversation.messages.iter().enumerate() {
        walk.visit(index, message)?;
    }
    walk.finish(conversation.messages.last())?;
    reasoning_came_back(conversation, standard)
}

fn reasoning_came_back(conversation: &Conversation, standard: &Standard<'_>) -> Result<(), Violation> {
    let first = match standard.rules.reasoning {
        Returned::Never => return Ok(()),
        Returned::InTurn => turn_start(&conversation.messages),
        Returned::Always => 0,
    };
    for message in conversation.messages[first..].iter().filter(|message| message.reasoning.is_none()) {
        let after_reasoning = |call: &&SeenCall| standard.memory.origin(&call.id) == Some(Origin::Reasoned);
        if let Some(call) = message.calls.iter().find(after_reasoning) {
            let text =
                format!("the call `{}` was made after reasoning, which must come back with it", call.id);
            return Err(Violation::new(Rule::ReasoningMissing, &call.place, text));
        }
    }
    Ok(())
}

/// The place in the list of the user message that began the current turn. One that came along with results did not.
pub(super) fn turn_start(messages: &[SeenMessage]) -> usize {
    let begins = |index: &usize| {
        let after_result = *index > 0 && messages[index - 1].role == Role::Tool;
        messages[*index].role == Role::User && !after_result
    };
    (0..messages.len()).rev().find(begins).unwrap_or(0)
}

/// What the walk remembers of the messages behind it.
struct Walk<'a> {
    standard: &'a Standard<'a>,
    last: Option<Role>,
    user_seen: bool,
    /// Ids of the last assistant message's calls that have no result yet, in order.
    open: Vec<String>,
    all_ids: HashSet<String>,
    answered: HashSet<String>,
}

impl<'a> Walk<'a> {
    fn new(standard: &'a Standard<'a>) -> Self {
        Self {
            standard,
            last: None,
            user_seen: false,
            open: Vec::new(),
            all_ids: HashSet::new(),
            answered: HashSet::new(),
        }
    }

    fn visit(&mut self, index: usize, message: &SeenMessage) -> Result<(), Violation> {
        if message.role != Role::Tool {
            self.nothing_open(&message.place)?;
        }
        match message.role {
            Role::System => self.system(index, message)?,
            Role::User => self.user(message)?,
            Role::Assistant => self.assistant(message)?,
            Role::Tool => self.tool(message)?,
        }
        self.last = Some(message.role);
        Ok(())
    }

    fn system(&self, index: usize, message: &SeenMessage) -> Result<(), Violation> {
        if index == 0 {
            return Ok(());
        }
        let text = "a system message must be the first message";
        Err(Violation::new(Rule::SystemNotFirst, self.role_of(message), text))
    }

    fn user(&mut self, message: &SeenMessage) -> Result<(), Violation> {
        self.user_seen = true;
        self.not_twice(message)
    }

    fn assistant(&mut self, message: &SeenMessage) -> Result<(), Violation> {
        if !self.user_seen {
            let text = "an assistant message stands before the first user message";
            return Err(Violation::new(Rule::UserNotFirst, self.role_of(message), text));
        }
        self.not_twice(message)?;
        message.calls.iter().try_for_each(|call| self.call(call))
    }

    fn call(&mut self, call: &SeenCall) -> Result<(), Violation> {
        let rules = self.standard.rules;
        if !self.all_ids.insert(call.id.clone()) {
            let param = format!("{}{}", call.place, rules.call_id);
            let text = format!("the id `{}` belongs to an earlier call already", call.id);
            return Err(Violation::new(Rule::DuplicateId, param, text));
        }
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments) {
            let param = format!("{}{}", call.place, rules.arguments);
            let text = format!("the arguments of `{}` are not JSON text: {error}", call.id);
            return Err(Violation::new(Rule::Arguments, param, text));
        }
        self.open.push(call.id.clone());
        Ok(())
    }

    fn tool(&mut self, message: &SeenMessage) -> Result<(), Violation> {
        let id = message.answers.as_deref().unwrap_or_default();
        let param = format!("{}{}", message.place, self.standard.rules.answers);
        if let Some(position) = self.open.iter().position(|open| open == id) {
            self.open.remove(position);
            self.answered.insert(id.to_owned());
            return Ok(());
        }
        if self.answered.contains(id) {
            let text = format!("the call `{id}` has a result already");
            return Err(Violation::new(Rule::DuplicateId, param, text));
        }
        let text = format!("a result must answer a call of the assistant message before it; `{id}` is none");
        Err(Violation::new(Rule::StrayResult, param, text))
    }

    fn not_twice(&self, message: &SeenMessage) -> Result<(), Violation> {
        if self.standard.alternation == Alternation::Free || self.last != Some(message.role) {
            return Ok(());
        }
        let text = format!("two messages of the role {:?} follow one another", message.role);
        Err(Violation::new(Rule::Alternation, self.role_of(message), text))
    }

    fn nothing_open(&self, place: &str) -> Result<(), Violation> {
        if self.open.is_empty() {
            return Ok(());
        }
        let missing = self.open.join("`, `");
        let text = format!("every call needs a result right after it; there is none for `{missing}`");
        Err(Violation::new(Rule::Unanswered, place, text))
    }

    fn finish(&self, last: Option<&SeenMessage>) -> Result<(), Violation> {
        let Some(last) = last else {
            return Err(Violation::new(Rule::NoMessages, "messages", "there are no messages"));
        };
        self.nothing_open("messages")?;
        match last.role {
            Role::User | Role::Tool => Ok(()),
            role @ (Role::System | Role::Assistant) => {
                let text =
                    format!("the last message must be the user's or a tool's, not of the role {role:?}");
                Err(Violation::new(Rule::LastRole, self.role_of(last), text))
            }
        }
    }

    fn role_of(&self, message: &SeenMessage) -> String {
        format!("{}{}", message.place, self.standard.rules.role)
    }
}
