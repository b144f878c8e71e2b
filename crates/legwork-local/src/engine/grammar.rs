//! The form that a reply must have.
//!
//! Owns which token comes next: the likeliest of those that the form allows. What the form is for is not its
//! business.

use super::EngineError;
use super::vocabulary::{GrammarVocabulary, Vocabulary};
use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Tokens of a text within which repetition is made less likely.
const RECENT: usize = 64;
/// How much less likely, as a division of the score; a small model says the same sentence over and over otherwise.
const REPETITION_PENALTY: f32 = 1.1;

/// What a reply must look like.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Free text that is not empty.
    Text,
    /// JSON that satisfies this schema.
    Json(Value),
}

/// Compiles shapes for one vocabulary.
pub(super) struct Grammar {
    vocabulary: Arc<Vocabulary>,
    factory: ParserFactory,
}

/// One reply's shape, and how much of it is filled in.
pub(super) enum Form {
    Text(TextForm),
    Json(Box<Matcher>),
}

/// A free text in the making.
pub(super) struct TextForm {
    vocabulary: Arc<Vocabulary>,
    recent: VecDeque<u32>,
}

impl Grammar {
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> Result<Self, EngineError> {
        let environment: toktrie::TokEnv = Arc::new(GrammarVocabulary(Arc::clone(&vocabulary)));
        let mut factory = ParserFactory::new_simple(&environment).map_err(refused)?;
        factory.quiet();
        Ok(Self { vocabulary, factory })
    }

    pub(super) fn form(&self, shape: Shape) -> Result<Form, EngineError> {
        let mut schema = match shape {
            Shape::Text => {
                let vocabulary = Arc::clone(&self.vocabulary);
                return Ok(Form::Text(TextForm { vocabulary, recent: VecDeque::new() }));
            }
            Shape::Json(schema) => schema,
        };
        // Without this the model spends its tokens on spaces that JSON does not need.
        if let Value::Object(schema) = &mut schema {
            schema.insert("x-guidance".to_owned(), json!({"whitespace_flexible": false}));
        }
        let matcher = Matcher::new(self.factory.create_parser(TopLevelGrammar::from_json_schema(schema)));
        match matcher.get_error() {
            Some(error) => Err(refused(error)),
            None => Ok(Form::Json(Box::new(matcher))),
        }
    }
}

impl Form {
    /// The tokens that the form leaves no choice about; they count as accepted.
    pub(super) fn take_forced(&mut self) -> Vec<u32> {
        match self {
            Self::Text(_) => Vec::new(),
            Self::Json(matcher) => matcher.consume_ff_tokens(),
        }
    }

    /// The likeliest token that the form allows; it counts as accepted. `None` when nothing may follow or the model
    /// has said all.
    pub(super) fn choose(&mut self, scores: &mut [f32]) -> Result<Option<u32>, EngineError> {
        match self {
            Self::Text(text) => Ok(text.choose(scores)),
            Self::Json(matcher) => choose_json(matcher, scores),
        }
    }

    /// Whether nothing may follow.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Json(matcher) => matcher.is_stopped(),
        }
    }

    /// Whether the reply may end between two sentences.
    pub(super) fn is_text(&self) -> bool {
        match self {
            Self::Text(_) => true,
            Self::Json(_) => false,
        }
    }
}

fn choose_json(matcher: &mut Matcher, scores: &[f32]) -> Result<Option<u32>, EngineError> {
    if matcher.is_stopped() {
        return Ok(None);
    }
    let allowed = matcher.compute_mask_or_eos().map_err(refused)?;
    let Some(token) = likeliest(scores, |token| allowed.is_allowed(token)) else {
        return Err(EngineError::Grammar("no token of the vocabulary fits".to_owned()));
    };
    matcher.consume_token(token).map_err(refused)?;
    Ok(Some(token))
}

impl TextForm {
    fn choose(&mut self, scores: &mut [f32]) -> Option<u32> {
        let distinct: HashSet<u32> = self.recent.iter().copied().collect();
        for token in distinct {
            let score = &mut scores[token as usize];
            *score = if *score > 0.0 { *score / REPETITION_PENALTY } else { *score * REPETITION_PENALTY };
        }
        let end = self.vocabulary.turn_end();
        let may_end = !self.recent.is_empty();
        let allowed =
            |token: u32| if token == end { may_end } else { !self.vocabulary.decode(token).is_empty() };
        let token = likeliest(scores, allowed).filter(|token| *token != end)?;
        self.recent.push_back(token);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        Some(token)
    }
}

fn likeliest(scores: &[f32], allowed: impl Fn(u32) -> bool) -> Option<u32> {
    let candidates = (0u32..).zip(scores).filter(|(token, _)| allowed(*token));
    candidates.max_by(|left, right| left.1.total_cmp(right.1)).map(|(token, _)| token)
}

fn refused(error: impl std::fmt::Display) -> EngineError {
    EngineError::Grammar(error.to_string())
}
