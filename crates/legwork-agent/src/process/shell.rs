//! The shell that runs scripts, and its start.
//!
//! A script is a user's data, so it goes neither into arguments nor into the environment (invariant 22): the shell
//! starts with a constant text that goes to the command's folder and reads the script from stdin, up to a mark of its
//! end. A script that was not sent whole is not run, which makes the start a gate: until its group is stored, nothing is
//! sent.

use super::apart::{self, Start};
use super::environment::Environment;
use super::family::Family;
use super::gated::Gated;
use super::identity;
use super::leader::Leader;
use super::mark::{self, Mark};
use super::orphans;
use super::store;
use super::table;
use crate::spill;
use legwork_core::record::ProcessGroup;
use legwork_core::step::Actor;
use nix::unistd::{AccessFlags, access};
use std::borrow::Cow;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use thiserror::Error;
use tokio::net::unix::pipe::{Receiver, Sender};

/// The variable with the folder that the shell goes to; scripts do not see it.
const FOLDER: &str = "LEGWORK_FOLDER";

/// The folder that a shell takes itself to be in before it has gone to its own: right wherever that is, so that nobody
/// asks for the name of a folder that may be gone.
const FOLDER_BEFORE: &str = "/proc/self/cwd";

/// Reads up to a NUL; after it nothing can be read from stdin.
const BASH: &str = r#"cd -- "$LEGWORK_FOLDER" || exit 125; unset LEGWORK_FOLDER OLDPWD; export OLDPWD; IFS= read -r -d "" LEGWORK_SCRIPT || exit 125; exec </dev/null; eval "unset LEGWORK_SCRIPT; $LEGWORK_SCRIPT""#;

/// The same for a shell that cannot read up to a NUL: it reads everything and checks how it ends.
const POSIX: &str = r##"cd -- "$LEGWORK_FOLDER" || exit 125; unset LEGWORK_FOLDER OLDPWD; LEGWORK_END="#legwork: end of script"; LEGWORK_SCRIPT=$(cat); case $LEGWORK_SCRIPT in *"$LEGWORK_END") ;; *) exit 125;; esac; exec </dev/null; eval "unset LEGWORK_SCRIPT LEGWORK_END; ${LEGWORK_SCRIPT%"$LEGWORK_END"}""##;

/// What follows a script.
const POSIX_END: &[u8] = b"#legwork: end of script";

