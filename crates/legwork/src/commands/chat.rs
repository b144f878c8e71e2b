//! `legwork chat`: a conversation. At a terminal it is talked with there; otherwise each line of stdin is a message.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use legwork_agent::session::{
    Conversation, ConversationHandle, ConversationParts, Farewell, SessionEvent, SessionListener, Which,
};
use legwork_core::batch::Reach;
use legwork_core::ids::SessionId;
use legwork_core::message::{Author, Message};
use legwork_core::outcome::StopReason;
use legwork_core::ports::{Conversations, Delegator, NewSession, SessionKind, SessionRecord};
use legwork_engine::recovery::{Orphans, Recovered};
use tokio::task::JoinSet;

use crate::args::ChatArgs;
use crate::chat::{
    Backstage, Colours, Dialogue, Feed, History, Host, Painter, Plain, RawTerminal, Size, Sources, Typing,
    View, Who, is_dumb, narrowing, print_last, size_now,
};
use crate::failure::{CliError, Exit, Kind};
use crate::invocation::Invocation;
use crate::progress::{Screen, follow_all};
use crate::session_choice::{HolderWait, Opening};
use crate::settings::Settings;
use crate::signals::{Asked, EndedBy, Signals};
use crate::wire::{ToolBounds, Workplace};
use crate::{orphans, session_choice, stderr, wording};

/// Earlier messages that are shown when a conversation is opened again, and lines of each.
const PAST_MESSAGES: usize = 6;
const PAST_LINES: usize = 12;
/// Characters that are shown of a message that was not said.
const UNSAID_WIDTH: usize = 200;
/// How long stderr may take for the last lines.
const LAST_WORDS: Duration = Duration::from_millis(300);

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
    /// What was told of its work when it was opened.
    taken_up: Recovered,
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
    let stored = match &args.resume {
        Some(typed) => Some(session_choice::to_resume(invocation, &settings, typed.as_deref()).await?),
        None => None,
    };
    let way = Way::of(invocation);
    let mut workplace = Workplace::open(invocation, &settings).await?;
    let mut signals = Signals::listen()?;
    let opening = async {
        let meant = meant(args, stored, &workplace).await?;
        open(invocation, &settings, meant, (&workplace, way)).await
    };
    let opened = match signals.unless_told(opening).await {
        Ok(opened) => opened,
        Err(asked) => {
            // Told twice or once: what it was told first is its exit code. What was taken up waits for whoever opens it next.
            workplace.close_after(EndedBy::Release, &mut signals).await.ok();
            workplace.resign().await;
            return Ok(asked.exit());
        }
    };
    let mut last_words = Vec::new();
    let outcome = match opened {
        Ok(mut open) => {
            let outcome =
                talk(invocation, (&workplace, way), (&mut open, &mut last_words), &mut signals).await;
            let reason = if matches!(outcome, Ok(Exit::Interrupted)) {
                StopReason::Cancelled
            } else {
                // Whoever opens the session next goes on with what was cut off.
                StopReason::Shutdown
            };
            let feed = Arc::clone(&open.feed);
            last_words.extend(leave(invocation, &workplace, (open, &mut signals), reason).await);
            if way != Way::Terminal
                && let Err(error) = print_last(&feed, &mut signals).await
            {
                last_words.push(error.in_a_line());
            }
            outcome
        }
        Err(error) => Err(error),
    };
    let ended_by = match outcome {
        Ok(Exit::Terminated) => EndedBy::Release,
        Ok(Exit::Interrupted) => EndedBy::Interrupt,
        Ok(_) | Err(_) => EndedBy::Itself,
    };
    let closed = workplace.close_after(ended_by, &mut signals).await;
    tokio::join!(workplace.resign(), tell(last_words));
    if let Err(asked) = closed {
        return Ok(asked.exit());
    }
    if matches!(outcome, Ok(Exit::Success)) {
        workplace.tidy_up(&mut signals).await;
    }
    outcome.map(|exit| signals.told().map_or(exit, Asked::exit))
}

impl Way {
    fn of(invocation: &Invocation) -> Way {
        match (std::io::stdin().is_terminal(), std::io::stdout().is_terminal()) {
            (true, true) if !is_dumb(&invocation.environment) => Way::Terminal,
            (true, _) => Way::Lines,
            (false, _) => Way::Pipe,
        }
    }

