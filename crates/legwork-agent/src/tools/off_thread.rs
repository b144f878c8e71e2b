//! Work that blocks, carried out on a thread for it. Dropping the future asks the work to stop.
//!
//! The program has a bounded number of such threads, and the store, the terminal and the end of commands need them as well:
//! tools never have all of them, however many agents search large folders at once (invariant 7).

use super::arguments;
use super::port::{Invocation, ToolOutput};
use crate::models::ToolSpec;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Semaphore;

/// Tools whose work blocks at once, in the whole process. Further ones wait for their turn.
pub const BLOCKING_TOOLS_MAX: usize = 8;

static PLACES: Semaphore = Semaphore::const_new(BLOCKING_TOOLS_MAX);

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

/// Runs `work` when there is a place for it, and waits for it. A panic inside goes on in the caller. The place is free when
/// the work has ended, also where nobody waits for it any more.
pub(super) async fn off_thread<W>(work: W) -> ToolOutput
where
    W: FnOnce(&Abandoned) -> ToolOutput + Send + 'static,
{
    let abandoned = Abandoned::default();
    let _waiting = Waiting(abandoned.clone());
    let place = PLACES.acquire().await.expect("BUG: the places were closed");
    let working = tokio::task::spawn_blocking(move || {
        let _place = place;
        work(&abandoned)
    });
    match working.await {
        Ok(output) => output,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => ToolOutput::error("the program is ending; the tool did not run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;
    use tokio::runtime::Builder;
    use tokio::task::JoinSet;

    #[test]
    fn inv_07_tools_that_take_their_time_leave_threads_to_the_store() {
        let runtime =
            Builder::new_multi_thread().max_blocking_threads(BLOCKING_TOOLS_MAX + 1).enable_time().build();
        let runtime = runtime.expect("a runtime");
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        runtime.block_on(async {
            let mut slow = JoinSet::new();
            for _ in 0..BLOCKING_TOOLS_MAX * 2 {
                let held = Arc::clone(&held);
                slow.spawn(off_thread(move |_| {
                    // Until the sender is dropped.
                    held.lock().expect("nobody panics").recv().ok();
                    ToolOutput::ok("done")
                }));
            }
            while PLACES.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            let store = tokio::task::spawn_blocking(|| "read");
            // Deadline: of a test that would hang.
            let read = tokio::time::timeout(Duration::from_secs(60), store).await;
            drop(release);
            assert_eq!(read.expect("there is a thread for it").expect("no panic"), "read");
            assert!(slow.join_all().await.iter().all(|output| *output == ToolOutput::ok("done")));
        });
    }
}
