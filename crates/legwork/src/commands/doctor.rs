//! `legwork doctor`: what is configured, whether the model answers, whether the store is healthy, and what is stuck. Exit
//! code 1 when something is wrong.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use legwork_agent::models::{Model, ModelRequest, ReplyPart};
use legwork_agent::worker::ModelSource;
use legwork_core::message::{Author, Message};
use serde::Serialize;
use serde_json::json;

use crate::args::DoctorArgs;
use crate::failure::{CliError, Exit};
use crate::invocation::Invocation;
use crate::model_source::Models;
use crate::settings::Settings;
use crate::stdout;

mod mending;
mod store;

/// How long a model may take for its first sign of life.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: Health,
    detail: String,
    fix: Option<String>,
    /// The state of a store that cannot be used as usual.
    fault: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Ok,
    Warning,
    Wrong,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Check {
        Check { name, state: Health::Ok, detail: detail.into(), fix: None, fault: None }
    }

    fn warning(name: &'static str, detail: impl Into<String>, fix: &str) -> Check {
        Check { name, state: Health::Warning, detail: detail.into(), fix: Some(fix.to_owned()), fault: None }
    }

    fn wrong(name: &'static str, detail: impl Into<String>, fix: Option<String>) -> Check {
        Check { name, state: Health::Wrong, detail: detail.into(), fix, fault: None }
    }

    fn failed(name: &'static str, error: &CliError) -> Check {
        let json = error.to_json();
        Check::wrong(name, error.to_string(), json["error"]["hint"].as_str().map(str::to_owned))
    }
}

/// Looks everything over and says what it found.
///
/// # Errors
/// When the answer cannot be written. What is wrong with the rest is the answer.
pub async fn run(invocation: &Invocation, args: &DoctorArgs) -> Result<Exit, CliError> {
    let mut checks = Vec::new();
    match invocation.settings() {
        Ok(settings) => {
            checks.push(Check::ok("configuration", "every file and variable is right"));
            checks.extend(model(invocation, &settings, args).await);
        }
        Err(error) => checks.push(Check::failed("configuration", &error)),
    }
    checks.extend(store::checks(invocation).await);
    let healthy = checks.iter().all(|check| check.state != Health::Wrong);
    if invocation.common.json {
        stdout::print_json(&json!({"ok": healthy, "checks": checks}))?;
    } else {
        stdout::print(&checks.iter().map(text).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(if healthy { Exit::Success } else { Exit::Incomplete })
}

fn text(check: &Check) -> String {
    let icon = match check.state {
        Health::Ok => "✓",
        Health::Warning => "⚠",
        Health::Wrong => "✗",
    };
    let fix = check
        .fix
        .as_deref()
        .map(|fix| format!("\n    fix: {}", fix.replace('\n', "\n         ")))
        .unwrap_or_default();
    format!("{icon} {}: {}{fix}", check.name, check.detail)
}

async fn model(invocation: &Invocation, settings: &Settings, args: &DoctorArgs) -> Vec<Check> {
    let models = match Models::resolve(invocation, settings).await {
        Ok(models) => models,
        Err(error) => return vec![Check::failed("model", &error)],
    };
    let route = &models.main;
    let place = route.base_url.as_deref().map(|url| format!(" at {url}")).unwrap_or_default();
    let key = match &route.key_source {
        Some(source) => format!(", key from {source}"),
        None => ", no key".to_owned(),
    };
    let mut checks = vec![Check::ok("model", format!("{}{place}{key}", route.model))];
    if args.offline {
        return checks;
    }
    match models.model(route) {
        Ok(model) => checks.push(answers(model).await),
        Err(error) => checks.push(Check::wrong("answer", error, None)),
    }
    checks
}

/// Asks the model for one word. This is a real request, so it costs what a short request costs.
async fn answers(model: Arc<dyn Model>) -> Check {
    let question = "This is a check whether you can be reached. Answer with the word ok.";
    let messages = vec![Arc::new(Message::text(Author::User, question))];
    let mut parts = model.respond(ModelRequest { messages, tools: Arc::new([]) });
    let heard = async {
        while let Some(part) = parts.next().await {
            match part {
                Ok(ReplyPart::Done(_)) => return Ok(()),
                Ok(ReplyPart::Text(_) | ReplyPart::Thinking(_) | ReplyPart::Moved) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("the reply ended early".to_owned())
    };
    // Deadline: a model that says nothing must not keep the doctor.
    match tokio::time::timeout(ANSWER_MAX, heard).await {
        Ok(Ok(())) => Check::ok("answer", "the model answers"),
        Ok(Err(error)) => {
            let fix =
                "check --model, the address and the key; `legwork config show` tells where each comes from";
            Check::wrong("answer", error, Some(fix.to_owned()))
        }
        Err(_) => {
            let detail = format!("the model said nothing for {} seconds", ANSWER_MAX.as_secs());
            Check::wrong("answer", detail, Some("check that its server runs".to_owned()))
        }
    }
}