    /// A program that only writes is not woken by results; what it delegates is waited for (docs/guide/chat.md).
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
    Meant { which, name, folder }: Meant,
    (workplace, way): (&Workplace, Way),
) -> Result<Open, CliError> {
    let mut setup = workplace.conversation(invocation, settings, ToolBounds::of(way.reach()))?;
    setup.setting.folder = folder;
    let mut taken_up = Recovered::default();
    if let Which::Stored(id) = &which {
        let wait = HolderWait::of(settings, invocation);
        session_choice::hold_in_time(Opening { setup: &setup, id, wait }).await?;
        let orphans = Orphans::OfSession(id.clone());
        taken_up = orphans::take_up(invocation, workplace, &orphans).await?;
    }
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
    Ok(Open { handle, talking, feed, who, taken_up })
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

/// The stored session, or the one that the arguments name, or a new one.
async fn meant(
    args: &ChatArgs,
    stored: Option<SessionRecord>,
    workplace: &Workplace,
) -> Result<Meant, CliError> {
    if let Some(stored) = stored {
        return Ok(stored.into());
    }
    let folder = workplace.setting.folder.clone();
    let name = args.session.as_deref().map(session_choice::name).transpose()?;
    if let Some(name) = &name {
        let known = workplace.store.sessions(Some(&folder)).await?.rows;
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

/// Talks, until that ends or the conversation ends by itself; what is to be told of that goes to the last words.
async fn talk(
    invocation: &Invocation,
    (workplace, way): (&Workplace, Way),
    (open, last_words): (&mut Open, &mut Vec<String>),
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    let host: Arc<dyn Host> = Arc::new(Backstage {
        invocation: invocation.clone(),
        conversation: open.handle.clone(),
        reach: way.reach(),
        owner: workplace.owner.record.id.clone(),
        engine: workplace.handle.clone(),
        store: workplace.store.clone(),
        models: workplace.models.clone(),
    });
    let past = past(open.handle.past());
    let (who, feed) = (open.who.clone(), Arc::clone(&open.feed));
    let talking = async {
        match way {
            Way::Terminal => at_terminal(invocation, workplace, (host, feed), (who, &past), signals).await,
            Way::Lines | Way::Pipe => by_lines(invocation, workplace, (host, &feed), signals).await,
        }
    };
    let before = std::mem::take(&mut open.taken_up);
    let watching = orphans::keep_watch(invocation, workplace, open.handle.session(), before);
    tokio::select! {
        exit = talking => exit,
        never = watching => match never {},
        Some(ended) = open.talking.join_next() => {
            if let Ok(farewell) = &ended {
                last_words.extend(not_said(&farewell.unsaid));
            }
            Err(ended_by_itself(ended))
        }
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
    let mut screen = if quiet { Screen::Silent } else { Screen::Lines };
    let mut watch = workplace.handle.watch();
    let mut plain = Plain::new(host, invocation.voice());
    let talking = plain.run(feed, signals);
    let showing = follow_all(watch.as_mut(), &mut screen);
    tokio::pin!(talking, showing);
    tokio::select! {
        exit = &mut talking => return exit,
        () = &mut showing => {}
    }
    talking.await
}

/// Closes the conversation. Gives the lines that say what did not become part of it, and how to go on with it.
async fn leave(
    invocation: &Invocation,
    workplace: &Workplace,
    (mut open, signals): (Open, &mut Signals),
    reason: StopReason,
) -> Vec<String> {
    signals.allow(workplace.stop_grace());
    if reason == StopReason::Shutdown {
        // What is under way in the turn and in subagents comes to its end in the same time; the turn is told first, so that it
        // does not hear of the end from its subagents.
        let released = async { tokio::join!(open.handle.let_go(), workplace.handle.release()) };
        // Deadline: what has not ended by then is dropped, to be gone on with by whoever opens the session.
        tokio::time::timeout(workplace.stop_grace(), signals.unless_insisted(released)).await.ok();
    }
    let closing = async {
        open.handle.close(reason).await;
        open.talking.join_next().await
    };
    // Deadline: a program that was told to end must be gone in time; what is stored is resumable.
    let farewell = tokio::time::timeout(workplace.stop_max(), signals.unless_insisted(closing)).await;
    let unsaid = match farewell {
        Ok(Some(Some(Ok(farewell)))) => farewell.unsaid,
        Ok(Some(Some(Err(error)))) => {
            tracing::error!(%error, "BUG: the conversation panicked");
            Vec::new()
        }
        Ok(Some(None)) => Vec::new(),
        Ok(None) | Err(_) => {
            tracing::warn!(
                "the end of the conversation could not be stored in time; it goes on where it was cut off"
            );
            open.handle.take_unsaid()
        }
    };
    let mut lines: Vec<String> = not_said(&unsaid).collect();
    if !invocation.common.quiet && is_stored(workplace, open.handle.session()).await {
        lines.push(format!(
            "`legwork chat --resume {}` goes on with this conversation",
            open.handle.session()
        ));
    }
    lines
}

/// Whether there is anything to go on with: nothing is left of a new conversation in which nothing was said. Where that
/// cannot be read there may be.
async fn is_stored(workplace: &Workplace, session: &SessionId) -> bool {
    // Deadline: a store that does not answer keeps nobody from leaving.
    let read = tokio::time::timeout(LAST_WORDS, workplace.store.session(session)).await;
    !matches!(read, Ok(Ok(None)))
}

fn not_said(unsaid: &[String]) -> impl Iterator<Item = String> {
    unsaid.iter().map(|text| format!("not said: {}", wording::one_line(text, UNSAID_WIDTH)))
}

/// Tells the last lines on a thread of its own: stderr may be a terminal that does not read.
async fn tell(lines: Vec<String>) {
    let telling = tokio::task::spawn_blocking(move || lines.iter().for_each(|line| stderr::tell(line)));
    // Deadline: a terminal that reads nothing any more keeps nobody from leaving.
    if tokio::time::timeout(LAST_WORDS, telling).await.is_err() {
        tracing::debug!("stderr takes nothing");
    }
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
