//! Tests of the toolbox itself: rights, unknown names, panics.

use super::rig::Rig;
use crate::models::ToolSpec;
use crate::tools::{Effect, Invocation, Tool, ToolOutput, Toolbox};
use legwork_core::batch::Rights;
use legwork_core::ports::Pending;
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_allowed_ones() {
    let mut rig = Rig::new();
    rig.rights = Rights { tools: ["read_file".to_owned(), "unheard_of".to_owned()].into() };
    assert_eq!(rig.err("bash", json!({})).await, "there is no tool `bash`; call one of: read_file");
    assert_eq!(
        rig.err("terminal", json!({"command": "true"})).await,
        "the tool `terminal` is not allowed here; call one of: read_file"
    );
    assert!(rig.ledger.noted().is_empty(), "inv_18: nothing was started");
}

#[test]
fn inv_18_only_allowed_tools_are_offered() {
    let rig = Rig::new();
    let names =
        |rights: &Rights| rig.toolbox.specs(rights).iter().map(|spec| spec.name.clone()).collect::<Vec<_>>();
    assert!(names(&rig.rights).contains(&"terminal".to_owned()));
    assert_eq!(names(&Rights { tools: ["read_file".to_owned()].into() }), ["read_file"]);
    assert_eq!(names(&Rights::default()), Vec::<String>::new());
}

#[test]
fn each_tool_says_what_it_does_to_the_world() {
    let rig = Rig::new();
    assert_eq!(rig.toolbox.effect("read_file", &json!({})), Some(Effect::ReadOnly));
    assert_eq!(rig.toolbox.effect("terminal", &json!({})), Some(Effect::Changes));
    assert_eq!(rig.toolbox.effect("bash", &json!({})), None);
}

struct Broken;

impl Tool for Broken {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({"type": "object", "properties": {}});
        ToolSpec { name: "broken".to_owned(), description: String::new(), parameters }
    }
    fn effect(&self) -> Effect {
        Effect::Changes
    }
    fn call(&self, _: Invocation) -> Pending<'_, ToolOutput> {
        panic!("before anything")
    }
}

#[tokio::test]
async fn a_tool_that_panics_gives_an_error() {
    let mut rig = Rig::new();
    rig.rights.tools.insert("broken".to_owned());
    rig.toolbox = Toolbox::new(vec![Arc::new(Broken)]);
    let message = rig.err("broken", json!({})).await;
    assert!(message.starts_with("BUG: the tool `broken` broke down (before anything)"), "{message}");
}

#[test]
fn k23_every_schema_is_an_object_that_names_what_it_requires() {
    let rig = Rig::new();
    for spec in rig.toolbox.specs(&rig.rights).iter() {
        assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
        for name in spec.parameters["required"].as_array().into_iter().flatten() {
            let name = name.as_str().expect("a name");
            assert!(spec.parameters["properties"].get(name).is_some(), "{}: {name}", spec.name);
        }
    }
}
