//! What work that lost its process waits for: the key that a subagent needs and that is not to be had here. Only the name of a
//! key's source is stored, so this is all that a verb that looks can say.

use std::cell::OnceCell;

use legwork_core::batch::Route;
use legwork_core::record::DelegationRecord;

use crate::args::CommonArgs;
use crate::invocation::Invocation;
use crate::model_source;
use crate::outliving;
use crate::owner::is_dead;
use crate::settings::Settings;

/// The keys that can be had in this process.
pub struct Keys<'a> {
    invocation: &'a Invocation,
    /// Read when a key in it is looked for; nothing when it cannot be read.
    settings: OnceCell<Option<Settings>>,
    /// What the conversation and its subagents ask here; nothing when that cannot be told without asking anybody.
    routes: OnceCell<Option<[Route; 2]>>,
}

impl<'a> Keys<'a> {
    /// Those of the environment and the configuration.
    pub fn of(invocation: &'a Invocation) -> Self {
        Keys { invocation, settings: OnceCell::new(), routes: OnceCell::new() }
    }

    /// The source of the key that the subagent of that task waits for, if its process has gone and the key is not here.
    pub fn missing(&self, record: &DelegationRecord, task_index: usize) -> Option<String> {
        if record.children[task_index].outcome().is_some() || !is_dead(&record.owner) {
            return None;
        }
        if outliving::has_worker(self.invocation, record) {
            // That one has an environment of its own, and says in its log what it lacks.
            return None;
        }
        let source = record.accepted.setting_of(task_index).route.key_source?;
        let is_missing = if is_variable(&source) { self.is_unset(&source) } else { self.is_empty(&source) };
        is_missing.then_some(source)
    }

    /// The model that the subagent of that task asks, if its process has gone and this one was started with another.
    pub fn other_model(&self, record: &DelegationRecord, task_index: usize) -> Option<String> {
        if record.children[task_index].outcome().is_some() || !is_dead(&record.owner) {
            return None;
        }
        let route = record.accepted.setting_of(task_index).route;
        if route.table.is_some() {
            return None;
        }
        let here = self.routes.get_or_init(|| self.asked_here()).as_ref()?;
        here.iter().all(|known| known.model != route.model).then_some(route.model)
    }

    fn asked_here(&self) -> Option<[Route; 2]> {
        let settings = self.settings.get_or_init(|| self.read()).as_ref()?;
        let asked = model_source::configured(self.invocation, settings);
        asked.inspect_err(|error| tracing::debug!(%error, "which model is asked here cannot be told")).ok()
    }

    fn is_unset(&self, variable: &str) -> bool {
        self.invocation.environment.text(variable).is_ok_and(|value| value.is_none_or(str::is_empty))
    }

    /// Whether the configuration has nothing at a key such as `delegation.routes.fast.api_key`. Of one that is not known
    /// here, or of a file that cannot be read, nothing is said.
    fn is_empty(&self, key: &str) -> bool {
        let Some(settings) = self.settings.get_or_init(|| self.read()) else { return false };
        let delegation = &settings.delegation;
        if key == "delegation.api_key" {
            return delegation.block.api_key.is_empty();
        }
        let route = key.strip_prefix("delegation.routes.").and_then(|rest| rest.strip_suffix(".api_key"));
        route.is_some_and(|name| {
            delegation.routes.get(name).is_none_or(|route| route.block.api_key.is_empty())
        })
    }

    fn read(&self) -> Option<Settings> {
        let common = CommonArgs { quiet: true, ..self.invocation.common.clone() };
        let read = Invocation { common, ..self.invocation.clone() }.settings();
        read.inspect_err(|error| tracing::debug!(%error, "which keys there are cannot be told")).ok()
    }
}

fn is_variable(source: &str) -> bool {
    !source.contains('.')
}
