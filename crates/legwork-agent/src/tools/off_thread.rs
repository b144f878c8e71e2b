//! Work that blocks, carried out on a thread for it. Dropping the future asks the work to stop.

use super::arguments;
use super::port::{Invocation, ToolOutput};
use crate::models::ToolSpec;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells blocking work that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
pub(super) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// Whether the work should end as soon as it can.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sets the flag when the waiting future goes away, whether it was answered or dropped.
struct Waiting(Abandoned);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Carries a call out whose work blocks. The work gets the caller's folder and the arguments; its `Err` is a sentence for
/// the model.
pub(super) async fn call<A>(
    spec: ToolSpec,
    invocation: Invocation,
    work: fn(&Path, &A, &Abandoned) -> Result<String, String>,
) -> ToolOutput
where
    A: DeserializeOwned + Send + 'static,
{
    let arguments: A = match arguments::read(&spec, invocation.arguments) {
        Ok(arguments) => arguments,
        Err(problem) => return ToolOutput::error(problem),
    };
    let folder = PathBuf::from(&invocation.site.setting.folder);
    off_thread(move |abandoned| {
        work(&folder, &arguments, abandoned).map_or_else(ToolOutput::error, ToolOutput::ok)
    })
    .await
}

/// Runs `work` and waits for it. A panic inside goes on in the caller.
pub(super) async fn off_thread<W>(work: W) -> ToolOutput
where
    W: FnOnce(&Abandoned) -> ToolOutput + Send + 'static,
{
    let abandoned = Abandoned::default();
    let _waiting = Waiting(abandoned.clone());
    match tokio::task::spawn_blocking(move || work(&abandoned)).await {
        Ok(output) => output,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => ToolOutput::error("the program is ending; the tool did not run"),
    }
}
