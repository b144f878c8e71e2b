//! The server's life: bound on loopback, run on a thread of its own, stopped when its handle is dropped.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::director::Director;
use super::gate::{Gate, Gates};
use super::log::{Ledger, Log};
use super::memory::Memory;
use super::protocol::Protocol;
use super::script::Scripts;
use super::serve::{Shared, serve};
use super::terms::Terms;

/// A running scripted server. Dropping it closes every connection and ends its thread.
///
/// Its waits block the calling thread. An asynchronous test whose own runtime must go on meanwhile keeps the server
/// in an `Arc` and waits on a blocking thread (`tokio::task::spawn_blocking`); a [`Gate`] can be cloned as it is.
pub struct ScriptedServer {
    shared: Arc<Shared>,
    patience: Duration,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ScriptedServer {
    /// Starts a server on a free port of `127.0.0.1`. It answers as soon as this returns.
    ///
    /// # Panics
    /// If loopback cannot be bound or no thread can be started.
    pub fn start(scripts: Scripts) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        listener.set_nonblocking(true).expect("a fresh listener can be made non-blocking");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let ledger = Arc::new(Ledger::new());
        let (patience, terms) = (scripts.patience, Terms::of(&scripts));
        let gates = Gates::new(Arc::clone(&ledger));
        let director = Mutex::new(Director::new(scripts));
        let shared = Arc::new(Shared { ledger, gates, director, memory: Memory::default(), terms, port });
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("scripted-server".to_owned());
        let thread =
            thread.spawn(move || run(listener, for_thread, stopped)).expect("a thread can be started");
        Self { shared, patience, stop: Some(stop), thread: Some(thread) }
    }

    /// The address that an OpenAI-compatible client is given, ending in `/v1`.
    pub fn base_url(&self) -> String {
        self.base_for(Protocol::OpenAiChat)
    }

    /// The address that a client of this wire format is given: the provider's own with its host replaced.
    pub fn base_for(&self, protocol: Protocol) -> String {
        format!("{}{}", self.origin(), protocol.base_path())
    }

    /// The address without a path.
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.shared.port)
    }

    /// The gate of this name.
    pub fn gate(&self, name: &str) -> Gate {
        self.shared.gates.gate(name, self.patience)
    }

    /// A copy of the log as it is now.
    pub fn log(&self) -> Log {
        self.shared.ledger.snapshot()
    }

    /// Blocks until the log is as the test wants it, and returns that log.
    ///
    /// # Panics
    /// After `timeout`, with a line for each request that came.
    pub fn wait_for(&self, is_so: impl Fn(&Log) -> bool, timeout: Duration) -> Log {
        self.shared.ledger.wait_for("the log to be as expected", timeout, is_so)
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        // The thread ends on a closed channel as well as on a message, so neither result can change anything. A
        // panic of the thread has been printed, and a second one here would abort a failing test.
        drop(self.stop.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// One thread serves everything, so what a connection notes after its last byte is noted before the next request.
fn run(listener: TcpListener, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime can be started");
    runtime.block_on(async {
        tokio::select! {
            () = accept(listener, shared) => {}
            // The sender is dropped without a message when the handle is dropped.
            _ = stopped => {}
        }
    });
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("the listener is non-blocking");
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(Arc::clone(&shared), stream));
                }
                // The client left between its knock and our answer, or descriptors ran short for a moment.
                Err(_) => tokio::task::yield_now().await,
            },
            Some(ended) = connections.join_next() => ended.expect("BUG: a connection of the scripted server panicked"),
        }
    }
}
