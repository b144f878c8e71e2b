//! Scripts: what each agent's model does step by step, and how the script of an agent is found.
//!
//! Which step and which attempt a request gets is decided in `director`.

use std::sync::Arc;
use std::time::Duration;

use super::conversation::Conversation;
use super::protocol::Protocol;
use super::reply::{Step, say};
use super::strict::Alternation;

/// How long a test waits for the server before it fails, unless the scripts say otherwise.
const PATIENCE: Duration = Duration::from_secs(240);

type Author = dyn Fn(&Conversation) -> Step + Send + Sync;

/// The steps of one agent's model.
#[derive(Clone)]
pub struct Script {
    pub(super) plot: Plot,
}

#[derive(Clone)]
pub(super) enum Plot {
    Steps(Vec<Step>),
    Author(Arc<Author>),
}

impl Default for Script {
    fn default() -> Self {
        Self::new()
    }
}

impl Script {
    /// A script without steps. A request for a step that is not written is a violation, answered with 400.
    pub fn new() -> Self {
        Self { plot: Plot::Steps(Vec::new()) }
    }

    /// A script of the same step again and again.
    pub fn always(step: impl Into<Step>) -> Self {
        let step = step.into();
        Self::from_fn(move |_| step.clone())
    }

    /// A script that is a function of the conversation so far. A panic in it is a violation, answered with 400.
    pub fn from_fn<S: Into<Step>>(author: impl Fn(&Conversation) -> S + Send + Sync + 'static) -> Self {
        Self { plot: Plot::Author(Arc::new(move |conversation| author(conversation).into())) }
    }

    /// Adds the next step.
    ///
    /// # Panics
    /// If the script is a function.
    pub fn step(mut self, step: impl Into<Step>) -> Self {
        match &mut self.plot {
            Plot::Steps(steps) => steps.push(step.into()),
            Plot::Author(_) => panic!("BUG: a script that is a function has no list of steps"),
        }
        self
    }
}

/// All scripts of a server and the rules it keeps.
#[derive(Clone)]
pub struct Scripts {
    pub(super) agents: Vec<(String, Script)>,
    pub(super) otherwise: Script,
    pub(super) alternation: Alternation,
    pub(super) patience: Duration,
    pub(super) key: Option<String>,
    pub(super) protocols: Vec<Protocol>,
    pub(super) models: Vec<String>,
}

impl Default for Scripts {
    /// No agents; every conversation is answered with `ok`.
    fn default() -> Self {
        Self {
            agents: Vec::new(),
            otherwise: Script::always(say("ok")),
            alternation: Alternation::Free,
            patience: PATIENCE,
            key: None,
            protocols: Protocol::ALL.to_vec(),
            models: vec!["scripted".to_owned()],
        }
    }
}

impl Scripts {
    /// Gives a script to the agent whose first user message contains `marker`.
    ///
    /// Where several markers are found, the one that stands first in the message wins, and of those at the same place
    /// the longest: `task-12` is not taken for `task-1`.
    ///
    /// # Panics
    /// If the marker is empty or has a script already.
    pub fn agent(mut self, marker: impl Into<String>, script: Script) -> Self {
        let marker = marker.into();
        assert!(!marker.is_empty(), "BUG: an empty marker would match every conversation");
        assert!(
            self.agents.iter().all(|(known, _)| *known != marker),
            "BUG: marker `{marker}` is given twice"
        );
        self.agents.push((marker, script));
        self
    }

    /// Gives a script to all conversations without a marker.
    pub fn otherwise(mut self, script: Script) -> Self {
        self.otherwise = script;
        self
    }

    /// Says whether two successive messages of the user or of the assistant are legal.
    pub fn alternation(mut self, alternation: Alternation) -> Self {
        self.alternation = alternation;
        self
    }

    /// Sets how long `wait_reached` and its like wait before they fail the test.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Asks every request for this key, in the way of its wire format. Without it any key will do, and none where
    /// local servers of the format ask for none (OpenAI chat, Ollama).
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Names the models that the server lists when it is asked for them. Requests may name others.
    pub fn models(mut self, models: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.models = models.into_iter().map(Into::into).collect();
        self
    }

    /// Speaks these wire formats alone; the paths of the others are not found, their lists of models included.
    pub fn speaks(mut self, protocols: impl IntoIterator<Item = Protocol>) -> Self {
        self.protocols = protocols.into_iter().collect();
        self
    }

    /// The marker and the script of a conversation that begins with this user message.
    pub(super) fn find(&self, first_user_text: &str) -> (Option<&str>, &Script) {
        let found = self.agents.iter().filter_map(|(marker, script)| {
            first_user_text.find(marker.as_str()).map(|place| (place, marker.as_str(), script))
        });
        let best = found.min_by_key(|(place, marker, _)| (*place, std::cmp::Reverse(marker.len())));
        best.map_or((None, &self.otherwise), |(_, marker, script)| (Some(marker), script))
    }
}
