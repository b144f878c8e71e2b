//! A script as it is written down: read, checked and kept. Every mistake is told with its line and column; nothing is
//! said here.

use super::fill;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::fs;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;
use toml::Spanned;

/// The largest script, in bytes.
const SCRIPT_MAX_BYTES: u64 = 1024 * 1024;

/// Why a script cannot be used.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// It cannot be read.
    #[error("cannot read the script {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is larger than a script may be.
    #[error("the script {} has {bytes} bytes; a script may have {SCRIPT_MAX_BYTES}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// It says something that no script can say.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What is wrong and how it should be.
        message: String,
    },
}

/// A script that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    agents: Vec<Agent>,
    default: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
struct Agent {
    marker: String,
    steps: Vec<Step>,
}

/// One reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub think: Option<String>,
    pub say: Option<String>,
    pub calls: Vec<Call>,
    pub delay: Duration,
    pub usage: Option<Counts>,
}

/// A call of a tool; texts in its arguments may hold placeholders.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub tool: String,
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// The tokens that a step reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counts {
    #[serde(default)]
    pub input: u64,
    #[serde(default)]
    pub output: u64,
    #[serde(default)]
    pub cached: u64,
    #[serde(default)]
    pub reasoning: u64,
}

impl Script {
    /// Reads and checks a script.
    ///
    /// # Errors
    /// When the file cannot be read, is too large or holds a mistake.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let unreadable = |source| ScriptError::Unreadable { path: path.to_owned(), source };
        let mut text = String::new();
        // A device has no size of its own, so the limit holds for what is read.
        let read =
            fs::File::open(path).and_then(|file| file.take(SCRIPT_MAX_BYTES + 1).read_to_string(&mut text));
        let bytes = read.map_err(unreadable)? as u64;
        if bytes > SCRIPT_MAX_BYTES {
            return Err(ScriptError::TooLarge { path: path.to_owned(), bytes });
        }
        Script::parse(&text, path)
    }

    /// Checks the text of a script; `path` stands in its errors.
    ///
    /// # Errors
    /// When it holds a mistake.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ScriptError> {
        let wrong = |mistake: Mistake| mistake.located(text, path);
        let written: Written = toml::from_str(text).map_err(|error| wrong(Mistake::syntax(&error)))?;
        written.checked().map_err(wrong)
    }

    /// The steps of the conversation that begins with this user message. Of several markers the one that stands first
    /// in it wins, of those at one place the longest.
    pub(super) fn steps(&self, first_user_text: &str) -> &[Step] {
        let found = self.agents.iter().filter_map(|agent| {
            let place = first_user_text.find(&agent.marker)?;
            Some((place, std::cmp::Reverse(agent.marker.len()), agent))
        });
        let best = found.min_by_key(|(place, length, _)| (*place, *length));
        best.map_or(&self.default, |(_, _, agent)| &agent.steps)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    agent: Vec<Spanned<WrittenAgent>>,
    default: Option<WrittenDefault>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAgent {
    marker: Spanned<String>,
    #[serde(default)]
    step: Vec<Spanned<WrittenStep>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDefault {
    #[serde(default)]
    step: Vec<Spanned<WrittenStep>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStep {
    think: Option<Spanned<String>>,
    say: Option<Spanned<String>>,
    #[serde(default)]
    call: Vec<Spanned<Call>>,
    #[serde(default)]
    delay_ms: u64,
    usage: Option<Counts>,
}

impl Written {
    fn checked(self) -> Result<Script, Mistake> {
        if self.agent.is_empty() && self.default.is_none() {
            return Err(Mistake::at(
                0..0,
                "the script is empty: it needs an [[agent]] or a [default] with steps",
            ));
        }
        let default = self.default.map_or(Ok(Vec::new()), |default| steps(default.step))?;
        let agents = self.agent.into_iter().map(agent).collect::<Result<Vec<_>, _>>()?;
        Ok(Script { agents, default })
    }
}

fn agent(written: Spanned<WrittenAgent>) -> Result<Agent, Mistake> {
    let span = written.span();
    let WrittenAgent { marker, step } = written.into_inner();
    if marker.get_ref().trim().is_empty() {
        return Err(Mistake::at(marker.span(), "the marker is empty: it would match every conversation"));
    }
    if step.is_empty() {
        return Err(Mistake::at(span, "the agent has no steps: write at least one [[agent.step]]"));
    }
    Ok(Agent { marker: marker.into_inner(), steps: steps(step)? })
}

fn steps(written: Vec<Spanned<WrittenStep>>) -> Result<Vec<Step>, Mistake> {
    written.into_iter().map(step).collect()
}

fn step(written: Spanned<WrittenStep>) -> Result<Step, Mistake> {
    let span = written.span();
    let WrittenStep { think, say, call, delay_ms, usage } = written.into_inner();
    if say.is_none() && call.is_empty() {
        return Err(Mistake::at(span, "the step neither says nor calls anything: it needs `say` or `call`"));
    }
    for text in [&think, &say].into_iter().flatten() {
        fill::check(text.get_ref()).map_err(|message| Mistake::at(text.span(), message))?;
    }
    for call in &call {
        checked_call(call.get_ref()).map_err(|message| Mistake::at(call.span(), message))?;
    }
    Ok(Step {
        think: think.map(Spanned::into_inner),
        say: say.map(Spanned::into_inner),
        calls: call.into_iter().map(Spanned::into_inner).collect(),
        delay: Duration::from_millis(delay_ms),
        usage,
    })
}

fn checked_call(call: &Call) -> Result<(), String> {
    if call.tool.trim().is_empty() {
        return Err("the call names no tool".to_owned());
    }
    call.arguments.values().try_for_each(fill::check_value)
}

/// A mistake and where in the text it is.
struct Mistake {
    span: Range<usize>,
    message: String,
}

impl Mistake {
    fn at(span: Range<usize>, message: impl Into<String>) -> Self {
        Mistake { span, message: message.into() }
    }

    fn syntax(error: &toml::de::Error) -> Self {
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        Mistake { span: error.span().unwrap_or(0..0), message }
    }

    fn located(self, text: &str, path: &Path) -> ScriptError {
        let before = text.get(..self.span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        ScriptError::Wrong { path: path.to_owned(), line, column, message: self.message }
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
