//! The wait for the results of a delegation: shows the progress, prints every unit that settles before the last one, and does
//! what signals ask for.
//!
//! What is printed at the end is not decided here.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use legwork_core::batch::Ticket;
use legwork_core::delivery::ParkReason;
use legwork_core::ids::{ClaimId, DelegationId, UnitId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Delegator, Facts, JoinError, Joined, Pending};
use legwork_core::steering::Scope;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::failure::CliError;
use crate::outcomes::Outcomes;
use crate::progress::{Follow, Screen};
use crate::signals::{Asked, Attention, FAR_OFF, Meant, Signals};
use crate::stdout;
use crate::wire::Workplace;

/// How long the last lines of progress may take once the results are there.
const LAST_LINES: Duration = Duration::from_millis(300);

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// For people, unit by unit.
    Text,
    /// For programs, as one document.
    Json,
}

/// How the wait for the results ended.
pub(super) enum Ended {
    /// All children have settled.
    Settled(Box<Joined>),
    /// Their ends could not be stored; why.
    Unsettled(String),
    /// The work was released: it stays in the store.
    Released,
    /// The user did not want to wait for the stop.
    LeftAtOnce,
}

/// A delegation that is waited for.
pub(super) struct Attended<'a> {
    workplace: &'a Workplace,
    ticket: &'a Ticket,
    joins: Joins<'a>,
    attention: Attention,
    handed: Handed,
    /// Stops that were asked for. What they came to is seen by the ends.
    stops: JoinSet<()>,
}

/// What was printed of a delegation before its end.
#[derive(Default)]
pub(super) struct Handed {
    /// These units, and that was noted.
    pub(super) units: Vec<UnitId>,
    /// Nothing more, because of this.
    pub(super) cut_off: Option<CutOff>,
}

/// Why nothing more is printed.
pub(super) enum CutOff {
    /// Stdout takes nothing.
    Failed(CliError),
    /// Nobody read it when a signal came.
    Asked(Asked),
}

impl CutOff {
    /// How a print ended that was not tried any more.
    pub(super) fn into_printed(self) -> Result<Option<Asked>, CliError> {
        match self {
            CutOff::Failed(error) => Err(error),
            CutOff::Asked(asked) => Ok(Some(asked)),
        }
    }
}

/// What happened while the results were waited for.
enum Next {
    /// Every end was shown.
    Shown,
    Settled(Settled),
    Overdue,
    Asked(Asked),
}

/// What settled.
enum Settled {
    /// One of several units, while others are open.
    Unit(UnitId, Box<Joined>),
    /// All of it.
    All(Result<Box<Joined>, JoinError>),
}

impl<'a> Attended<'a> {
    pub(super) fn new(workplace: &'a Workplace, ticket: &'a Ticket, form: Form) -> Attended<'a> {
        Attended {
            joins: Joins::of(workplace, ticket, form),
            workplace,
            ticket,
            attention: Attention::default(),
            handed: Handed::default(),
            stops: JoinSet::new(),
        }
    }

    /// Whether the user wanted it to stop, and what was printed.
    pub(super) fn into_parts(self) -> (bool, Handed) {
        (self.attention.is_interrupted(), self.handed)
    }

    /// Waits for the results while the progress is shown, and does what signals ask for.
    pub(super) async fn until_ended(
        &mut self,
        signals: &mut Signals,
        following: &mut Follow<'_>,
        screen: &mut Screen,
    ) -> Result<Ended, CliError> {
        // Deadline: a stop is bounded even where its outcome cannot be stored; far off until there is one.
        let overdue = tokio::time::sleep(FAR_OFF);
        tokio::pin!(overdue);
        let mut showing = true;
        loop {
            let next = tokio::select! {
                () = following.run(screen), if showing => Next::Shown,
                settled = self.joins.next() => Next::Settled(settled),
                () = &mut overdue => Next::Overdue,
                asked = signals.next() => Next::Asked(asked),
            };
            let asked = match next {
                Next::Shown => {
                    showing = false;
                    None
                }
                Next::Settled(Settled::Unit(unit, joined)) => {
                    screen.clear();
                    self.hand_out(unit, *joined, signals).await
                }
                Next::Settled(Settled::All(joined)) => {
                    if showing {
                        // Deadline: the last lines of progress are on their way; a watcher that lost some never ends.
                        tokio::time::timeout(LAST_LINES, following.run(screen)).await.ok();
                    }
                    return ended(joined);
                }
                Next::Overdue => return Ok(Ended::Unsettled("the stop took too long".to_owned())),
                Next::Asked(asked) => Some(asked),
            };
            let Some(asked) = asked else { continue };
            if let Some(ended) = self.asked(asked).await {
                return Ok(ended);
            }
            overdue.as_mut().reset(Instant::now() + self.workplace.stop_max());
        }
    }

    /// Prints a unit that has settled while others go on. Gives the signal that came while nobody read it.
    async fn hand_out(&mut self, unit: UnitId, joined: Joined, signals: &mut Signals) -> Option<Asked> {
        if self.handed.cut_off.is_some() {
            // It comes with the rest.
            return None;
        }
        let outcomes = Outcomes::all(&joined.record).with_missed(&joined.missed).with_below(&joined.below);
        let printed = stdout::print_attended(format!("{}\n", outcomes.unit_text(&unit)), signals).await;
        let noted = note(self.workplace, joined.claims, &printed, &self.ticket.delegation);
        signals.unless_insisted(noted).await;
        match printed {
            Ok(None) => {
                self.handed.units.push(unit);
                None
            }
            Ok(Some(asked)) => {
                self.handed.cut_off = Some(CutOff::Asked(asked));
                Some(asked)
            }
            Err(error) => {
                self.handed.cut_off = Some(CutOff::Failed(error));
                None
            }
        }
    }

    async fn asked(&mut self, asked: Asked) -> Option<Ended> {
        match self.attention.what_is_meant(asked) {
            Meant::LeaveAtOnce => Some(Ended::LeftAtOnce),
            Meant::Release => Some(Ended::Released),
            Meant::Stop => {
                let scope = Scope::Delegation(self.ticket.delegation.clone());
                let handle = self.workplace.handle.clone();
                // The answer waits for the store, and the next signal does not wait for the answer: the ends tell what came of it.
                self.stops.spawn(async move {
                    handle.stop(scope, StopReason::Cancelled, Force::Ask).await;
                });
                None
            }
        }
    }
}

