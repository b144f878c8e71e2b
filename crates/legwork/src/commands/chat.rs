//! `legwork chat`: a conversation. At a terminal it is talked with there; otherwise each line of stdin is a message.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex};

use legwork_agent::session::{
    Conversation, ConversationHandle, ConversationParts, Farewell, SessionEvent, SessionListener, Which,
};
use legwork_core::batch::Reach;
use legwork_core::message::{Author, Message};
use legwork_core::outcome::StopReason;
use legwork_core::ports::{Conversations, Delegator, NewSession, SessionKind, SessionRecord};
use tokio::task::JoinSet;

use crate::args::ChatArgs;
use crate::chat::{
    Backstage, Colours, Dialogue, Feed, History, Host, Painter, Plain, RawTerminal, Size, Sources, Typing,
    View, Who, is_dumb, narrowing, size_now,
};
use crate::failure::{CliError, Exit, Kind};
use crate::invocation::Invocation;
use crate::progress::{Screen, follow_all};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::wire::Workplace;
use crate::{lookup, session_choice, stderr, wording};

/// Earlier messages that are shown when a conversation is opened again, and lines of each.
const PAST_MESSAGES: usize = 6;
const PAST_LINES: usize = 12;

/// How people talk with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// At a terminal.
    Terminal,
    /// Line by line, by a person at a terminal that can do no more or whose stdout is elsewhere.
    Lines,
    /// Line by line, by a program.
    Pipe,
}

/// A conversation that is open.
struct Open {
    handle: ConversationHandle,
    /// It drives the conversation.
    talking: JoinSet<Farewell>,
    feed: Arc<Feed>,
    who: Who,
}

/// Talks until the person, the input or a signal ends it.
///
/// # Errors
/// When no model is configured, there is no such session, it is open elsewhere, or nothing could be started.
pub async fn run(invocation: &Invocation, args: &ChatArgs) -> Result<Exit, CliError> {
    if invocation.common.json {
        return Err(CliError::new(Kind::Usage, "a conversation has no JSON form")
            .with_hint("`legwork run --json` gives one prompt and one answer"));
    }
    let settings = invocation.settings()?;
    let way = Way::of(invocation);
    let mut workplace = Workplace::open(invocation, &settings).await?;
    let mut signals = Signals::listen()?;
    let outcome = match open(invocation, &settings, args, (&workplace, way)).await {
        Ok(mut open) => {
            let outcome = talk(invocation, (&workplace, way), &mut open, &mut signals).await;
            let reason = if matches!(outcome, Ok(Exit::Interrupted)) {
                StopReason::Cancelled
            } else {
                // Whoever opens the session next goes on with what was cut off.
                StopReason::Shutdown
            };
            let left = leave(invocation, &workplace, open, reason).await;
            outcome.and_then(|exit| left.map(|()| exit))
        }
        Err(error) => Err(error),
    };
    workplace.close().await;
    if matches!(outcome, Ok(Exit::Success)) {
        workplace.tidy_up().await;
    }
    outcome
}

impl Way {
    fn of(invocation: &Invocation) -> Way {
        match (std::io::stdin().is_terminal(), std::io::stdout().is_terminal()) {
            (true, true) if !is_dumb(&invocation.environment) => Way::Terminal,
            (true, _) => Way::Lines,
            (false, _) => Way::Pipe,
        }
    }

    /// A program that only writes is not woken by results; what it delegates is waited for (cli.md, "Who owns what").
    fn reach(self) -> Reach {
        match self {
            Way::Terminal | Way::Lines => Reach::Push,
            Way::Pipe => Reach::Joined,
        }
    }
}

