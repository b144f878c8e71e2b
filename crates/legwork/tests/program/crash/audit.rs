//! What must hold after every kill, and the facts that are gathered on the way to tell.

use std::collections::BTreeMap;

use legwork_testkit::server::ScriptedServer;
use serde_json::Value;

use super::scene::{Beside, Child, EFFECTS, PROMPT, STEER, Scene};
use super::snapshot::{Snapshot, children, history};
use crate::harness::{Death, Home, KEY};

/// Gathers what happened in one round, and judges it at the end.
pub struct Audit<'a> {
    scene: &'a Scene,
    home: &'a Home,
    server: &'a ScriptedServer,
    /// A conversation that has nothing to do with the scene.
    bystander: String,
    kills: usize,
    /// After each kill: how many requests had come, and how many replies of each agent were stored.
    stored: Vec<(usize, BTreeMap<String, usize>)>,
}

impl<'a> Audit<'a> {
    /// Begins, with a conversation that must not be touched by anything.
    #[track_caller]
    pub fn new(scene: &'a Scene, home: &'a Home, server: &'a ScriptedServer) -> Audit<'a> {
        let ended = home.legwork(&["run", "a bystander's question", "--json"]).run();
        assert_eq!(ended.code, 0, "{ended}");
        let bystander = ended.json()["session_id"].as_str().expect("an id").to_owned();
        Audit { scene, home, server, bystander, kills: 0, stored: Vec::new() }
    }

    /// The program was sent a kill a moment ago. One that had ended before that was not killed.
    #[track_caller]
    pub fn saw(&mut self, death: Death) {
        match death {
            Death::Killed => self.kills += 1,
            Death::ByItself => self.started(),
        }
        self.look();
    }

    /// What is stored now must not be asked for again.
    #[track_caller]
    pub fn look(&mut self) {
        let requests = self.server.log().entries().len();
        self.stored.push((requests, Snapshot::of(self.home, self.scene).replies));
    }

    /// The program was started again, and ended by itself.
    #[track_caller]
    pub fn started(&mut self) {
        self.home.assert_nothing_runs();
    }

    /// Judges the whole round; gives back how many kills it had.
    ///
    /// # Panics
    /// With what does not hold, and in which round.
    #[track_caller]
    pub fn close(self, round: &str) -> usize {
        let now = Snapshot::of(self.home, self.scene);
        let session = now.session.as_deref().expect("the conversation is stored");
        let mut wrong = Vec::new();
        self.each_result_came_once(&now, &mut wrong);
        self.nobody_else_was_told(session, &mut wrong);
        self.nothing_stored_was_asked_again(&mut wrong);
        self.nothing_finished_was_done_again(&now, &mut wrong);
        self.what_was_said_is_accounted_for(&now, &mut wrong);
        let violations = self.server.log().violations().len();
        if violations > 0 {
            wrong.push(format!("{violations} requests broke the provider's rules"));
        }
        assert!(
            wrong.is_empty(),
            "{round}, {} kills: {}\n{}\n{}\n{:#}",
            self.kills,
            wrong.join("; "),
            self.server.log().summary(),
            self.transcripts(&now),
            Value::from(now.delegations)
        );
        self.kills
    }

    /// What the subagents did, for whoever has to find out why something does not hold.
    fn transcripts(&self, now: &Snapshot) -> String {
        let ids = now.delegations.iter().filter_map(|known| known["delegation_id"].as_str());
        ids.map(|id| self.home.legwork(&["tail", id]).run().stdout).collect()
    }

    /// No result is lost, and none is told twice (invariants 5 and 6).
    fn each_result_came_once(&self, now: &Snapshot, wrong: &mut Vec<String>) {
        let told: Vec<String> = now
            .history
            .iter()
            .filter(|message| message["author"] != "assistant")
            .map(ToString::to_string)
            .collect();
        for child in self.scene.children.iter().filter(|child| self.scene.answers_to_main(child)) {
            let times: usize = told.iter().map(|text| text.matches(&child.answer()).count()).sum();
            if times != 1 {
                wrong.push(format!("the answer of {} came {times} times", child.name));
            }
        }
        for (parent, child) in self.scene.nested() {
            let times = self.heard(parent, child);
            if times != Some(1) {
                wrong.push(format!("the answer of {} came to {} {times:?} times", child.name, parent.name));
            }
        }
        let made = self.scene.children.len();
        if now.states() != vec!["completed"; made] {
            wrong.push(format!("the subagents are {:?}", now.states()));
        }
    }

    /// In how many messages of its last request a subagent was told what another one had answered it.
    fn heard(&self, parent: &Child, child: &Child) -> Option<usize> {
        let log = self.server.log();
        let last = log.entries().iter().rev().find(|entry| entry.agent.as_deref() == Some(&parent.goal()))?;
        let messages = last.body["messages"].as_array()?;
        Some(messages.iter().filter(|message| message.to_string().contains(&child.answer())).count())
    }

    /// No other conversation has heard of it (invariant 1).
    fn nobody_else_was_told(&self, session: &str, wrong: &mut Vec<String>) {
        assert_ne!(session, self.bystander);
        let ended = self.home.legwork(&["run", "anything new?", "--resume", &self.bystander]).run();
        assert_eq!(ended.code, 0, "{ended}");
        let heard = Value::from(history(self.home, &self.bystander)).to_string();
        for child in &self.scene.children {
            if heard.contains(child.name) {
                wrong.push(format!("the bystander heard of {}", child.name));
            }
        }
        if heard.contains(KEY) {
            wrong.push("a key is stored".to_owned());
        }
    }

    /// No reply that was stored is paid for twice.
    fn nothing_stored_was_asked_again(&self, wrong: &mut Vec<String>) {
        let log = self.server.log();
        for (before, replies) in &self.stored {
            for entry in &log.entries()[*before..] {
                let agent = entry.agent.as_deref().unwrap_or_default();
                let stored = replies.get(agent).copied().unwrap_or_default();
                if entry.step < stored {
                    wrong.push(format!(
                        "step {} of {agent:?} was asked again, {stored} were stored",
                        entry.step
                    ));
                }
            }
        }
        let requests = log.entries().iter().filter(|entry| entry.agent.is_some()).count();
        let most = self.scene.requests() + self.kills * (self.scene.children.len() + 1);
        let again = self.stored.len() + 1;
        if requests > most + again * 2 {
            wrong.push(format!("{requests} requests, with {} kills at most {most} are needed", self.kills));
        }
    }

    /// No tool call has had its effect twice, and each that has none is told as in doubt.
    fn nothing_finished_was_done_again(&self, now: &Snapshot, wrong: &mut Vec<String>) {
        let effects = std::fs::read_to_string(self.home.project().join(EFFECTS)).unwrap_or_default();
        let in_doubt = self.in_doubt(now);
        for child in &self.scene.children {
            let mut missing = 0;
            for step in 0..child.steps {
                let effect = child.effect(step);
                match effects.lines().filter(|line| *line == effect).count() {
                    0 => missing += 1,
                    1 => {}
                    times => wrong.push(format!("{effect} was done {times} times")),
                }
            }
            let told = in_doubt.get(&child.goal()).copied().unwrap_or_default();
            if missing > told {
                let name = child.name;
                wrong.push(format!(
                    "{missing} effects of {name} are missing, {told} calls are told as in doubt"
                ));
            }
        }
    }

    /// How many calls the entry of each subagent tells as in doubt, by its goal.
    fn in_doubt(&self, now: &Snapshot) -> BTreeMap<String, usize> {
        let mut counted = BTreeMap::new();
        for known in &now.delegations {
            let id = known["delegation_id"].as_str().expect("an id");
            let entries = self.home.legwork(&["results", id, "--json"]).run().results();
            for child in children(known) {
                let entry = entries.iter().find(|entry| entry["task_index"] == child["task_index"]);
                let calls = entry.and_then(|entry| entry["in_doubt"].as_array()).map_or(0, Vec::len);
                counted.insert(child["goal"].as_str().expect("a goal").to_owned(), calls);
            }
        }
        counted
    }

    /// What was said to a subagent was seen by it, or came back as missed.
    fn what_was_said_is_accounted_for(&self, now: &Snapshot, wrong: &mut Vec<String>) {
        if self.scene.beside != Beside::Steer {
            return;
        }
        let Some(id) = now.delegations.first().and_then(|known| known["delegation_id"].as_str()) else {
            return;
        };
        let shown = self.home.legwork(&["show", id, "--json"]).run().json();
        let steers = shown["steers"].as_array().cloned().unwrap_or_default();
        for steer in &steers {
            let fate = steer["fate"].as_str().unwrap_or_default();
            if fate != "seen" && fate != "missed" {
                wrong.push(format!("what was said is {fate}"));
            }
            let heard = self.server.log().entries().iter().any(|entry| {
                entry.agent.as_deref() != Some(PROMPT) && entry.body["messages"].to_string().contains(STEER)
            });
            if fate == "seen" && !heard {
                wrong.push("what counts as seen was never sent to the model".to_owned());
            }
        }
    }
}
