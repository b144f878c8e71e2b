//! Scripts of legwork's own: git for worktrees, and the hooks of a user. They run as the commands of agents do, with a
//! stored group, without a terminal and with an environment from the allow list, and within a limit of time and output.
//!
//! It does not know what a script is for.

use super::commands::Commands;
use crate::patience::Patience;
use crate::process::{Capture, CaptureLimits, End, Order, time_limit};
use crate::spill::SpillPlace;
use legwork_core::step::{Actor, Fence};
use std::path::Path;
use std::time::Duration;

/// A script to run.
pub(crate) struct Errand<'a> {
    pub(crate) script: String,
    pub(crate) folder: &'a Path,
    /// For whom it is; who ends with it.
    pub(crate) actor: &'a Actor,
    pub(crate) fence: &'a Fence,
    pub(crate) limit: Duration,
    /// Bytes of its output that are kept, from its start and again from its end.
    pub(crate) output_bytes_max: usize,
}

/// How a script ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) end: End,
    /// What it wrote, stdout and stderr together; a long output without its middle.
    pub(crate) output: String,
}

impl Commands {
    /// Runs a script and ends what it leaves behind. It takes the limit and three seconds at most, and as long again where
    /// the store is in trouble; dropping the future ends the script.
    ///
    /// # Errors
    /// Why it was not run.
    pub(crate) async fn errand(&self, errand: Errand<'_>) -> Result<Ran, String> {
        let Errand { script, folder, actor, fence, limit, output_bytes_max } = errand;
        let gated = self.shells.spawn(folder, actor).map_err(|error| error.to_string())?;
        let patience = Patience::in_silence(limit);
        let noted = self.groups.note_for(fence, actor, gated.group(), &patience).await;
        let _noted = noted.map_err(|error| format!("its process could not be stored: {error}"))?;
        let limits =
            CaptureLimits { head_bytes: output_bytes_max, tail_bytes: output_bytes_max, file_bytes_max: 0 };
        let mut capture = Capture::new(limits, SpillPlace::new(folder, actor, "errand"));
        let order = Order { script: &script, until: time_limit(limit), capture: &mut capture, moved: &|| {} };
        let finished = gated.run(order).await;
        let captured = capture.finish().await;
        Ok(Ran { end: finished.end, output: captured.head + &captured.tail })
    }
}

/// A text as one word of a shell.
pub(crate) fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn inv_22_a_text_is_one_word_whatever_it_holds() {
        assert_eq!(word("a b"), "'a b'");
        assert_eq!(word("it's $(x)"), r"'it'\''s $(x)'");
    }
}
