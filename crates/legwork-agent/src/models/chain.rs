//! A chain of models that stand in for each other: when one cannot answer and another may, the next one does (CRED-14).
//!
//! It decides who is asked; when a failure is final is decided in `retry`. Each link has its own address and key, and knows
//! nothing of the others.

use super::port::{Link, Model, ModelError, ModelFacts, ModelRequest, ReplyPart, ReplyStream};
use futures::StreamExt;
use legwork_core::report::FailureReason;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// So long a stand-in is asked; then the first model gets another chance.
const STAND_IN_FOR: Duration = Duration::from_secs(300);

/// Models that stand in for each other, for one agent: two of them would move it on twice.
pub struct Chain {
    links: Arc<[Arc<dyn Model>]>,
    turn: Mutex<Place>,
}

/// Which model is asked, and since when.
#[derive(Clone, Copy)]
struct Place {
    link: usize,
    since: Instant,
}

impl Chain {
    /// The models in the order in which they are asked; the first of them always answers if it can.
    ///
    /// # Panics
    /// When there is none.
    pub fn new(links: Arc<[Arc<dyn Model>]>) -> Self {
        assert!(!links.is_empty(), "BUG: a chain without links");
        Chain { links, turn: Mutex::new(Place { link: 0, since: Instant::now() }) }
    }

    fn turn(&self) -> Place {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> &Arc<dyn Model> {
        &self.links[self.turn().link]
    }

    fn move_to(&self, link: usize) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Place { link, since: Instant::now() };
    }
}

impl Model for Chain {
    fn facts(&self) -> ModelFacts {
        self.current().facts()
    }

    fn cuts_to_fit(&self) -> bool {
        self.current().cuts_to_fit()
    }

    /// What is shown to one must be fit for all that may come after it.
    fn takes_images(&self) -> bool {
        self.links.iter().all(|link| link.takes_images())
    }

    fn respond(&self, request: ModelRequest) -> ReplyStream {
        let model = self.current();
        let name = model.facts().name;
        Box::pin(model.respond(request).map(move |part| {
            part.map(|part| match part {
                ReplyPart::Done(mut reply) => {
                    // Who answered must show in the result, also where the provider does not say it.
                    reply.model.get_or_insert_with(|| name.clone());
                    ReplyPart::Done(reply)
                }
                part @ (ReplyPart::Text(_) | ReplyPart::Thinking(_) | ReplyPart::Moved) => part,
            })
        }))
    }

    fn begin(&self) {
        let Place { link, since } = self.turn();
        if link > 0 && since.elapsed() >= STAND_IN_FOR {
            self.move_to(0);
        }
    }

    fn link(&self) -> Option<Link> {
        let place = self.turn().link;
        let model = self.links[place].facts().name;
        Some(Link { place: u32::try_from(place).unwrap_or(u32::MAX), model })
    }

    fn take_up(&self, link: &Link) {
        let is_it = |place: &usize| self.links[*place].facts().name == link.model;
        let place =
            usize::try_from(link.place).ok().filter(|place| *place < self.links.len() && is_it(place));
        if let Some(place) = place.or_else(|| (0..self.links.len()).find(is_it)) {
            self.move_to(place);
        }
    }

    fn stand_in(&self, error: &ModelError) -> Option<ModelFacts> {
        let Place { link, .. } = self.turn();
        let next = self.links.get(link + 1)?;
        if !another_may_help(error.reason) {
            return None;
        }
        self.move_to(link + 1);
        Some(next.facts())
    }
}

/// Whether another model may answer what one could not.
fn another_may_help(reason: FailureReason) -> bool {
    match reason {
        FailureReason::Auth
        | FailureReason::Billing
        | FailureReason::RateLimit
        | FailureReason::Overloaded
        | FailureReason::ServerError
        | FailureReason::Network
        | FailureReason::Timeout
        | FailureReason::ModelNotFound => true,
        // It is the conversation that is at fault, or that is summarised first.
        FailureReason::ContentPolicy | FailureReason::ContextOverflow | FailureReason::BadRequest => false,
    }
}
