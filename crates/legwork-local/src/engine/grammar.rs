//! The form that a reply must have.
//!
//! Owns turning a JSON Schema into the tokens that may come next. It does not choose among them.

use super::EngineError;
use super::vocabulary::{GrammarVocabulary, Vocabulary};
use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use serde_json::Value;
use std::sync::Arc;

/// Compiles forms for one vocabulary.
pub(super) struct Grammar {
    factory: ParserFactory,
}

/// One reply's form, and how much of it is filled in.
pub(super) struct Form {
    matcher: Matcher,
}

impl Grammar {
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> Result<Self, EngineError> {
        let environment: toktrie::TokEnv = Arc::new(GrammarVocabulary(vocabulary));
        let mut factory = ParserFactory::new_simple(&environment).map_err(refused)?;
        factory.quiet();
        Ok(Self { factory })
    }

    /// The form of a reply that satisfies `schema`, without any space that JSON does not need: a small model would
    /// spend its tokens on them.
    pub(super) fn form(&self, mut schema: Value) -> Result<Form, EngineError> {
        if let Value::Object(schema) = &mut schema {
            schema.insert("x-guidance".to_owned(), serde_json::json!({"whitespace_flexible": false}));
        }
        let parser = self.factory.create_parser(TopLevelGrammar::from_json_schema(schema));
        let matcher = Matcher::new(parser);
        match matcher.get_error() {
            Some(error) => Err(refused(error)),
            None => Ok(Form { matcher }),
        }
    }
}

impl Form {
    /// The tokens that the form leaves no choice about; they count as accepted.
    pub(super) fn take_forced(&mut self) -> Vec<u32> {
        self.matcher.consume_ff_tokens()
    }

    /// The likeliest token that the form allows; `None` when the reply is complete.
    pub(super) fn choose(&mut self, likelihoods: &[f32]) -> Result<Option<u32>, EngineError> {
        if self.matcher.is_stopped() {
            return Ok(None);
        }
        let allowed = self.matcher.compute_mask_or_eos().map_err(refused)?;
        let candidates = (0u32..).zip(likelihoods).filter(|(token, _)| allowed.is_allowed(*token));
        let Some((token, _)) = candidates.max_by(|left, right| left.1.total_cmp(right.1)) else {
            return Err(EngineError::Grammar("no token of the vocabulary fits".to_owned()));
        };
        self.matcher.consume_token(token).map_err(refused)?;
        Ok(Some(token))
    }

    /// Whether nothing may follow.
    pub(super) fn is_complete(&self) -> bool {
        self.matcher.is_stopped()
    }
}

fn refused(error: impl std::fmt::Display) -> EngineError {
    EngineError::Grammar(error.to_string())
}
