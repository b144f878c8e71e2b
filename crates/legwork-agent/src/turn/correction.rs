//! An answer that must meet a schema: it is held against it, and where it does not fit the agent is asked once to correct it,
//! in the same conversation and as a step of the journal (SCHEMA-4). Whatever comes of that, work is never thrown away: the
//! first answer stands where there is no other (SCHEMA-5).

use super::tally::is_blank;
use super::{Turn, Way};
use crate::contract::Checked;
use crate::journal::Said;
use legwork_core::message::{Author, Message};
use legwork_core::pulse::LineEvent;
use legwork_core::report::Conformance;
use legwork_core::step::{Action, Finish, Reply};

/// Stands before what does not fit.
const HEAD: &str = "[legwork: your answer does not meet the JSON Schema that was set for it.]";

/// Stands behind it.
const REQUEST: &str = "Answer once more with the whole JSON value, corrected, and with nothing else.";

/// Why an answer that does not fit was not corrected.
const NOT_ASKED: &str =
    "it was not asked to correct its answer, because its run was at a limit or was being stopped";

/// Why nothing came of it.
const NOTHING_SAID: &str = "it was asked once to correct its answer, and answered nothing";

/// An answer that was to be corrected, or after which something was said to the agent.
#[derive(Debug, Clone)]
pub(super) struct Earlier {
    pub(super) text: String,
    pub(super) finish: Finish,
}

impl Earlier {
    pub(super) fn of(reply: &Reply) -> Self {
        Earlier { text: reply.message.plain_text(), finish: reply.finish }
    }
}

impl Turn<'_> {
    /// What is said, once, to an agent whose answer does not fit. It stands in the context at once. Where it is not known
    /// whether it fits there is nothing to correct.
    pub(super) async fn correction(&mut self, reply: &Reply) -> Option<Said> {
        let text = reply.message.plain_text();
        if self.corrected.is_some() || is_blank(&text) {
            return None;
        }
        let errors = self.checked(text).await?.ok().filter(|errors| !errors.is_empty())?;
        let listed: String = errors.iter().map(|error| format!("- {error}\n")).collect();
        let message = Message::text(Author::User, format!("{HEAD}\n\n{listed}\n{REQUEST}"));
        self.untold
            .push(LineEvent::Note(format!("the answer does not meet its schema: {}", errors.join("; "))));
        self.context.push(message.clone());
        self.corrected = Some(Earlier::of(reply));
        Some(Said { action: Action::Correct { errors }, message })
    }

    /// The end of a run whose correction may have come to nothing: then the answer before it is the answer, and the second
    /// value says why. A stop, and a store that takes no more, stay what they are.
    pub(super) fn after_correction(&mut self, end: Result<(), Way>) -> (Result<(), Way>, Option<String>) {
        let Some(corrected) = &self.corrected else { return (end, None) };
        let why = match &end {
            Ok(()) if self.tally.is_blank => NOTHING_SAID.to_owned(),
            Ok(()) | Err(Way::Stopped(_) | Way::Store(_)) => return (end, None),
            Err(
                way @ (Way::Exhausted(_)
                | Way::Model(_)
                | Way::SameFailure(_)
                | Way::NoProgress(_)
                | Way::NoRoom(_)),
            ) => {
                let error = way.error(self.agent).unwrap_or_default();
                format!("it was asked once to correct its answer, which failed: {error}")
            }
        };
        self.agent.site.line.tell(LineEvent::Note(why.clone()));
        self.tally.take_back(corrected);
        (Ok(()), Some(why))
    }

    /// How the last text stands to the schema, if there are both.
    pub(super) async fn conformance(&mut self, remark: Option<String>) -> Option<Conformance> {
        let text = self.tally.last_text()?;
        let retries = u32::from(self.corrected.is_some());
        let errors = match self.checked(text).await? {
            Ok(errors) => errors,
            Err(unknown) => return Some(Conformance { errors: vec![unknown], retries, remark }),
        };
        let not_asked = || (retries == 0).then(|| NOT_ASKED.to_owned());
        let remark = remark.or_else(not_asked).filter(|_| !errors.is_empty());
        Some(Conformance { errors, retries, remark })
    }

    /// Holds a text against the schema, if there is one; the same text only once.
    async fn checked(&mut self, text: String) -> Option<Checked> {
        let contract = self.agent.contract.as_ref()?;
        if let Some((known, checked)) = &self.checked
            && *known == text
        {
            return Some(checked.clone());
        }
        let checked = contract.checked(&text, self.agent.limits.schema_check_max).await;
        self.checked = Some((text, checked.clone()));
        Some(checked)
    }
}
