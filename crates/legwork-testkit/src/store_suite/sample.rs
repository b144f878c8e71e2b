//! Sample values: small, different from each other, and the same every time.

use legwork_core::batch::{Isolation, Lineage, Reach, Rights, Route, Setting, Task, Unit};
use legwork_core::budget::Allowance;
use legwork_core::fact::Accepted;
use legwork_core::ids::{CallKey, ChildId, DelegationId, OwnerId, SessionId, UnitId};
use legwork_core::outcome::Ending;
use legwork_core::ports::{NewSession, SessionKind};
use legwork_core::record::{OwnerRecord, Process, ProcessGroup};
use legwork_core::report::{Cost, Report, Usage};
use legwork_core::time::Timestamp;

/// The `n`-th process.
pub(super) fn owner(n: u32) -> OwnerRecord {
    let process = Process { boot_id: "boot-1".to_owned(), pid: 1000 + n, start_ticks: u64::from(n) << 33 };
    OwnerRecord::new(owner_id(n), process)
}

/// The id of the `n`-th process.
pub(super) fn owner_id(n: u32) -> OwnerId {
    OwnerId::from_bits(u64::from(n))
}

/// The id of the `n`-th session.
pub(super) fn session_id(n: u32) -> SessionId {
    SessionId::from_bits(u64::from(n))
}

/// The `n`-th session.
pub(super) fn session(n: u32) -> NewSession {
    NewSession {
        id: session_id(n),
        name: n.is_multiple_of(2).then(|| format!("session {n}")),
        kind: SessionKind::Chat,
        folder: format!("/project/{}", n % 2),
        at: Timestamp(i64::from(n)),
    }
}

/// The `n`-th delegation, with one task for each index in `units`, of session `n`.
pub(super) fn accepted(n: u32, units: &[&[usize]]) -> Accepted {
    let delegation = DelegationId::from_bits(n);
    let tasks = units.iter().map(|indexes| indexes.len()).sum();
    Accepted {
        lineage: Lineage::of_session(session_id(n)),
        call_key: None,
        context: None,
        reach: Reach::Joined,
        tasks: (0..tasks).map(|index| task(n, index)).collect(),
        children: (0..tasks).map(|index| ChildId::from_bits(index, n)).collect(),
        units: units
            .iter()
            .enumerate()
            .map(|(k, indexes)| unit(&delegation, k, units.len(), indexes))
            .collect(),
        setting: setting(),
        fallback: None,
        transcripts: vec![String::new(); tasks],
        delegation,
    }
}

/// The key of the `n`-th call.
pub(super) fn call_key(n: u32) -> CallKey {
    CallKey { caller: session_id(n).as_str().to_owned(), call: format!("call_{n}") }
}

/// A report with an answer.
pub(super) fn report(ending: Ending, answer: &str) -> Report {
    Report {
        answer: Some(answer.to_owned()),
        model: Some("scripted/model".to_owned()),
        model_calls: 2,
        usage: Usage { input: 100, output: 20, cached: 3, reasoning: 4 },
        cost: Cost::MicroUsd(1234),
        ..Report::bare(ending)
    }
}

/// The `n`-th process group.
pub(super) fn group(n: u32) -> ProcessGroup {
    ProcessGroup { pgid: 5000 + n, start_ticks: u64::from(n), boot_id: "boot-1".to_owned() }
}

fn task(n: u32, index: usize) -> Task {
    Task {
        goal: format!("goal {n}.{index}"),
        context: (index % 2 == 1).then(|| "some context".to_owned()),
        ..Task::default()
    }
}

fn unit(delegation: &DelegationId, k: usize, count: usize, indexes: &[usize]) -> Unit {
    let id = if count == 1 { UnitId::whole(delegation) } else { UnitId::part(delegation, k + 1) };
    Unit { id, task_indexes: indexes.to_vec(), group: None, inline: false }
}

fn setting() -> Setting {
    Setting {
        folder: "/project/0".to_owned(),
        route: Route {
            model: "scripted/model".to_owned(),
            base_url: None,
            api_mode: "chat_completions".to_owned(),
            key_source: Some("SCRIPTED_KEY".to_owned()),
            terms: None,
            table: None,
            fallbacks: Vec::new(),
        },
        rights: Rights { tools: ["read_file".to_owned()].into() },
        allowance: Allowance { steps_max: 50 },
        isolation: Isolation::Shared,
    }
}
