//! A request's conversation in one shape for every wire format: what scripts look at and what the strict check walks.
//!
//! It does not know how any provider writes it down; the wire files translate.

/// Who a message is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// A tool call as it stands in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenCall {
    /// Where it stands in the request, such as `messages[1].tool_calls[0]`.
    pub place: String,
    /// Its id; where the request has none, one made from its place.
    pub id: String,
    pub name: String,
    /// The argument text exactly as it came, valid JSON or not.
    pub arguments: String,
}

/// One message of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenMessage {
    /// Where it stands in the request, such as `messages[1]`.
    pub place: String,
    pub role: Role,
    /// The text parts, joined by line ends.
    pub text: String,
    /// The reasoning that an assistant message brings back, if it brings any.
    pub reasoning: Option<String>,
    /// The calls of an assistant message, in order.
    pub calls: Vec<SeenCall>,
    /// For a tool message, the id of the call that it answers.
    pub answers: Option<String>,
}

impl SeenMessage {
    /// A message of this role with nothing in it.
    pub(super) fn new(role: Role, place: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            role,
            text: String::new(),
            reasoning: None,
            calls: Vec::new(),
            answers: None,
        }
    }
}

/// What a request carries, apart from its wire format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub model: String,
    pub messages: Vec<SeenMessage>,
    /// Names of the tools offered to the model, in order.
    pub tools: Vec<String>,
}

impl Conversation {
    /// The text of the first user message; empty if there is none.
    pub fn first_user_text(&self) -> &str {
        self.messages.iter().find(|message| message.role == Role::User).map_or("", |message| &message.text)
    }

    /// The text of the system message; empty if there is none.
    pub fn system_text(&self) -> &str {
        self.messages.iter().find(|message| message.role == Role::System).map_or("", |message| &message.text)
    }

    /// The text of the last message; empty if there is none.
    pub fn last_text(&self) -> &str {
        self.messages.last().map_or("", |message| &message.text)
    }

    /// How many assistant messages follow the first user message: the 0-based number of the step to play.
    pub fn step(&self) -> usize {
        let after_first_user = self.messages.iter().skip_while(|message| message.role != Role::User);
        after_first_user.filter(|message| message.role == Role::Assistant).count()
    }

    /// The texts of all tool results, in the order of the history.
    pub fn tool_results(&self) -> Vec<&str> {
        let tools = self.messages.iter().filter(|message| message.role == Role::Tool);
        tools.map(|message| message.text.as_str()).collect()
    }
}
