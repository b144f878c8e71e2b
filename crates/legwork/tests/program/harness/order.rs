//! What the program is to be started with. By default: the scripted model, an empty stdin, the project folder, and both
//! outputs read to their ends.

use std::fs::File;
use std::io::{PipeReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Once;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{OpenptyResult, Winsize, openpty};
use rustix::termios;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::ended::Ended;
use super::hang_up::HangUp;
use super::home::{Home, KEY};
use super::running::Running;
use super::screen::Screen;
use super::waiting::until;

const PROGRAM: &str = env!("CARGO_BIN_EXE_legwork");

/// A start of the program that has not happened yet.
pub struct Order<'a> {
    home: &'a Home,
    command: Command,
    stdin: Vec<u8>,
}

impl<'a> Order<'a> {
    pub(super) fn new(home: &'a Home, arguments: &[&str]) -> Self {
        have_hang_ups_heard();
        let mut command = Command::new(PROGRAM);
        command.args(arguments);
        let mut order = Order { home, command, stdin: Vec::new() };
        order.prepare();
        order
    }

    fn prepare(&mut self) {
        let path = self.home.path();
        self.command.env_clear().current_dir(self.home.project());
        self.command.env("PATH", std::env::var_os("PATH").expect("there is a PATH"));
        self.command.env("HOME", path.join("home"));
        self.command.env("XDG_STATE_HOME", path.join("state"));
        // What happens to run on the machine of the test is not its business.
        self.command.env("LEGWORK_MODEL_LOCAL_SERVERS", ",");
        if let Some(base_url) = self.home.base_url() {
            self.command.env("LEGWORK_MODEL", "openai/test").env("LEGWORK_BASE_URL", base_url);
            self.command.env("LEGWORK_API_KEY", KEY);
        }
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Leaves a variable out.
    pub fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Sets a key of the section `delegation`.
    pub fn set(self, key: &str, value: u64) -> Self {
        let name = format!("LEGWORK_DELEGATION_{}", key.to_uppercase());
        self.env(&name, &value.to_string())
    }

    /// Gives the program this to read.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Starts the program in a shell that does something first, such as setting a limit.
    pub fn after(mut self, preparation: &str) -> Self {
        self.through("bash", &["-c", &format!("{preparation}; exec \"$0\" \"$@\"")]);
        self
    }

    /// Starts the program in a process group of its own, as a shell with job control does.
    pub fn in_a_group_of_its_own(mut self) -> Self {
        self.command.process_group(0);
        self
    }

    /// Starts the program in a session of its own, through this command if there is one.
    pub fn in_a_session_of_its_own(mut self, first: &[&str]) -> Self {
        self.through("setsid", first);
        self
    }

    /// Starts the program as a user whom the rights of files bind. They do not bind root, unless it gives up what frees it.
    pub fn bound_by_rights(mut self) -> Self {
        let is_root = std::fs::metadata("/proc/self").expect("/proc can be read").uid() == 0;
        if is_root {
            let freedom = "-dac_override,-dac_read_search";
            let given_up = [format!("--bounding-set={freedom}"), format!("--inh-caps={freedom}")];
            self.through("setpriv", &[&given_up[0], &given_up[1], "--"]);
        }
        self
    }

    /// Starts the program in a shell that does something first, with the state folder's parent on a small file system of its
    /// own that goes with it. `None` where the system gives nobody one.
    pub fn on_a_disk_of_its_own(mut self, size: &str, preparation: &str) -> Option<Self> {
        let allowed = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
        if !allowed.is_ok_and(|tried| tried.status.success()) {
            return None;
        }
        let script = format!(
            "mount -t tmpfs -o size={size} tmpfs \"$XDG_STATE_HOME\" && {preparation}; exec \"$0\" \"$@\""
        );
        self.through("unshare", &["-rm", "bash", "-c", &script]);
        Some(self)
    }

    /// Has another program become the program, with everything else as it was set.
    fn through(&mut self, other: &str, arguments: &[&str]) {
        let mut command = Command::new(other);
        command.args(arguments).arg(PROGRAM).args(self.command.get_args());
        let variables: Vec<_> =
            self.command.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
        self.command = command;
        self.prepare();
        for (name, value) in variables {
            match value {
                Some(value) => self.command.env(name, value),
                None => self.command.env_remove(name),
            };
        }
    }

    /// Starts it and waits for its end.
    #[track_caller]
    pub fn run(self) -> Ended {
        self.start().wait()
    }

    /// Starts it.
    #[track_caller]
    pub fn start(mut self) -> Running {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(self.command.spawn().expect("the program starts"), self.stdin)
    }

    /// Starts it with a stdout that the test reads, or does not read, itself.
    #[track_caller]
    pub fn start_with_stdout(mut self) -> (Running, PipeReader) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        self.command.stdin(Stdio::piped()).stdout(writer).stderr(Stdio::piped());
        (Running::new(self.command.spawn().expect("the program starts"), self.stdin), reader)
    }

