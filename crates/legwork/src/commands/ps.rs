//! `legwork ps`: what runs in this state folder, and with `--all` what ended recently.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use legwork_agent::process::SystemProcesses;
use legwork_core::ids::{ChildId, DelegationId, OwnerId};
use legwork_core::ports::{Facts, Filter, Listed, Liveness, Processes};
use legwork_core::record::{ChildRecord, DelegationRecord, Process};
use legwork_core::spans::Sight;
use legwork_core::time::Moment;
use legwork_engine::Clock;
use serde_json::{Value, json};

use crate::args::PsArgs;
use crate::failure::{CliError, Exit};
use crate::invocation::Invocation;
use crate::lacking::Keys;
use crate::orphans::{HOW_TO_GO_ON, with_model};
use crate::stderr::{self, Voice};
use crate::{orphans, outliving, state, stdout as answer, wording};

/// How many delegations `--all` lists at most.
const RECENT_MAX: usize = 100;
/// Between two looks of `--watch`.
const WATCH_EVERY: Duration = Duration::from_millis(500);
const GOAL_WIDTH: usize = 48;

/// Lists once, or again and again with `--watch` until it is interrupted.
///
/// # Errors
/// When the state folder cannot be read or the answer not be written.
pub async fn run(invocation: &Invocation, args: &PsArgs) -> Result<Exit, CliError> {
    let mut before = None;
    loop {
        let list = Listing::read(invocation, args).await?;
        let shown = if invocation.common.json { answer::json_line(&list.to_json()) } else { list.to_text() };
        if before.as_ref() != Some(&shown) {
            show(&shown, args.watch && !invocation.common.json)?;
            list.tell_of_the_dead(invocation.voice());
            before = Some(shown);
        }
        if !args.watch {
            return Ok(Exit::Success);
        }
        // Deadline: nothing tells this process of changes, so it looks again.
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

fn show(text: &str, afresh: bool) -> Result<(), CliError> {
    if afresh && stdout().is_terminal() {
        answer::written_by(|| write!(stdout().lock(), "\x1b[2J\x1b[H"))?;
    }
    answer::print(text)
}

/// Delegations with what is known of their owners.
pub struct Listing {
    records: Vec<DelegationRecord>,
    /// Those that cannot be read.
    unreadable: Vec<DelegationId>,
    owners: HashMap<OwnerId, Liveness>,
    /// Those that lost their process and are left to a worker that has not begun yet.
    handed_over: HashSet<DelegationId>,
    paused: bool,
    /// For subagents that lost their process: the source of the key that whoever goes on with them needs and that is not here.
    keys_lacking: HashMap<ChildId, String>,
    /// For subagents that lost their process and ask another model than is asked here: that model.
    other_models: HashMap<ChildId, String>,
    myself: Process,
    now: Moment,
}

impl Listing {
    async fn read(invocation: &Invocation, args: &PsArgs) -> Result<Listing, CliError> {
        let filter = if args.all { Filter::Recent(RECENT_MAX) } else { Filter::Open };
        let (Listed { rows: records, unreadable }, paused) = match state::open_to_look(invocation).await? {
            Some(store) => (store.delegations(filter).await?, state::is_paused(&store).await?),
            None => (Listed::default(), false),
        };
        let owners = records.iter().filter(|record| !record.is_settled());
        let owners =
            owners.map(|record| (record.owner.id.clone(), record.owner.liveness(&SystemProcesses))).collect();
        let handed_over = records.iter().filter(|record| outliving::has_worker(invocation, record));
        let handed_over = handed_over.map(|record| record.accepted.delegation.clone()).collect();
        let mut listing = Listing {
            records,
            unreadable,
            owners,
            handed_over,
            paused,
            keys_lacking: HashMap::new(),
            other_models: HashMap::new(),
            myself: SystemProcesses.myself(),
            now: Clock::start().now().mono,
        };
        listing.note_keys(&Keys::of(invocation));
        Ok(listing)
    }

    fn note_keys(&mut self, keys: &Keys<'_>) {
        for record in &self.records {
            for (index, child) in record.children.iter().enumerate() {
                if let Some(source) = keys.missing(record, index) {
                    self.keys_lacking.insert(child.id.clone(), source);
                } else if self.is_dead(record)
                    && let Some(model) = keys.other_model(record, index)
                {
                    self.other_models.insert(child.id.clone(), model);
                }
            }
        }
    }

    /// One line for each key that work waits for.
    fn key_notes(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for record in &self.records {
            let mut sources: Vec<&String> =
                record.children.iter().filter_map(|child| self.keys_lacking.get(&child.id)).collect();
            sources.sort();
            sources.dedup();
            for source in sources {
                lines.push(format!(
                    "note: {} waits for a process with the key in {source}, which is not set here",
                    record.accepted.delegation
                ));
            }
        }
        lines
    }

    /// One line for each other model that work asks which has lost its process, with a command that has it.
    fn model_notes(&self) -> Vec<String> {
        let mut asked: BTreeMap<&str, Vec<&DelegationId>> = BTreeMap::new();
        for record in &self.records {
            for model in record.children.iter().filter_map(|child| self.other_models.get(&child.id)) {
                let of_model = asked.entry(model).or_default();
                if of_model.last() != Some(&&record.accepted.delegation) {
                    of_model.push(&record.accepted.delegation);
                }
            }
        }
        let line = |(model, ids): (&str, Vec<&DelegationId>)| match ids.as_slice() {
            [id] => format!(
                "note: {id} asks {model}, which is not the model of this configuration; {} goes on with it",
                with_model(id, model)
            ),
            ids => format!(
                "note: {} of these ask {model}, which is not the model of this configuration; `legwork worker --model {model}` goes on with them",
                ids.len()
            ),
        };
        asked.into_iter().map(line).collect()
    }

    /// Whether nobody works on it, and nobody is about to.
    fn is_dead(&self, record: &DelegationRecord) -> bool {
        let has_lost = !record.is_settled() && self.owners.get(&record.owner.id) == Some(&Liveness::Dead);
        has_lost && !self.is_handed_over(record)
    }

    fn is_handed_over(&self, record: &DelegationRecord) -> bool {
        self.handed_over.contains(&record.accepted.delegation)
    }

    /// What a delegation is called, also in the place of the states of its children when nobody works on it.
    fn word(&self, record: &DelegationRecord) -> Option<&'static str> {
        match (self.is_handed_over(record), self.is_dead(record)) {
            (true, _) => Some("handed_over"),
            (false, true) => Some("orphaned"),
            (false, false) => None,
        }
    }

    /// Looking settles nothing, but says that somebody should.
    fn tell_of_the_dead(&self, voice: Voice) {
        if !voice.is_aloud() {
            return;
        }
        orphans::tell_unreadable(&self.unreadable);
        let dead = self.records.iter().filter(|record| self.is_dead(record)).count();
        if !self.handed_over.is_empty() {
            stderr::tell(&format!(
                "note: {} of these are left to a worker that has not begun yet",
                self.handed_over.len()
            ));
        }
        if dead > 0 {
            stderr::tell(&format!("note: {dead} of these belong to a process that has died; {HOW_TO_GO_ON}"));
            self.key_notes().iter().chain(&self.model_notes()).for_each(|line| stderr::tell(line));
        }
    }

    fn state_of(&self, record: &DelegationRecord, child: &ChildRecord) -> String {
        match child.outcome() {
            Some(outcome) => outcome.status().as_str().to_owned(),
            None if self.keys_lacking.contains_key(&child.id) => "queued".to_owned(),
            None => self.word(record).unwrap_or(child.state.as_str()).to_owned(),
        }
    }

    /// How the clocks of its children are seen from here.
    fn sight(&self, record: &DelegationRecord) -> Sight {
        // What has settled has no clock that goes on.
        let liveness = self.owners.get(&record.owner.id).copied().unwrap_or(Liveness::Dead);
        Sight::of(record, liveness, &self.myself, self.now)
    }

    fn to_json(&self) -> Value {
        let delegation = |record: &DelegationRecord| {
            let units: Vec<Value> =
                (0..record.accepted.units.len()).map(|place| self.unit_json(record, place)).collect();
            json!({
                "delegation_id": record.accepted.delegation,
                "session_id": record.accepted.lineage.session,
                "state": self.word(record).unwrap_or(record.state_text()),
                "units": units,
            })
        };
        json!({
            "delegations": self.records.iter().map(delegation).collect::<Vec<_>>(),
            "unreadable": self.unreadable,
            "paused": self.paused,
        })
    }

    fn unit_json(&self, record: &DelegationRecord, place: usize) -> Value {
        let unit = &record.accepted.units[place];
        let children: Vec<Value> =
            unit.task_indexes.iter().map(|&task_index| self.child_json(record, task_index)).collect();
        json!({
            "unit_id": unit.id,
            "group": unit.group,
            "delivery": record.deliveries[place].state.as_str(),
            "children": children,
        })
    }

    fn child_json(&self, record: &DelegationRecord, task_index: usize) -> Value {
        let child = &record.children[task_index];
        let counted = Counted::of(child);
        json!({
            "subagent_id": child.id,
            "task_index": task_index,
            "goal": record.accepted.tasks[task_index].goal,
            "state": self.state_of(record, child),
            "phase": counted.phase,
            "elapsed_seconds": wording::seconds(child.worked(self.sight(record))),
            "quiet_seconds": wording::seconds(child.quiet(self.sight(record))),
            "tokens": {"input": counted.input, "output": counted.output},
            "cost_usd": counted.cost_usd,
            "owner_pid": record.owner.process.pid,
            "waits_for": self.waits_for(record, child),
        })
    }

    fn waits_for(&self, record: &DelegationRecord, child: &ChildRecord) -> Option<String> {
        let key = self.keys_lacking.get(&child.id).map(|source| format!("the key in {source}"));
        key.or_else(|| awaited(child, self.sight(record)))
    }

    fn to_text(&self) -> String {
        let mut lines: Vec<String> = self.records.iter().map(|record| self.delegation_text(record)).collect();
        lines.extend(self.unreadable.iter().map(|id| format!("{id}  cannot be read")));
        if lines.is_empty() {
            lines.push("nothing is running".to_owned());
        }
        if self.paused {
            lines.push("paused: no new subagent starts; `legwork pause off` ends it".to_owned());
        }
        lines.join("\n")
    }

    fn delegation_text(&self, record: &DelegationRecord) -> String {
        let settled = record.children.iter().filter(|child| child.outcome().is_some()).count();
        let deliveries: Vec<&str> =
            record.deliveries.iter().map(|delivery| delivery.state.as_str()).collect();
        let mut lines = vec![format!(
            "{}  {}/{} settled  result {}  pid {}",
            record.accepted.delegation,
            settled,
            record.children.len(),
            deliveries.join(", "),
            record.owner.process.pid,
        )];
        lines.extend((0..record.children.len()).map(|task_index| self.child_text(record, task_index)));
        lines.join("\n")
    }

    fn child_text(&self, record: &DelegationRecord, task_index: usize) -> String {
        let child = &record.children[task_index];
        let counted = Counted::of(child);
        let phase = match (self.keys_lacking.get(&child.id), self.waits_for(record, child)) {
            (Some(source), _) => Some(format!("needs {source}")),
            (None, Some(awaited)) => Some(format!("waits for {awaited}")),
            (None, None) => counted.phase,
        };
        let phase = phase.map(|phase| format!(" ({phase})")).unwrap_or_default();
        let line = format!(
            "  {:<18} {:<24} {:>7} {:>8}  {}",
            child.id.as_str(),
            format!("{}{phase}", self.state_of(record, child)),
            wording::duration(child.worked(self.sight(record))),
            format!("{} tok", wording::count(counted.input + counted.output)),
            wording::one_line(&record.accepted.tasks[task_index].goal, GOAL_WIDTH),
        );
        line.trim_end().to_owned()
    }
}

/// What a child that is worked on waits for before it asks its model again.
pub fn awaited(child: &ChildRecord, sight: Sight) -> Option<String> {
    let Sight::Running(_) = sight else { return None };
    let (pulse, _) = child.pulse.as_ref().filter(|_| child.state.has_runner())?;
    wording::pause(pulse, child.quiet(sight))
}

/// The counted facts of a child: from its report once it has one, else from its stored pulse.
struct Counted {
    phase: Option<String>,
    input: u64,
    output: u64,
    cost_usd: f64,
}

impl Counted {
    fn of(child: &ChildRecord) -> Counted {
        let pulse = child.pulse.as_ref().map(|(pulse, _)| pulse);
        let usage = child.report.as_ref().map(|report| report.usage).or(pulse.map(|pulse| pulse.usage));
        let cost = child.report.as_ref().map(|report| report.cost).or(pulse.map(|pulse| pulse.cost));
        let usage = usage.unwrap_or_default();
        Counted {
            phase: pulse.filter(|_| child.state.has_runner()).map(|pulse| pulse.phase_text()),
            input: usage.input,
            output: usage.output,
            cost_usd: cost.unwrap_or_default().usd(),
        }
    }
}
