//! A caller with a folder of its own, and a toolbox over a store that keeps groups only.

use super::ledger::Ledger;
use crate::process::{Shells, adopt_orphans, kill_marked};
use crate::tools::{Commands, FetchAddresses, Invocation, Site, ToolOutput, Toolbox, built_in};
use legwork_core::batch::{Isolation, Lineage, Rights, Route, Setting};
use legwork_core::budget::Allowance;
use legwork_core::ids::{ChildId, Epoch, OwnerId, SessionId};
use legwork_core::ports::{Line, Pending, Steer, StopNotice};
use legwork_core::pulse::LineEvent;
use legwork_core::step::{Actor, Fence};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// Counts what a caller tells.
#[derive(Default)]
pub(super) struct CountingLine(pub(super) AtomicUsize);

impl Line for CountingLine {
    fn tell(&self, event: LineEvent) {
        match event {
            LineEvent::ToolMoved => {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            LineEvent::Note(note) => assert!(note.contains("kept and offered again"), "{note}"),
            other => panic!("a tool tells nothing else: {other:?}"),
        }
    }
    fn stopped(&self) -> Pending<'_, StopNotice> {
        Box::pin(std::future::pending())
    }
    fn steered(&self) -> Vec<Steer> {
        Vec::new()
    }
    fn park(&self) -> Pending<'_, ()> {
        Box::pin(std::future::ready(()))
    }
    fn unpark(&self) -> Pending<'_, Result<(), StopNotice>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// One caller.
pub(super) struct Rig {
    folder: TempDir,
    pub(super) child: ChildId,
    pub(super) ledger: Arc<Ledger>,
    pub(super) commands: Commands,
    pub(super) line: Arc<CountingLine>,
    pub(super) toolbox: Toolbox,
    pub(super) rights: Rights,
}

impl Rig {
    pub(super) fn new() -> Self {
        Rig::with(Ledger::default())
    }

    pub(super) fn with(ledger: Ledger) -> Self {
        Rig::in_environment(ledger, &[])
    }

    /// A rig whose parent process would have these variables too.
    pub(super) fn in_environment(ledger: Ledger, more: &[(&str, &str)]) -> Self {
        Rig::built(ledger, more, FetchAddresses::Public)
    }

    /// A rig whose `web_fetch` goes to this machine too.
    pub(super) fn fetching_here() -> Self {
        Rig::built(Ledger::default(), &[], FetchAddresses::Private)
    }

    fn built(ledger: Ledger, more: &[(&str, &str)], fetched: FetchAddresses) -> Self {
        adopt_orphans().expect("this system has subreapers");
        let more = more.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let shells = Shells::new(std::env::vars_os().chain(more)).expect("there is a shell");
        let ledger = Arc::new(ledger);
        let commands = Commands::new(shells, Arc::clone(&ledger) as _);
        let toolbox = Toolbox::new(built_in(&commands, fetched));
        let rights = Rights { tools: toolbox.names().map(str::to_owned).collect() };
        let child = ChildId::from_bits(0, getrandom::u32().expect("there is randomness"));
        let folder = TempDir::new().expect("a folder");
        Rig { folder, child, ledger, commands, line: Arc::default(), toolbox, rights }
    }

    /// The caller's folder; outputs that are too long go to `spill` in it.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("it is in the folder")).expect("folders");
        std::fs::write(path, content).expect("the file");
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the file")
    }

    pub(super) fn invocation(&self, arguments: Value) -> Invocation {
        let site = Site {
            reach: legwork_core::batch::Reach::Joined,
            actor: Actor::Child(self.child.clone()),
            lineage: Lineage { depth: 1, ..Lineage::of_session(SessionId::from_bits(1)) },
            fence: Fence { owner: OwnerId::from_bits(1), epoch: Epoch(1) },
            setting: self.setting(),
            spill: self.path("spill"),
            line: Arc::clone(&self.line) as _,
        };
        Invocation { call_id: "call_1".to_owned(), arguments, site: Arc::new(site) }
    }

    fn setting(&self) -> Setting {
        Setting {
            folder: self.folder().display().to_string(),
            route: Route {
                model: "scripted/none".to_owned(),
                base_url: None,
                api_mode: "chat_completions".to_owned(),
                key_source: None,
                terms: None,
                table: None,
                fallbacks: Vec::new(),
            },
            rights: self.rights.clone(),
            allowance: Allowance { steps_max: 1 },
            isolation: Isolation::Shared,
        }
    }

    pub(super) async fn call(&self, tool: &str, arguments: Value) -> ToolOutput {
        self.toolbox.call(tool, self.invocation(arguments)).await
    }

    /// A call that must go well; gives what the model reads.
    pub(super) async fn ok(&self, tool: &str, arguments: Value) -> String {
        let output = self.call(tool, arguments).await;
        assert!(!output.is_error, "{}", output.content);
        output.content
    }

    /// A call that must fail; gives what the model reads.
    pub(super) async fn err(&self, tool: &str, arguments: Value) -> String {
        let output = self.call(tool, arguments).await;
        assert!(output.is_error, "{}", output.content);
        output.content
    }

    /// Whether a process has ended, also if nobody has reaped it.
    pub(super) fn is_dead(&self, pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    }

    /// Processes of this caller that are left anywhere; they are killed, so that a failing test leaves none.
    pub(super) fn left(&self) -> usize {
        kill_marked(std::slice::from_ref(&self.child), u64::MAX)
    }
}
