//! What is stored at one moment, as anybody can look at it: sessions, delegations, subagents and their steps.

use std::collections::BTreeMap;

use serde_json::Value;

use super::scene::{PROMPT, Scene};
use crate::harness::Home;

/// What is stored.
pub struct Snapshot {
    /// The conversation that the scene is about, if it was stored.
    pub session: Option<String>,
    /// Its messages.
    pub history: Vec<Value>,
    /// The delegations there are.
    pub delegations: Vec<Value>,
    /// For each agent, by the marker in its first message, how many replies of its model are stored.
    pub replies: BTreeMap<String, usize>,
}

impl Snapshot {
    /// Looks at what is stored now.
    #[track_caller]
    pub fn of(home: &Home, scene: &Scene) -> Snapshot {
        let session = conversation(home);
        let history = session.as_deref().map(|id| history(home, id)).unwrap_or_default();
        let delegations = home.list();
        let said = history.iter().filter(|message| message["author"] == "assistant").count();
        let mut replies = BTreeMap::from([(PROMPT.to_owned(), said)]);
        for child in delegations.iter().flat_map(children) {
            let goal = child["goal"].as_str().expect("a goal");
            let known = scene.children.iter().find(|known| goal.ends_with(known.name));
            let known = known.unwrap_or_else(|| panic!("nobody asked for {goal:?}"));
            let id = child["subagent_id"].as_str().expect("an id");
            *replies.entry(known.goal()).or_default() += model_replies(home, id);
        }
        Snapshot { session, history, delegations, replies }
    }

    /// The states of all subagents.
    pub fn states(&self) -> Vec<&str> {
        let children = self.delegations.iter().flat_map(children);
        children.map(|child| child["state"].as_str().expect("a state")).collect()
    }

    /// The states of all deliveries.
    pub fn deliveries(&self) -> Vec<&str> {
        let units = self.delegations.iter().flat_map(|known| known["units"].as_array().expect("units"));
        units.map(|unit| unit["delivery"].as_str().expect("a state")).collect()
    }
}

/// The children of a delegation as it is listed.
pub fn children(delegation: &Value) -> Vec<&Value> {
    let units = delegation["units"].as_array().expect("units");
    units.iter().flat_map(|unit| unit["children"].as_array().expect("children")).collect()
}

/// The conversation whose first message is the prompt of the scene.
fn conversation(home: &Home) -> Option<String> {
    let ended = home.legwork(&["sessions", "--all", "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let sessions = ended.json()["sessions"].as_array().expect("sessions").clone();
    let found =
        sessions.iter().find(|known| known["opening"].as_str().is_some_and(|text| text.contains(PROMPT)));
    found.and_then(|known| known["session_id"].as_str()).map(ToOwned::to_owned)
}

/// The messages of a conversation.
#[track_caller]
pub fn history(home: &Home, session: &str) -> Vec<Value> {
    let ended = home.legwork(&["sessions", "export", session, "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    ended.json()["history"].as_array().expect("messages").clone()
}

fn model_replies(home: &Home, child: &str) -> usize {
    let ended = home.legwork(&["show", child, "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let steps = ended.json()["steps"].as_array().expect("steps").clone();
    steps.iter().filter(|step| step["action"] == "model" && step["state"] == "done").count()
}
