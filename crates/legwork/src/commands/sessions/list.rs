//! `legwork sessions list`: one line a session, the one that changed last first.

use legwork_core::ports::{Conversations, SessionRecord};
use legwork_core::time::Timestamp;
use serde_json::{Value, json};

use super::ListArgs;
use super::digest::Digest;
use crate::failure::CliError;
use crate::invocation::Invocation;
use crate::owner::Owner;
use crate::{session_choice, state, stdout, wording};

/// How many sessions are listed without `--limit`.
const LISTED: usize = 50;
const OPENING_WIDTH: usize = 48;
const NAME_WIDTH: usize = 20;

/// Prints the list.
///
/// # Errors
/// When the state folder cannot be used, or the answer not be written.
pub async fn run(invocation: &Invocation, args: ListArgs) -> Result<(), CliError> {
    let folder = invocation.paths.folder_text();
    let mut digests = Vec::new();
    let (mut more, mut unreadable) = (0, Vec::new());
    let limit = args.limit.unwrap_or(LISTED);
    if let Some(store) = state::open_to_look(invocation).await? {
        let listed = store.sessions((!args.all).then_some(folder.as_str())).await?;
        unreadable = listed.unreadable;
        let mut sessions = listed.rows;
        sessions.retain(|known| args.shell || session_choice::is_conversation(known));
        // Those in which nobody has said anything come behind the others, in the order in which they were made.
        sessions.sort_by_key(|known: &SessionRecord| std::cmp::Reverse(known.last));
        more = sessions.len().saturating_sub(limit);
        for record in sessions.into_iter().take(limit) {
            digests.push(Digest::of(&store, record).await?);
        }
    }
    session_choice::tell_unreadable(invocation.voice(), &unreadable);
    if invocation.common.json {
        let sessions: Vec<Value> = digests.iter().map(|digest| Value::Object(digest.to_json())).collect();
        return stdout::print_json(&json!({"sessions": sessions, "unreadable": unreadable, "more": more}));
    }
    if digests.is_empty() && unreadable.is_empty() && more == 0 {
        return stdout::print(&nothing(args, &folder));
    }
    let now = Owner::new().now();
    let mut lines = vec![heads(args)];
    lines.extend(digests.iter().map(|digest| line(digest, args, now)));
    lines.extend(unreadable.iter().map(|id| format!("{id}  cannot be read")));
    if more > 0 {
        lines.push(format!("({more} older ones are not listed; --limit raises how many are)"));
    }
    stdout::print(&lines.join("\n"))
}

fn nothing(args: ListArgs, folder: &str) -> String {
    if args.all {
        return "no session is stored".to_owned();
    }
    format!("no session is stored that belongs to the folder {folder}; --all lists those of every folder")
}

fn heads(args: ListArgs) -> String {
    row(
        ["SESSION", "NAME", "KIND", "CHANGED", "MESSAGES", "UNDELIVERED", "OPEN IN"],
        if args.all { "FOLDER, BEGINS WITH" } else { "BEGINS WITH" },
    )
}

fn line(digest: &Digest, args: ListArgs, now: Timestamp) -> String {
    let record = &digest.record;
    let name = wording::one_line(record.session.name.as_deref().unwrap_or("-"), NAME_WIDTH);
    let changed = format!("{} ago", wording::duration(now.since(record.touched_at)));
    let open = digest.holder().map_or("-".to_owned(), |holder| format!("pid {}", holder.process.pid));
    let opening = wording::one_line(record.opening.as_deref().unwrap_or_default(), OPENING_WIDTH);
    let folder =
        if args.all { format!("{}: ", wording::plain(&record.session.folder)) } else { String::new() };
    row(
        [
            record.session.id.as_str(),
            &name,
            record.session.kind.as_str(),
            &changed,
            &record.messages.to_string(),
            &digest.undelivered.to_string(),
            &open,
        ],
        &format!("{folder}{opening}"),
    )
}

fn row([id, name, kind, changed, messages, undelivered, open]: [&str; 7], rest: &str) -> String {
    let line = format!(
        "{id:<20}  {name:<NAME_WIDTH$}  {kind:<5}  {changed:>10}  {messages:>8}  {undelivered:>11}  {open:<11}  {rest}"
    );
    line.trim_end().to_owned()
}
