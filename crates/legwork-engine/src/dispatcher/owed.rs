//! The claims that are to be given back because the caller they were made for did not get them. Another caller of this process
//! may take one up instead; never one that is being given back at that moment.

use legwork_core::ids::ClaimId;
use tokio::sync::oneshot;

/// Claims to give back, which may have been made or not.
#[derive(Default)]
pub(super) struct Owed {
    claims: Vec<ClaimId>,
    /// Those that the round under way gives back.
    leaving: Vec<ClaimId>,
    /// Who wants one of those, and hears when it can be read what became of it.
    wanting: Vec<oneshot::Sender<()>>,
}

impl Owed {
    /// These are to be given back.
    pub(super) fn owe(&mut self, claims: Vec<ClaimId>) {
        self.claims.extend(claims);
    }

    /// The claim is not given back from now on, unless it is under way. Answered when nothing here moves it any more.
    pub(super) fn keep(&mut self, claim: &ClaimId, reply: oneshot::Sender<()>) {
        self.claims.retain(|owed| owed != claim);
        if self.leaving.contains(claim) {
            self.wanting.push(reply);
        } else {
            // A caller that went away owes it again by other means.
            reply.send(()).ok();
        }
    }

    /// A round begins that gives these back.
    pub(super) fn begin(&mut self) -> Vec<ClaimId> {
        self.leaving.clone_from(&self.claims);
        self.leaving.clone()
    }

    /// The round has ended, and these are nobody's here any more.
    pub(super) fn end(&mut self, paid: &[ClaimId]) {
        self.claims.retain(|claim| !paid.contains(claim));
        self.leaving.clear();
        for reply in self.wanting.drain(..) {
            // As above.
            reply.send(()).ok();
        }
    }
}