async fn open(
    invocation: &Invocation,
    settings: &Settings,
    args: &ChatArgs,
    (workplace, way): (&Workplace, Way),
) -> Result<Open, CliError> {
    let Meant { which, name, folder } = meant(invocation, args, workplace).await?;
    let mut setup = workplace.conversation(invocation, settings, way.reach())?;
    setup.setting.folder = folder;
    let feed = Arc::new(Feed::default());
    let listener: SessionListener = {
        let feed = Arc::clone(&feed);
        Box::new(move |event: SessionEvent| feed.tell(event))
    };
    let parts = ConversationParts { session: setup, delegator: Arc::new(workplace.handle.clone()), listener };
    let (handle, conversation) = Conversation::open(parts, which).await?;
    let mut talking = JoinSet::new();
    talking.spawn(conversation.run());
    let session = name.unwrap_or_else(|| handle.session().to_string());
    let who = Who { model: workplace.models.main.model.clone(), session };
    Ok(Open { handle, talking, feed, who })
}

/// The session that is meant.
struct Meant {
    which: Which,
    name: Option<String>,
    /// The folder it belongs to; its agent works there.
    folder: String,
}

impl From<SessionRecord> for Meant {
    fn from(record: SessionRecord) -> Meant {
        let session = record.session;
        Meant { which: Which::Stored(session.id), name: session.name, folder: session.folder }
    }
}

async fn meant(invocation: &Invocation, args: &ChatArgs, workplace: &Workplace) -> Result<Meant, CliError> {
    if let Some(typed) = &args.resume {
        return Ok(stored(invocation, workplace, typed.as_deref()).await?.into());
    }
    let folder = workplace.setting.folder.clone();
    let name = args.session.as_deref().map(session_choice::name).transpose()?;
    if let Some(name) = &name {
        let known = workplace.store.sessions(Some(&folder)).await?;
        if let Some(known) = known.into_iter().find(|known| known.session.name.as_ref() == Some(name)) {
            return Ok(known.into());
        }
    }
    let which = Which::New(NewSession {
        id: workplace.owner.new_session(),
        name: name.clone(),
        kind: SessionKind::Chat,
        folder: folder.clone(),
        at: workplace.owner.now(),
    });
    Ok(Meant { which, name, folder })
}

/// The stored session that is meant; without a name, the newest conversation of this folder.
async fn stored(
    invocation: &Invocation,
    workplace: &Workplace,
    typed: Option<&str>,
) -> Result<SessionRecord, CliError> {
    if let Some(typed) = typed {
        return lookup::session(invocation, &workplace.store, typed).await;
    }
    let folder = &workplace.setting.folder;
    let sessions = workplace.store.sessions(Some(folder)).await?.into_iter();
    let newest = sessions.filter(session_choice::is_conversation).max_by_key(|known| known.touched_at);
    newest.ok_or_else(|| {
        CliError::new(
            Kind::NotFound,
            format!("no conversation is stored that belongs to the folder {folder}"),
        )
        .with_hint("`legwork sessions --all` lists those of every folder; --resume ID goes on with one")
    })
}

/// Talks, until that ends or the conversation ends by itself.
async fn talk(
    invocation: &Invocation,
    (workplace, way): (&Workplace, Way),
    open: &mut Open,
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    let host: Arc<dyn Host> = Arc::new(Backstage {
        invocation: invocation.clone(),
        conversation: open.handle.clone(),
        engine: workplace.handle.clone(),
        store: workplace.store.clone(),
        models: workplace.models.clone(),
        sizes: Mutex::new(HashMap::new()),
    });
    let past = past(open.handle.past());
    let (who, feed) = (open.who.clone(), Arc::clone(&open.feed));
    let talking = async {
        match way {
            Way::Terminal => at_terminal(invocation, workplace, (host, feed), (who, &past), signals).await,
            Way::Lines | Way::Pipe => by_lines(invocation, workplace, (host, &feed), signals).await,
        }
    };
    tokio::select! {
        exit = talking => exit,
        Some(ended) = open.talking.join_next() => Err(ended_by_itself(ended)),
    }
}