/// Starts shells in terminal sessions of their own, with an environment from an allow list.
#[derive(Debug)]
pub struct Shells {
    program: PathBuf,
    dialect: Dialect,
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

/// A shell that has started, and our ends of its pipes.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) leader: Leader,
    pub(super) stdin: Sender,
    pub(super) output: Receiver,
}

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
        Ok(Shells { program, dialect, environment, outer })
    }

    /// Starts a shell that waits for its script. Dropping it ends it, and nothing has run.
    ///
    /// # Errors
    /// [`SpawnError`] when the system refuses, for instance for want of processes or descriptors.
    pub fn spawn(&self, folder: &Path, actor: &Actor) -> Result<Gated, SpawnError> {
        let bits = spill::random().map_err(|source| self.refused(source))?;
        let mark = Mark::new(actor, store::mine(), self.outer.as_deref(), bits);
        let started = self.start(folder, &mark).map_err(|source| self.refused(source))?;
        let leader = started.leader.pid();
        let pgid = leader.as_raw().unsigned_abs();
        orphans::enter(pgid);
        let start_ticks = table::row(pgid).map_or(0, |row| row.stat.start_ticks);
        let group = ProcessGroup { pgid, start_ticks, boot_id: store::for_group(identity::boot_id()) };
        Ok(Gated::new(started, Family::new(group, leader, &mark), self.dialect))
    }

    /// One pipe takes stdout and stderr, so what is written arrives in the order it was written in.
    fn start(&self, folder: &Path, mark: &Mark) -> io::Result<Started> {
        let folder = place_to_go(folder)?;
        let ((stdin, to_stdin), (from_output, output)) = (io::pipe()?, io::pipe()?);
        let stdin_and_output = (
            Sender::from_owned_fd(OwnedFd::from(to_stdin))?,
            Receiver::from_owned_fd(OwnedFd::from(from_output))?,
        );
        let ours = [("PWD".as_ref(), FOLDER_BEFORE.as_ref()), (FOLDER.as_ref(), folder.as_os_str())];
        let ours = ours.into_iter().chain([(mark::VARIABLE.as_ref(), mark.value())]);
        let environment: io::Result<Vec<CString>> =
            self.environment.iter().chain(ours).map(|(name, value)| variable(name, value)).collect();
        let leader = apart::start(Start {
            program: &self.program,
            arguments: &self.arguments()?,
            environment: &environment?,
            stdin,
            output,
        })?;
        let (stdin, output) = stdin_and_output;
        // A shell that cannot be watched reads the end of its stdin and leaves.
        Ok(Started { leader: Leader::new(leader)?, stdin, output })
    }

    fn arguments(&self) -> io::Result<[CString; 4]> {
        let texts = ["-c", self.dialect.bootstrap(), self.dialect.name()].map(CString::new);
        let [flag, bootstrap, name] = texts;
        Ok([CString::new(self.program.as_os_str().as_encoded_bytes())?, flag?, bootstrap?, name?])
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

/// A variable as programs receive it.
fn variable(name: &OsStr, value: &OsStr) -> io::Result<CString> {
    Ok(CString::new([name.as_encoded_bytes(), b"=", value.as_encoded_bytes()].concat())?)
}

/// The folder as a shell goes there. A shell takes `..` away with the part before it, also where that is a link, and the
/// system does not.
///
/// # Errors
/// Why nobody can go there.
fn place_to_go(folder: &Path) -> io::Result<Cow<'_, Path>> {
    access(&folder.join("."), AccessFlags::X_OK)?;
    if folder.components().any(|part| part == Component::ParentDir) {
        return folder.canonicalize().map(Cow::Owned);
    }
    Ok(Cow::Borrowed(folder))
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
            let mark = Mark::new(&actor(), None, None, 1);
            let Started { mut leader, mut stdin, mut output } =
                shells.start(Path::new("/"), &mark).expect("a shell");
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
        for (program, dialect) in [("/bin/bash", Dialect::Bash), ("/bin/sh", Dialect::Posix)] {
            check(&shells(program, dialect), &script, 0, "own own 0\nno terminal\n").await;
        }
    }

    #[tokio::test]
    async fn a_command_is_in_its_folder_whatever_that_is_called() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        for name in ["-", "$(touch ran)", "two\nlines; touch ran", "tail/inner"] {
            std::fs::create_dir_all(root.join(name)).expect("it can be made");
        }
        std::os::unix::fs::symlink(root.join("tail/inner"), root.join("link")).expect("a link");
        let told = "printf '%s|' \"$PWD\" \"$(pwd -P)\"; env | grep -c -e LEGWORK_FOLDER -e OLDPWD; ls";
        let check = async |shells: &Shells, place: &str, named: &str, real: &str| {
            let (named, real) = (root.join(named), root.join(real));
            let text = format!("{}|{}|0\n", named.display(), real.display());
            check_in(shells, (&root.join(place), told), 0, &text).await;
        };
        for (program, dialect) in [("/bin/bash", Dialect::Bash), ("/bin/sh", Dialect::Posix)] {
            let shells = shells(program, dialect);
            for name in ["-", "$(touch ran)", "two\nlines; touch ran", "tail/inner"] {
                check(&shells, name, name, name).await;
            }
            check(&shells, "link", "link", "tail/inner").await;
            // The system goes through the link first, and so does the command.
            check(&shells, "link/../inner", "tail/inner", "tail/inner").await;
        }
        let goes_back = "cd / && cd - >/dev/null && pwd; env | grep -c OLDPWD";
        let text = format!("{}\n1\n", root.display());
        check_in(&shells("/bin/bash", Dialect::Bash), (&root, goes_back), 0, &text).await;
    }

    #[tokio::test]
    async fn k31_nothing_is_started_where_nobody_can_go() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("file"), "").expect("it can be made");
        let shells = shells("/bin/bash", Dialect::Bash);
        for (name, kind) in [
            ("missing", io::ErrorKind::NotFound),
            ("file", io::ErrorKind::NotADirectory),
            ("a\0b", io::ErrorKind::InvalidInput),
        ] {
            let refused = shells.spawn(&folder.path().join(name), &actor()).expect_err("nobody can go there");
            assert_eq!(refused.source.kind(), kind, "{name}");
        }
    }

    async fn check(shells: &Shells, script: &str, code: i32, text: &str) {
        check_in(shells, (Path::new("/"), script), code, text).await;
    }

    async fn check_in(shells: &Shells, (folder, script): (&Path, &str), code: i32, text: &str) {
        let limits = CaptureLimits { head_bytes: 1000, tail_bytes: 100, file_bytes_max: 100 };
        let mut capture = Capture::new(limits, SpillPlace::new(Path::new("/nowhere"), &actor(), "test"));
        let gated = shells.spawn(folder, &actor()).expect("a shell");
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
