//! Which stored session a person means to go on with, whether it can be opened here, and what a session may be called. A
//! process that has it open may be about to end: it is waited for, but not for long.
//!
//! What is said in it then is not the business of this page.

use std::path::Path;
use std::time::Duration;

use legwork_agent::session::{SessionSetup, could_be_opened};
use legwork_core::ids::{OwnerId, SessionId};
use legwork_core::letters::reorders_or_hides;
use legwork_core::ports::{Conversations, Held, Listed, SessionKind, SessionRecord, Store};
use legwork_core::record::OwnerRecord;
use legwork_engine::{Clock, lease};
use legwork_sqlite::SqliteStore;
use tokio::time::Instant;

use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::owner::{self, Owner, is_dead};
use crate::settings::Settings;
use crate::stderr::Voice;
use crate::{lookup, state};

/// Characters of a name.
const NAME_MAX: usize = 64;
/// How often a session is asked for again whose holder turned out to be dead.
const HOLD_TRIES: usize = 3;
/// What a program that was told to end takes at most on top of the time that it gives its work.
const ENDING_SLACK: Duration = Duration::from_secs(1);
/// The longest wait for a process that has a session open, however much time it gives its work.
const ENDING_MAX: Duration = Duration::from_secs(10);
/// Between two looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How the ids begin that a name must not be taken for.
const ID_SIGNS: [&str; 7] = ["ses_", "deleg_", "sa-", "own_", "clm_", "req_", "-"];

/// How long somebody waits for a session that another process has open, because that may be about to end.
#[derive(Debug, Clone, Copy)]
pub struct HolderWait {
    within: Duration,
    voice: Voice,
}

impl HolderWait {
    /// As long as a process with these settings takes for its end. A line on stderr says what is waited for, unless
    /// `-q` was given.
    pub fn of(settings: &Settings, invocation: &Invocation) -> HolderWait {
        let within = (settings.delegation.stop_grace + ENDING_SLACK).min(ENDING_MAX);
        HolderWait { within, voice: invocation.voice() }
    }

