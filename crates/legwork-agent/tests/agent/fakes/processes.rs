//! Processes of which a test says which are dead.

use legwork_core::ids::ChildId;
use legwork_core::ports::{GroupEnd, Liveness, Pending, Processes};
use legwork_core::record::{Process, ProcessGroup};
use std::collections::HashSet;
use std::future::ready;
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub struct FakeProcesses {
    dead: Mutex<HashSet<u32>>,
    unclear: Mutex<HashSet<u32>>,
}

impl FakeProcesses {
    /// All of them live.
    pub fn new() -> Arc<Self> {
        Arc::new(FakeProcesses::default())
    }

    pub fn die(&self, pid: u32) {
        self.dead.lock().expect("no holder panics").insert(pid);
    }

    pub fn obscure(&self, pid: u32) {
        self.unclear.lock().expect("no holder panics").insert(pid);
    }
}

impl Processes for FakeProcesses {
    fn myself(&self) -> Process {
        process(1)
    }

    fn liveness(&self, process: &Process) -> Liveness {
        if self.dead.lock().expect("no holder panics").contains(&process.pid) {
            return Liveness::Dead;
        }
        let is_unclear = self.unclear.lock().expect("no holder panics").contains(&process.pid);
        if is_unclear { Liveness::Unclear } else { Liveness::Alive }
    }

    fn kill_groups(&self, groups: Vec<ProcessGroup>) -> Pending<'_, Vec<GroupEnd>> {
        Box::pin(ready(vec![GroupEnd::Gone; groups.len()]))
    }

    fn ticks(&self) -> u64 {
        0
    }

    fn kill_marked(&self, _: Vec<ChildId>, _: u64) -> Pending<'_, usize> {
        Box::pin(ready(0))
    }
}

/// A process of this boot.
pub fn process(pid: u32) -> Process {
    Process { boot_id: "boot".to_owned(), pid, start_ticks: 1 }
}