async fn at_terminal(
    invocation: &Invocation,
    workplace: &Workplace,
    (host, feed): (Arc<dyn Host>, Arc<Feed>),
    (who, past): (Who, &[(Author, String)]),
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    let coloured = invocation.common.color.applies_to(&std::io::stdout(), &invocation.environment);
    let colours = if coloured { Colours::On } else { Colours::Off };
    let size: Size = size_now();
    let history = History::open(invocation.paths.state()?.history());
    let mut view = View::new(colours, size, who, Typing::new(history));
    view.greet(env!("CARGO_PKG_VERSION"));
    view.past(past);
    let painter = Painter::new(colours, narrowing(&invocation.environment), size);
    let (notes, _diverted) = stderr::divert();
    let _raw = RawTerminal::enter().map_err(|error| {
        CliError::new(Kind::Internal, format!("the terminal cannot be used: {error}"))
            .with_hint("`legwork chat | cat` talks line by line")
    })?;
    let sources = Sources { feed, watch: workplace.handle.watch(), notes };
    let mut dialogue = Dialogue::new(host, view, painter, workplace.stop_max());
    Ok(dialogue.run(sources, signals).await)
}

async fn by_lines(
    invocation: &Invocation,
    workplace: &Workplace,
    (host, feed): (Arc<dyn Host>, &Feed),
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    let quiet = invocation.common.quiet;
    let screen = if quiet { Screen::Silent } else { Screen::Lines };
    let mut watch = workplace.handle.watch();
    let mut plain = Plain::new(host, quiet);
    let talking = plain.run(feed, signals);
    let showing = follow_all(&workplace.handle, watch.as_mut(), &screen);
    tokio::pin!(talking, showing);
    tokio::select! {
        exit = &mut talking => return exit,
        () = &mut showing => {}
    }
    talking.await
}

/// Closes the conversation, and tells what did not become part of it and how to go on with it.
async fn leave(
    invocation: &Invocation,
    workplace: &Workplace,
    mut open: Open,
    reason: StopReason,
) -> Result<(), CliError> {
    let closing = async {
        open.handle.close(reason).await;
        open.talking.join_next().await
    };
    // Deadline: a program that was told to end must be gone in time; what is stored is resumable.
    let farewell = tokio::time::timeout(workplace.stop_max(), closing).await;
    let unsaid = match farewell {
        Ok(Some(Ok(farewell))) => farewell.unsaid,
        Ok(Some(Err(error))) => {
            tracing::error!(%error, "BUG: the conversation panicked");
            Vec::new()
        }
        Ok(None) => Vec::new(),
        Err(_) => {
            tracing::warn!(
                "the end of the conversation could not be stored in time; it goes on where it was cut off"
            );
            Vec::new()
        }
    };
    for text in unsaid {
        stderr::tell(&format!("not said: {}", wording::one_line(&text, 200)));
    }
    if !invocation.common.quiet {
        let id = open.handle.session();
        stderr::tell(&format!("`legwork chat --resume {id}` goes on with this conversation"));
    }
    Ok(())
}

fn ended_by_itself(ended: Result<Farewell, tokio::task::JoinError>) -> CliError {
    match ended {
        Ok(Farewell { lost: Some(error), .. }) => {
            CliError::new(Kind::State, format!("the conversation is open in another process now: {error}"))
        }
        Ok(Farewell { lost: None, .. }) => {
            CliError::new(Kind::Internal, "BUG: the conversation ended by itself")
        }
        Err(error) => CliError::new(Kind::Internal, format!("BUG: the conversation panicked: {error}")),
    }
}

/// The last of what was said before, each message cut to a few lines.
fn past(messages: &[Arc<Message>]) -> Vec<(Author, String)> {
    let told = messages.iter().filter_map(|message| {
        let text = message.plain_text();
        let shown = matches!(message.author, Author::User | Author::Assistant | Author::Completion);
        (shown && !text.trim().is_empty()).then(|| (message.author, in_short(text.trim())))
    });
    let told: Vec<(Author, String)> = told.collect();
    let before = told.len().saturating_sub(PAST_MESSAGES);
    told.into_iter().skip(before).collect()
}

fn in_short(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let more = lines.len().saturating_sub(PAST_LINES);
    let mut shown = lines[..lines.len() - more].join("\n");
    if more > 0 {
        shown.push_str(&format!("\n… {more} more lines"));
    }
    shown
}
