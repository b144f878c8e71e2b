//! The messages of a conversation as legwork stores them, independent of any provider's wire format.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whose voice a stored message is. A child's text is never the user's voice (invariant 27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// Instructions of ours; only as the first message.
    System,
    /// The person, or for a child the task it was given.
    User,
    /// The model.
    Assistant,
    /// The results of tool calls.
    Tool,
    /// What came back by itself: results of subagents, and ends of processes that they had handed over.
    Completion,
    /// legwork's own summary of earlier messages.
    Summary,
}

/// One stored message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Whose voice it is.
    pub author: Author,
    /// What it consists of, in order.
    pub parts: Vec<Part>,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// The model's reasoning, kept so that it can be carried back where the protocol wants it.
    Reasoning {
        /// What can be read of it.
        text: String,
        /// The provider's own form of it, opaque to us.
        opaque: Option<Value>,
    },
    /// The model asks for a tool.
    Call(ToolCall),
    /// What a tool gave back.
    Result(ToolResult),
    /// A picture that a user shows to the model.
    Image(Image),
    /// What stands for earlier messages from here on. A message with such a part has no other.
    Summary(Summary),
}

/// Stands for the beginning of a conversation when that was too long for the model. Nothing is removed: the messages
/// stay stored, and only what is shown to the model begins later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// What the model reads in their place.
    pub text: String,
    /// The place, counted from 0 over all stored messages, of the first one that is still shown as it is.
    pub from: u64,
}

/// A picture. A provider that cannot take it in its form gets a remark in its place, never an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// What kind of picture it is, such as `image/png`.
    pub media_type: String,
    /// Where the picture itself is.
    #[serde(flatten)]
    pub source: ImageSource,
}

/// Where a picture is. It is stored as a field `data_base64` or `url` beside the media type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageSource {
    /// Here, in base64.
    DataBase64(String),
    /// At this address, which the provider reads; legwork does not.
    Url(String),
}

/// One tool call of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within its conversation.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments, parsed; `null` when they were not valid JSON.
    pub arguments: Value,
    /// The text of the arguments when they were not valid JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
}

/// One tool's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call it answers.
    pub call_id: String,
    /// What the model reads.
    pub content: String,
    /// Whether the tool says that it failed.
    pub is_error: bool,
}

impl Message {
    /// A message that is one piece of text.
    pub fn text(author: Author, text: impl Into<String>) -> Self {
        Message { author, parts: vec![Part::Text { text: text.into() }] }
    }

    /// All plain text of the message, joined as it stands.
    pub fn plain_text(&self) -> String {
        let pieces = self.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::Summary(summary) => Some(summary.text.as_str()),
            Part::Reasoning { .. } | Part::Call(_) | Part::Result(_) | Part::Image(_) => None,
        });
        pieces.collect()
    }

    /// The tool calls of the message, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            Part::Text { .. }
            | Part::Reasoning { .. }
            | Part::Result(_)
            | Part::Image(_)
            | Part::Summary(_) => None,
        })
    }

    /// The beginning of what it says, on one line of at most `chars_max` characters; `None` when it has no text.
    pub fn one_line(&self, chars_max: usize) -> Option<String> {
        let text = self.plain_text();
        let breaks = |letter: char| letter.is_whitespace() || letter.is_control();
        let mut line = String::new();
        let mut room = chars_max;
        for word in text.split(breaks).filter(|word| !word.is_empty()) {
            if room == 0 {
                break;
            }
            if !line.is_empty() {
                line.push(' ');
                room -= 1;
            }
            line.extend(word.chars().take(room));
            room = room.saturating_sub(word.chars().count());
        }
        line.truncate(line.trim_end().len());
        (!line.is_empty()).then_some(line)
    }

    /// The summary that the message is, if it is one.
    pub fn summary(&self) -> Option<&Summary> {
        self.parts.iter().find_map(|part| match part {
            Part::Summary(summary) => Some(summary),
            Part::Text { .. } | Part::Reasoning { .. } | Part::Call(_) | Part::Result(_) | Part::Image(_) => {
                None
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(source: ImageSource, stored: &Value) {
        let part = Part::Image(Image { media_type: "image/png".to_owned(), source });
        assert_eq!(&serde_json::to_value(&part).expect("it can be stored"), stored);
        assert_eq!(serde_json::from_value::<Part>(stored.clone()).expect("it can be read"), part);
    }

    #[test]
    fn a_picture_is_stored_beside_its_media_type() {
        let url = "https://example.org/a.png";
        check(
            ImageSource::DataBase64("iVBORw0KGgo=".to_owned()),
            &json!({"type": "image", "media_type": "image/png", "data_base64": "iVBORw0KGgo="}),
        );
        check(
            ImageSource::Url(url.to_owned()),
            &json!({"type": "image", "media_type": "image/png", "url": url}),
        );
    }
}
