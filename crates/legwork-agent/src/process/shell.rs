//! The shell that runs scripts, and its start.
//!
//! A script is a user's data, so it goes neither into arguments nor into the environment (invariant 22): the shell
//! starts with a constant text that reads the script from stdin, up to a mark of its end. A script that was not sent
//! whole is not run, which makes the start a gate: until its group is stored, nothing is sent.

use super::apart::Apart;
use super::environment::Environment;
use super::family::Family;
use super::gated::Gated;
use super::identity;
use super::mark::{self, Mark};
use super::orphans;
use super::table;
use crate::spill;
use legwork_core::record::ProcessGroup;
use legwork_core::step::Actor;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use thiserror::Error;
use tokio::process::{Child, ChildStdout};

/// Reads up to a NUL; after it nothing can be read from stdin.
const BASH: &str = r#"IFS= read -r -d "" LEGWORK_SCRIPT || exit 125; exec </dev/null; eval "unset LEGWORK_SCRIPT; $LEGWORK_SCRIPT""#;

/// The same for a shell that cannot read up to a NUL: it reads everything and checks how it ends.
const POSIX: &str = r##"LEGWORK_END="#legwork: end of script"; LEGWORK_SCRIPT=$(cat); case $LEGWORK_SCRIPT in *"$LEGWORK_END") ;; *) exit 125;; esac; exec </dev/null; eval "unset LEGWORK_SCRIPT LEGWORK_END; ${LEGWORK_SCRIPT%"$LEGWORK_END"}""##;

/// What follows a script.
const POSIX_END: &[u8] = b"#legwork: end of script";

/// Starts shells in terminal sessions of their own, with an environment from an allow list.
#[derive(Debug)]
pub struct Shells {
    program: PathBuf,
    dialect: Dialect,
    apart: Apart,
    environment: Environment,
    outer: Option<OsString>,
}

/// How a shell takes its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Bash: up to a NUL.
    Bash,
    /// Any other: up to the end of stdin.
    Posix,
}

/// There is no shell.
#[derive(Debug, Error)]
#[error("no shell was found; install bash, or put it on PATH")]
pub struct NoShell;

/// Why a shell could not be started.
#[derive(Debug, Error)]
#[error("cannot start {program}: {source}")]
pub struct SpawnError {
    /// The shell.
    pub program: String,
    /// What the system said.
    pub source: io::Error,
}

impl Shells {
    /// Looks for the shell, once, and chooses what its environment may hold from `variables`, which are usually
    /// those of this process.
    ///
    /// # Errors
    /// [`NoShell`].
    pub fn new(variables: impl Iterator<Item = (OsString, OsString)>) -> Result<Self, NoShell> {
        let variables: Vec<_> = variables.collect();
        let outer = variables.iter().find(|(name, _)| name == mark::VARIABLE).map(|(_, value)| value.clone());
        let environment = Environment::from_parent(variables.into_iter());
        let (program, dialect) = find(environment.get("PATH")).ok_or(NoShell)?;
        let apart = Apart::new(program_on(environment.get("PATH"), "setsid"));
        Ok(Shells { program, dialect, apart, environment, outer })
    }

    /// Starts a shell that waits for its script. Dropping it ends it, and nothing has run.
    ///
    /// # Errors
    /// [`SpawnError`] when the system refuses, for instance for want of processes or descriptors.
    pub fn spawn(&self, folder: &Path, actor: &Actor) -> Result<Gated, SpawnError> {
        let bits = spill::random().map_err(|source| self.refused(source))?;
        let mark = Mark::new(actor, self.outer.as_deref(), bits);
        let (leader, output) = self.start(folder, &mark).map_err(|source| self.refused(source))?;
        let pid = leader
            .id()
            .and_then(identity::pid_of)
            .ok_or_else(|| self.refused(io::ErrorKind::NotFound.into()))?;
        let pgid = pid.as_raw().unsigned_abs();
        orphans::enter(pgid);
        let start_ticks = table::row(pgid).map_or(0, |row| row.stat.start_ticks);
        let group = ProcessGroup { pgid, start_ticks, boot_id: identity::boot_id().to_owned() };
        Ok(Gated::new(leader, output, Family::new(group, pid, &mark), self.dialect))
    }

    /// One pipe takes stdout and stderr, so what is written arrives in the order it was written in.
    fn start(&self, folder: &Path, mark: &Mark) -> io::Result<(Child, ChildStdout)> {
        let (reader, writer) = io::pipe()?;
        let mut command = self.apart.command(&self.program);
        command.arg("-c").arg(self.dialect.bootstrap()).arg(self.dialect.name());
        command.env_clear().envs(self.environment.iter());
        command.env("PWD", folder).env(mark::VARIABLE, mark.value());
        command.current_dir(folder);
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let output = ChildStdout::from_std(std::process::ChildStdout::from(OwnedFd::from(reader)))?;
        Ok((command.spawn()?, output))
    }