fn ended(joined: Result<Box<Joined>, JoinError>) -> Result<Ended, CliError> {
    match joined {
        Ok(joined) => Ok(Ended::Settled(joined)),
        Err(JoinError::Store(error)) => Ok(Ended::Unsettled(error.to_string())),
        Err(JoinError::GivenUp(why)) => Ok(Ended::Unsettled(why)),
        Err(error @ (JoinError::Unknown(_) | JoinError::Orphaned(_) | JoinError::Closed)) => {
            Err(error.into())
        }
    }
}

/// The waits for what settles. The last unit is not waited for by itself: it comes with the whole.
struct Joins<'a> {
    units: FuturesUnordered<Pending<'a, (UnitId, Result<Joined, JoinError>)>>,
    all: Pending<'a, Result<Joined, JoinError>>,
    /// Why the work was given up while units were waited for.
    given_up: Option<JoinError>,
}

impl<'a> Joins<'a> {
    fn of(workplace: &'a Workplace, ticket: &'a Ticket, form: Form) -> Joins<'a> {
        let (handle, delegation) = (&workplace.handle, &ticket.delegation);
        let mut units = FuturesUnordered::new();
        if form == Form::Text {
            units.extend(ticket.units.iter().map(|unit| {
                let join = handle.join_unit(delegation, &unit.id);
                Box::pin(async move { (unit.id.clone(), join.await) }) as Pending<'_, _>
            }));
        }
        Joins { units, all: handle.join(delegation), given_up: None }
    }

    /// What settles next. Dropping the future loses nothing.
    async fn next(&mut self) -> Settled {
        while let Some((unit, joined)) = self.units.next().await {
            match joined {
                Ok(joined) if !self.units.is_empty() => return Settled::Unit(unit, Box::new(joined)),
                // The last one comes with the whole, which also claims what these waits have claimed, and what stands in the way
                // of a unit is told by the whole. All are waited for: a claim that is under way when its wait is dropped is
                // seen by nobody.
                Err(given_up @ JoinError::GivenUp(_)) => self.given_up = Some(given_up),
                Ok(_) | Err(_) => {}
            }
        }
        // To wait for the whole from now on would be to ask for it again, and begin it again.
        if let Some(given_up) = self.given_up.take() {
            return Settled::All(Err(given_up));
        }
        Settled::All((&mut self.all).await.map(Box::new))
    }
}

/// Stores what became of results that were printed, or not.
pub(super) async fn note(
    workplace: &Workplace,
    claims: Vec<ClaimId>,
    printed: &Result<Option<Asked>, CliError>,
    id: &DelegationId,
) {
    let now = workplace.owner.now();
    let noted = match printed {
        Ok(None) if !stdout::goes_nowhere() => workplace.store.acknowledge(claims, now).await,
        Ok(_) | Err(_) => workplace.store.park(claims, now, ParkReason::WriteFailed).await,
    };
    if let Err(error) = noted {
        // The claims come free with this process, so the results are offered again.
        tracing::warn!(%error, "whether the results arrived could not be stored; `legwork results {id}` prints them");
    }
}

/// What is said of results that could not be printed.
pub(super) fn kept(id: &DelegationId) -> String {
    format!("the results are kept: `legwork results {id}` prints them")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit that was given up is told, and the whole is not waited for: that would begin it again.
    /// Proves K35.
    #[tokio::test]
    async fn k35_delegate_begins_nothing_again_that_was_given_up() {
        let unit = |unit: &str, joined| {
            let unit = UnitId::from_stored(unit);
            Box::pin(async move { (unit, joined) }) as Pending<'_, _>
        };
        let why = || JoinError::GivenUp("no space left, for 60 s".to_owned());
        let begun_again = async { panic!("it is begun again") };
        let mut joins = Joins {
            units: FuturesUnordered::from_iter([
                unit("deleg_1-1", Err(why())),
                unit("deleg_1-2", Err(why())),
            ]),
            all: Box::pin(begun_again),
            given_up: None,
        };
        let Settled::All(Err(error)) = joins.next().await else { panic!("something settled") };
        assert_eq!(error, why());
    }
}
