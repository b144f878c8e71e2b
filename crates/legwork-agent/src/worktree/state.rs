//! Where a repository stands, for whoever must judge what a child left behind whose end is not known (EVT-7). It
//! changes nothing.

use super::git::HARDENED;
use crate::process::End;
use crate::tools::{Commands, Errand, word};
use legwork_core::step::{Actor, Fence};
use std::path::Path;
use std::time::Duration;

/// How long git may take: the message waits for it.
const STATE_LIMIT: Duration = Duration::from_secs(5);
/// Bytes of git's output that are read.
const OUTPUT_BYTES_MAX: usize = 4 * 1024;

/// Branch, last commit and the first changes of the repository that `folder` is in, in git's words. `None` where there
/// is none, or git does not answer in time.
pub(crate) async fn state(commands: &Commands, actor: &Actor, fence: &Fence, folder: &str) -> Option<String> {
    let script = format!(
        "{HARDENED}
cd -- {} || exit 1
top=$(g rev-parse --show-toplevel 2>/dev/null) || exit 1
printf 'branch: %s\\n' \"$(g rev-parse --abbrev-ref HEAD 2>/dev/null)\"
printf 'commit: %s\\n' \"$(g log -1 --format='%h %s' 2>/dev/null)\"
changes=$(g status --porcelain 2>/dev/null) || exit 1
if [ -z \"$changes\" ]; then echo 'nothing is changed'; else printf '%s\\n' \"$changes\" | head -n 20; fi
",
        word(folder)
    );
    let (folder, limit, output_bytes_max) = (Path::new(folder), STATE_LIMIT, OUTPUT_BYTES_MAX);
    let ran = commands.errand(Errand { script, folder, actor, fence, limit, output_bytes_max }).await;
    match ran {
        Ok(ran) if ran.end == End::Exited(0) => Some(ran.output.trim_end().to_owned()),
        Ok(_) => None,
        Err(why) => {
            tracing::debug!(%why, "the state of a repository is not known");
            None
        }
    }
}