    /// Waits until `holder` has the session open no longer. `false` when it still has.
    async fn outlasts(
        self,
        store: &dyn Store,
        (id, holder): (&SessionId, &OwnerRecord),
    ) -> Result<bool, CliError> {
        self.voice.tell(&format!(
            "note: the session {id} is open in process {}, which is waited for up to {} s in case it is ending",
            holder.process.pid,
            self.within.as_secs_f32()
        ));
        let until = Instant::now() + self.within;
        loop {
            let record = store.session(id).await?;
            let now = record.as_ref().and_then(holder_alive);
            if now.is_none_or(|now| now.id != holder.id) {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            // Deadline: its end is a row, or a process, that this one can only look at.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The session that `typed` names, or the newest conversation of this folder without it. It can be gone on with: somebody
/// talked in it, its folder is there, and no living process has it open, or it ends in time. Looking creates
/// nothing.
///
/// # Errors
/// When there is none, or it cannot be gone on with.
pub async fn to_resume(
    invocation: &Invocation,
    settings: &Settings,
    typed: Option<&str>,
) -> Result<SessionRecord, CliError> {
    let record = match (state::open_to_look(invocation).await?, typed) {
        (Some(store), Some(typed)) => lookup::session(invocation, &store, typed).await?,
        (Some(store), None) => newest(invocation, &store).await?,
        (None, Some(typed)) => return Err(lookup::unknown(typed)),
        (None, None) => return Err(none_here(invocation)),
    };
    let (id, folder) = (&record.session.id, &record.session.folder);
    if !is_conversation(&record) {
        return Err(CliError::new(
            Kind::Input,
            format!("the session {id} was made by `delegate`: nobody talks in it"),
        )
        .with_hint("`legwork results ID` prints what its tasks brought"));
    }
    if let Some(holder) = holder_alive(&record) {
        let store = state::open_to_work(invocation)?;
        // One that stands still is watched when the session is opened: whoever cannot talk in it takes it from nobody.
        let may_be_free = owner::may_stand_still(store.as_ref(), holder).await?.is_some()
            || HolderWait::of(settings, invocation).outlasts(store.as_ref(), (id, holder)).await?;
        if !may_be_free {
            return Err(open_elsewhere(id, holder));
        }
    }
    if !Path::new(folder).is_dir() {
        return Err(CliError::new(
            Kind::Input,
            format!("the folder {folder}, which the session {id} belongs to, is not there"),
        )
        .with_hint("bring it back; `legwork sessions export` prints the conversation"));
    }
    Ok(record)
}

async fn newest(invocation: &Invocation, store: &SqliteStore) -> Result<SessionRecord, CliError> {
    let folder = invocation.paths.folder_text();
    let Listed { rows: sessions, unreadable } = store.sessions(Some(&folder)).await?;
    tell_unreadable(invocation.voice(), &unreadable);
    let conversations = sessions.into_iter().filter(is_conversation);
    conversations.max_by_key(|known| known.last).ok_or_else(|| none_here(invocation))
}

/// Names sessions that cannot be read: one of them may be what was meant.
pub fn tell_unreadable(voice: Voice, ids: &[SessionId]) {
    ids.iter().for_each(|id| voice.tell(&format!("warning: {}", unreadable(id))));
}

/// What is said of a session that cannot be read.
pub fn unreadable(id: &SessionId) -> String {
    format!(
        "what is stored of the session {id} cannot be read, so that nobody can open it; everything else goes on. Keep a copy of the \
         state folder; `legwork doctor` says more, and what to do"
    )
}

fn none_here(invocation: &Invocation) -> CliError {
    let folder = invocation.paths.folder_text();
    CliError::new(Kind::NotFound, format!("no session is stored that belongs to the folder {folder}"))
        .with_hint("`legwork sessions --all` lists those of every folder; --resume ID goes on with one")
}

/// Whether somebody talked in it, or may. What `delegate` makes only owns its results.
pub fn is_conversation(record: &SessionRecord) -> bool {
    match record.session.kind {
        SessionKind::Chat | SessionKind::Run => true,
        SessionKind::Shell => false,
    }
}

/// Opens a session for this process, also after the process that had it open has died.
///
/// # Errors
/// When another process has it open, or it is gone.
pub async fn hold(store: &SqliteStore, owner: &Owner, id: &SessionId) -> Result<(), CliError> {
    let taking = Taking { store, owner: &owner.record.id, id, voice: Voice::Quiet, to_talk: None };
    match taking.begin().await? {
        None => Ok(()),
        Some(holder) => Err(open_elsewhere(id, &holder)),
    }
}

/// The same for a session that is to be talked in: a process that may be ending is waited for, and nothing is taken
/// from one that stands still unless this one can talk in it.
///
/// # Errors
/// When another process has it open and does not end in time, it is gone, or nobody can talk in it here.
pub async fn hold_in_time(Opening { setup, id, wait }: Opening<'_>) -> Result<(), CliError> {
    let store = setup.store.as_ref();
    let taking = Taking { store, owner: &setup.fence.owner, id, voice: wait.voice, to_talk: Some(setup) };
    let mut holder = taking.begin().await?;
    if let Some(other) = &holder
        && wait.outlasts(store, (id, other)).await?
    {
        holder = taking.begin().await?;
    }
    holder.map_or(Ok(()), |holder| Err(open_elsewhere(id, &holder)))
}

/// A session that is to be talked in here.
#[derive(Clone, Copy)]
pub struct Opening<'a> {
    /// What its agent needs.
    pub setup: &'a SessionSetup,
    /// Which.
    pub id: &'a SessionId,
    /// How long a process that has it open is waited for.
    pub wait: HolderWait,
}

/// A session that this process is about to open.
struct Taking<'a> {
    store: &'a dyn Store,
    owner: &'a OwnerId,
    id: &'a SessionId,
    voice: Voice,
    /// What is needed to talk in it, if that is what it is opened for.
    to_talk: Option<&'a SessionSetup>,
}

impl Taking<'_> {
    /// The process that has it open, unless it is open here now.
    async fn begin(&self) -> Result<Option<OwnerRecord>, CliError> {
        let mut dead = None;
        let mut tries = 0;
        loop {
            tries += 1;
            match self.store.hold_session(self.id, self.owner, dead.as_ref()).await? {
                Held::Here => return Ok(None),
                Held::Unknown => return Err(lookup::unknown(self.id.as_str())),
                Held::By(holder) => {
                    let gone = is_dead(&holder) || self.has_stood_still(&holder).await?;
                    if !gone || tries >= HOLD_TRIES {
                        return Ok(Some(holder));
                    }
                    dead = Some(holder.id);
                }
            }
        }
    }

    /// Whether a process that seems to live stands still for so long that its lease has run out; then it is declared
    /// gone, and what it had is free for whoever asks: what would keep this process from talking in the session is
    /// asked before. It answers at once unless the process may stand still; a line on stderr says that it is watched.
    async fn has_stood_still(&self, holder: &OwnerRecord) -> Result<bool, CliError> {
        let Some(suspect) = owner::may_stand_still(self.store, holder).await? else { return Ok(false) };
        if let Some(setup) = self.to_talk {
            could_be_opened(setup, self.id).await?;
        }
        if self.voice.is_aloud() {
            suspect.tell();
        }
        Ok(lease::has_run_out(self.store, Clock::start(), holder).await?)
    }
}

/// The process that has the session open, as far as can be told.
pub fn holder_alive(record: &SessionRecord) -> Option<&OwnerRecord> {
    record.holder.as_ref().filter(|holder| !is_dead(holder))
}

/// The failure when a session is open in another process.
pub fn open_elsewhere(id: &SessionId, holder: &OwnerRecord) -> CliError {
    let message = format!("the session {id} is open in process {}", holder.process.pid);
    CliError::new(Kind::OpenElsewhere, message).with_hint(format!(
        "end it there first; `legwork show {id}`, `steer` and `stop` work meanwhile, and `legwork sessions fork {id}` makes a copy"
    ))
}

/// A name for a session: one that cannot be taken for an id or an option.
///
/// # Errors
/// When it can, or is empty, too long or not printable.
pub fn name(typed: &str) -> Result<String, CliError> {
    let wrong = |what: String| {
        Err(CliError::new(Kind::Usage, format!("{what}: {}", lookup::shortened(typed)))
            .with_hint(format!("a name has 1 to {NAME_MAX} characters and no line ends, such as `release`")))
    };
    let length = typed.chars().count();
    if typed.trim().is_empty() {
        return wrong("a session cannot have an empty name".to_owned());
    }
    if length > NAME_MAX {
        return wrong(format!("a name of {length} characters is too long for a session"));
    }
    let is_unseen = |letter: char| letter.is_control() || reorders_or_hides(letter);
    if typed.trim() != typed || typed.chars().any(is_unseen) {
        return wrong(
            "a session's name has no blanks around it and only characters that are seen".to_owned(),
        );
    }
    match ID_SIGNS.iter().find(|sign| typed.starts_with(**sign)) {
        Some(sign) => wrong(format!("a session's name must not begin with `{sign}`")),
        None => Ok(typed.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k42_a_name_is_never_taken_for_an_id() {
        for right in ["release", "Über 2", "session", "a-b"] {
            assert_eq!(name(right).expect("it is right"), right);
        }
        let long = "x".repeat(NAME_MAX + 1);
        for wrong in [
            "",
            "  ",
            " a",
            "a\n",
            "a\u{1b}[2Jb",
            "a\u{202e}b",
            "ses_1",
            "deleg_x",
            "sa-0",
            "-x",
            long.as_str(),
        ] {
            let error = name(wrong).expect_err("it is wrong");
            assert_eq!(error.kind(), Kind::Usage, "{wrong:?}");
        }
    }
}