    /// Starts it with a stderr that the test reads, or does not read, itself.
    #[track_caller]
    pub fn start_with_stderr(mut self) -> (Running, PipeReader) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(writer);
        (Running::new(self.command.spawn().expect("the program starts"), self.stdin), reader)
    }

    /// Starts it as a person does: in a session whose controlling terminal is its stdin and its stderr.
    #[track_caller]
    pub fn start_within_terminal(mut self) -> Running {
        let terminal = terminal(80, 24);
        self.through("setsid", &["--ctty"]);
        let stdin = terminal.slave.try_clone().expect("it can be opened twice");
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(terminal.slave);
        let child = self.command.spawn().expect("the program starts");
        drop(self.command);
        Running::on_terminal(child, self.stdin, File::from(terminal.master))
    }

    /// Starts it as a person does, in a session whose controlling terminal is its stdin, stdout and stderr. Who drops the other end
    /// hangs up.
    #[track_caller]
    pub fn start_with_terminal(mut self) -> (Running, HangUp) {
        let terminal = terminal(100, 30);
        // Were it passed on to the program, nobody could hang up.
        fcntl(&terminal.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("it can be set");
        self.through("setsid", &["--ctty"]);
        let end = || terminal.slave.try_clone().expect("it can be opened twice");
        self.command.stdin(end()).stdout(end()).stderr(end());
        let child = self.command.spawn().expect("the program starts");
        drop((self.command, terminal.slave));
        (Running::new(child, Vec::new()), HangUp::on(File::from(terminal.master)))
    }

    /// Starts it with a terminal of this size as its stdin, stdout and stderr. It is not its controlling one, so that the
    /// system does not put it back when the program ends.
    #[track_caller]
    pub fn at_terminal(self, columns: u16, rows: u16) -> Screen {
        Screen::start(self.command, terminal(columns, rows), (columns, rows))
    }

    /// Starts it at a terminal that nobody reads, and presses keys once it has taken that over. The other end is given back.
    #[track_caller]
    pub fn start_at_deaf_terminal(mut self, keys: &str) -> (Running, File) {
        let terminal = terminal(80, 24);
        let end = || terminal.slave.try_clone().expect("it can be opened twice");
        self.command.stdin(end()).stdout(end()).stderr(end());
        let child = self.command.spawn().expect("the program starts");
        drop(self.command);
        until("the terminal to be taken over", || {
            let mode = termios::tcgetattr(&terminal.slave).expect("it is a terminal");
            (!mode.local_modes.contains(termios::LocalModes::ICANON)).then_some(())
        });
        let mut master = File::from(terminal.master);
        master.write_all(keys.as_bytes()).expect("the terminal takes keys");
        (Running::new(child, Vec::new()), master)
    }

    /// Starts it with a terminal of this size as its stderr.
    #[track_caller]
    pub fn start_on_terminal(mut self, columns: u16, rows: u16) -> Running {
        let terminal = terminal(columns, rows);
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(terminal.slave);
        let child = self.command.spawn().expect("the program starts");
        // Our copy of the terminal's other end would keep it open after the program has ended.
        drop(self.command);
        Running::on_terminal(child, self.stdin, File::from(terminal.master))
    }
}

fn terminal(columns: u16, rows: u16) -> OpenptyResult {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    openpty(&size, None).expect("there is a terminal to be had")
}

/// A program that is started hears of a hang-up, also where the tests run under `nohup`: what this process listens to is not
/// ignored in those that it starts.
fn have_hang_ups_heard() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let _entered = runtime.enter();
        drop(signal(SignalKind::hangup()).expect("it can be listened to"));
    });
}
