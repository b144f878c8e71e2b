//! Several conversations side by side on one embedded model: each reads one file and answers, with times.
//!
//! `cargo run --release -p legwork-local --features local-model --example readers -- CACHE_DIR FILE...`

use futures::StreamExt;
use legwork_agent::models::{Model, ModelRequest, ReplyPart, ToolSpec};
use legwork_core::message::{Author, Message, Part, ToolResult};
use legwork_core::step::Reply;
use legwork_local::{LocalModel, LocalOptions};
use serde_json::json;
use std::error::Error;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let cache_dir = PathBuf::from(arguments.next().ok_or("usage: readers CACHE_DIR FILE...")?);
    let file = std::env::var_os("LEGWORK_LOCAL_MODEL").map(PathBuf::from);
    let begun = Instant::now();
    let mut last = None;
    let model = legwork_local::open(&LocalOptions { file, cache_dir }, &mut |progress| {
        let kind = std::mem::discriminant(&progress);
        if last.replace(kind) != Some(kind) {
            println!("{:6.2} s  {progress:?}", begun.elapsed().as_secs_f64());
        }
        ControlFlow::Continue(())
    })?;
    println!("{:6.2} s  ready", begun.elapsed().as_secs_f64());
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let conversations = arguments.map(|file| converse(model.clone(), file));
    for outcome in runtime.block_on(futures::future::join_all(conversations)) {
        println!("\n{}", outcome?);
    }
    println!("\n{:6.2} s  all done", begun.elapsed().as_secs_f64());
    Ok(())
}

/// One conversation: asks, reads what it is told to read, asks again.
async fn converse(model: LocalModel, file: String) -> Result<String, Box<dyn Error>> {
    let begun = Instant::now();
    let goal = format!("Read the file {file} with read_file and say in two sentences what it is about.");
    let mut messages = vec![
        Arc::new(Message::text(Author::System, "You are a focused subagent.")),
        Arc::new(Message::text(Author::User, goal)),
    ];
    let mut told = String::new();
    loop {
        let asked = Instant::now();
        let reply = ask(&model, &messages).await?;
        let calls: Vec<_> = reply.message.calls().cloned().collect();
        told.push_str(&format!(
            "{file}: {:.2} s, {:?}\n",
            asked.elapsed().as_secs_f64(),
            (reply.usage.input, reply.usage.output, reply.usage.cached)
        ));
        if calls.is_empty() {
            told.push_str(&format!(
                "{} (after {:.2} s)",
                reply.message.plain_text(),
                begun.elapsed().as_secs_f64()
            ));
            return Ok(told);
        }
        messages.push(Arc::new(reply.message));
        let mut parts = Vec::new();
        for call in calls {
            told.push_str(&format!("  {} {}\n", call.name, call.arguments));
            let path = call.arguments["path"].as_str().unwrap_or_default();
            let content = std::fs::read_to_string(path).unwrap_or_else(|error| error.to_string());
            parts.push(Part::Result(ToolResult { call_id: call.id, content, is_error: false }));
        }
        messages.push(Arc::new(Message { author: Author::Tool, parts }));
    }
}

async fn ask(model: &LocalModel, messages: &[Arc<Message>]) -> Result<Reply, Box<dyn Error>> {
    let tools = Arc::new([ToolSpec {
        name: "read_file".to_owned(),
        description: "Read a text file. Long files come in parts.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "offset": {"type": "integer"}},
            "required": ["path"],
        }),
    }]);
    let mut parts = model.respond(ModelRequest { messages: messages.to_vec(), tools });
    while let Some(part) = parts.next().await {
        if let ReplyPart::Done(reply) = part? {
            return Ok(*reply);
        }
    }
    Err("the reply ended without its last part".into())
}
