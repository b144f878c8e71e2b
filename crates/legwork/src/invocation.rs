//! One start of the program: its options, environment and places.
//!
//! Every verb gets one. It reads configuration on demand, so that verbs that need none work with a broken one.

use crate::args::CommonArgs;
use crate::failure::CliError;
use crate::paths::{Named, Paths};
use crate::settings::model::{Embedded, ModelChoice};
use crate::settings::{Environment, Settings, Sources, load};
use crate::stderr::Voice;

/// One start of the program.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// Options of every verb.
    pub common: CommonArgs,
    /// The environment as it was at the start.
    pub environment: Environment,
    /// Where everything is.
    pub paths: Paths,
}

impl Invocation {
    /// Takes environment and places in.
    ///
    /// # Errors
    /// When `--cwd` is not a folder.
    pub fn new(common: CommonArgs) -> Result<Invocation, CliError> {
        let environment = Environment::of_process();
        let named = Named {
            cwd: common.cwd.as_deref(),
            state_dir: common.state_dir.as_deref(),
            config: common.config.as_deref(),
        };
        let paths = Paths::find(&named, &environment)?;
        Ok(Invocation { common, environment, paths })
    }

    /// Whether notes and warnings are told.
    pub fn voice(&self) -> Voice {
        match self.common.quiet {
            true => Voice::Quiet,
            false => Voice::Aloud,
        }
    }

    /// Reads and merges the configuration, and says its warnings on stderr unless `-q` was given. To be called once.
    ///
    /// # Errors
    /// When anything in it is wrong; every wrong thing is named with its place.
    pub fn settings(&self) -> Result<Settings, CliError> {
        let settings = load(&Sources {
            user: self.paths.user_config(),
            project: &self.paths.project_config(),
            environment: &self.environment,
            options: &self.common.settings(),
        })?;
        for warning in &settings.warnings {
            self.voice().tell(&format!("warning: {warning}"));
        }
        Ok(settings)
    }

    /// The model of the conversation.
    ///
    /// # Errors
    /// As [`ModelChoice::resolve`].
    pub fn model(&self, settings: &Settings, embedded: Embedded) -> Result<ModelChoice, CliError> {
        let user_file = self.paths.user_config().path().map(|path| path.display().to_string());
        let user_file = user_file.as_deref().unwrap_or("$XDG_CONFIG_HOME/legwork/config.toml");
        Ok(ModelChoice::resolve(settings, &self.environment, embedded, user_file)?)
    }
}