    fn refused(&self, source: io::Error) -> SpawnError {
        SpawnError { program: self.program.display().to_string(), source }
    }
}

impl Dialect {
    fn bootstrap(self) -> &'static str {
        match self {
            Dialect::Bash => BASH,
            Dialect::Posix => POSIX,
        }
    }

    /// What the shell calls itself in its messages.
    fn name(self) -> &'static str {
        match self {
            Dialect::Bash => "bash",
            Dialect::Posix => "sh",
        }
    }

    /// The script as it is sent, with the mark of its end.
    pub(super) fn framed(self, script: &str) -> Vec<u8> {
        let end: &[u8] = match self {
            Dialect::Bash => b"\0",
            Dialect::Posix => POSIX_END,
        };
        [script.as_bytes(), end].concat()
    }
}

/// Whether a command line is that of a shell of ours, or of a part that it forked.
pub(super) fn is_bootstrap(command_line: &str) -> bool {
    command_line.contains("LEGWORK_SCRIPT")
}

/// Bash is what models write for; any other shell is better than none.
fn find(path: Option<&OsStr>) -> Option<(PathBuf, Dialect)> {
    let bash = program_on(path, "bash").map(|program| (program, Dialect::Bash));
    bash.or_else(|| program_on(path, "sh").map(|program| (program, Dialect::Posix)))
}

/// The first program of that name in the absolute folders of `path`, or where systems keep theirs.
fn program_on(path: Option<&OsStr>, name: &str) -> Option<PathBuf> {
    let folders = path.map(std::env::split_paths).into_iter().flatten().filter(|folder| folder.is_absolute());
    let mut folders = folders.chain(["/bin", "/usr/bin"].map(PathBuf::from));
    folders.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Capture, CaptureLimits, End, Order, time_limit};
    use crate::spill::SpillPlace;
    use legwork_core::ids::ChildId;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn shells(program: &str, dialect: Dialect) -> Shells {
        let found = Shells::new(std::env::vars_os()).expect("there is a shell");
        Shells { program: PathBuf::from(program), dialect, ..found }
    }

    fn actor() -> Actor {
        Actor::Child(ChildId::from_bits(3, 3))
    }

    #[tokio::test]
    async fn inv_22_a_script_that_was_cut_off_is_not_run() {
        let bash = (shells("/bin/bash", Dialect::Bash), "echo ran; true");
        let posix = (shells("/bin/sh", Dialect::Posix), "echo ran; #legwork: end of scrip");
        for (shells, cut) in [bash, posix] {
            let mark = Mark::new(&actor(), None, 1);
            let (mut leader, mut output) = shells.start(Path::new("/"), &mark).expect("a shell");
            let mut stdin = leader.stdin.take().expect("it is a pipe");
            stdin.write_all(cut.as_bytes()).await.expect("it is read");
            drop(stdin);
            let mut written = String::new();
            output.read_to_string(&mut written).await.expect("text");
            let status = leader.wait().await.expect("it ends");
            assert_eq!((status.code(), written.as_str()), (Some(125), ""), "{shells:?}");
        }
    }

    #[tokio::test]
    async fn any_shell_will_do_when_there_is_no_bash() {
        let shells = shells("/bin/sh", Dialect::Posix);
        check(&shells, "cat; echo \"$0 [$LEGWORK_SCRIPT]\"\necho 'a\nb'\n# end\n", 0, "sh []\na\nb\n").await;
        check(&shells, "printf x; exit 7", 7, "x").await;
        check(&shells, &format!("x={}; echo ${{#x}}", "y".repeat(300_000)), 0, "300000\n").await;
    }

    #[tokio::test]
    async fn inv_17_a_command_has_a_session_of_its_own_and_no_terminal() {
        let session = "cut -d' ' -f5-7 /proc/$$/stat | sed \"s/$$/own/g\"";
        let script = format!("{session}; (: </dev/tty) 2>/dev/null || echo no terminal");
        let shells = shells("/bin/bash", Dialect::Bash);
        assert!(matches!(shells.apart, Apart::Program(_)), "this machine has the program setsid");
        check(&shells, &script, 0, "own own 0\nno terminal\n").await;
        check(&Shells { apart: Apart::Fork, ..shells }, &script, 0, "own own 0\nno terminal\n").await;
    }

    async fn check(shells: &Shells, script: &str, code: i32, text: &str) {
        let limits = CaptureLimits { head_bytes: 100, tail_bytes: 100, file_bytes_max: 100 };
        let mut capture = Capture::new(limits, SpillPlace::new(Path::new("/nowhere"), &actor(), "test"));
        let gated = shells.spawn(Path::new("/"), &actor()).expect("a shell");
        let order = Order {
            script,
            until: time_limit(Duration::from_secs(20)),
            capture: &mut capture,
            moved: &|| {},
        };
        assert_eq!(gated.run(order).await.end, End::Exited(code));
        assert_eq!(capture.finish().await.head, text);
    }
}
