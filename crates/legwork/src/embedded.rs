//! The embedded model, where it was built in (feature `local-model`), and a clear refusal where it was not.

use std::sync::Arc;

use legwork_agent::models::Model;

use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::settings::model::Embedded;

/// The name of the embedded model behind `local/`.
#[cfg(feature = "local-model")]
pub const NAME: &str = "smollm2-135m";

/// Whether it can be used when nothing else is configured.
#[cfg(feature = "local-model")]
pub const AVAILABLE: Embedded = Embedded::BuiltIn(NAME);
/// Whether it can be used when nothing else is configured.
#[cfg(not(feature = "local-model"))]
pub const AVAILABLE: Embedded = Embedded::Absent;

/// Says that the embedded model is not part of this program.
///
/// # Errors
/// Always.
#[cfg(not(feature = "local-model"))]
pub fn open(_invocation: &Invocation, name: &str) -> Result<Arc<dyn Model>, CliError> {
    let message =
        format!("this legwork was built without the embedded model, so local/{name} cannot be used");
    Err(CliError::new(Kind::NoModel, message)
        .with_hint("build it with `cargo install --path crates/legwork --features local-model`"))
}

/// Opens the embedded model; the first time its weights are fetched and converted, which is shown on stderr.
///
/// # Errors
/// When there is no such model, or its weights can neither be found nor fetched.
#[cfg(feature = "local-model")]
pub fn open(invocation: &Invocation, name: &str) -> Result<Arc<dyn Model>, CliError> {
    if name != NAME {
        let message = format!("there is no embedded model {name}; there is one: local/{NAME}");
        return Err(CliError::new(Kind::Usage, message));
    }
    let options = legwork_local::LocalOptions {
        file: invocation.environment.path(crate::settings::variables::LOCAL_MODEL),
        cache_dir: invocation.paths.models()?,
    };
    let mut shown = shown::Shown::new(invocation.voice());
    let opened = legwork_local::open(&options, &mut |progress| shown.show(progress));
    match opened {
        Ok(model) => {
            invocation.voice().tell(&format!(
                "note: local/{NAME} is a toy that shows the machine running; do not rely on what it says"
            ));
            Ok(Arc::new(model))
        }
        Err(error) => Err(CliError::new(Kind::NoModel, error.to_string())),
    }
}

#[cfg(feature = "local-model")]
mod shown {
    //! How the preparation of the weights is shown: a bar on a terminal, a line for each stage elsewhere.

    use std::io::{IsTerminal, stderr};
    use std::ops::ControlFlow;

    use indicatif::{ProgressBar, ProgressStyle};
    use legwork_local::weights::Progress;

    use crate::stderr::Voice;

    /// Shows one preparation.
    pub struct Shown {
        bar: Option<ProgressBar>,
        voice: Voice,
        stage: &'static str,
    }

    impl Shown {
        /// Nothing is shown with a quiet voice.
        pub fn new(voice: Voice) -> Self {
            let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes}");
            let style = style.expect("BUG: the template is constant and right");
            let bar =
                (voice.is_aloud() && stderr().is_terminal()).then(|| ProgressBar::new(0).with_style(style));
            Shown { bar, voice, stage: "" }
        }

        /// Takes one sign of progress in.
        pub fn show(&mut self, progress: Progress) -> ControlFlow<()> {
            let (stage, done, total) = match progress {
                Progress::Waiting => ("waiting for another legwork that prepares the model", 0, 0),
                Progress::Downloading { done, total } => ("fetching the embedded model", done, total),
                Progress::Unpacking { done, total } => ("unpacking it", done, total),
                Progress::Converting { done, total } => ("converting it, once", done, total),
                Progress::Verifying { .. } | Progress::Loading => return self.end(),
            };
            if let Some(bar) = &self.bar {
                bar.set_length(total);
                bar.set_position(done);
                bar.set_message(stage);
            } else if stage != self.stage {
                self.voice.tell(&format!("{stage} …"));
            }
            self.stage = stage;
            ControlFlow::Continue(())
        }

        fn end(&self) -> ControlFlow<()> {
            if let Some(bar) = &self.bar {
                bar.finish_and_clear();
            }
            ControlFlow::Continue(())
        }
    }
}
