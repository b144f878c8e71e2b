//! Enters an event into the account: what the world does itself needs no fact to be known.

use super::account::{Account, Gate, Runs};
use legwork_core::child::ChildState;
use legwork_core::ids::ChildId;
use legwork_core::pulse::Pulse;
use legwork_core::time::Moment;
use legwork_engine::book::Event;

impl Account {
    pub(super) fn note(&mut self, event: &Event, now: Moment) {
        match event {
            Event::Parked(child) => {
                if let Some(kid) = self.kid_mut(child).filter(|kid| kid.is_running()) {
                    kid.slot = false;
                }
            }
            Event::Unparked(child) => {
                if self.kid(child).is_some_and(|kid| matches!(kid.row.state, ChildState::Parked { .. })) {
                    self.returning.push_back(child.clone());
                }
            }
            Event::Heard(child, pulse) => self.heard(child, pulse, now),
            Event::Returned(child, _) => self.gone(child),
            Event::Paused => self.turn(Gate::Paused),
            Event::Resumed => self.turn(Gate::Open),
            Event::Released => self.release(now),
            Event::Withdrawn(delegation) => self.withdraw(delegation),
            // The worlds have one process each; what one takes over from another is tried in live ones.
            Event::Dispatch { .. } | Event::Stop { .. } | Event::Tick | Event::Adopted(_) => {}
        }
    }

    /// The runner of `child` is gone, or never came to be.
    fn gone(&mut self, child: &ChildId) {
        self.returning.retain(|returning| returning != child);
        if let Some(kid) = self.kid_mut(child) {
            kid.runner = Runs::Gone;
            kid.slot = false;
            kid.abort_at = None;
        }
    }

    fn heard(&mut self, child: &ChildId, pulse: &Pulse, now: Moment) {
        if let Some(kid) = self.kid_mut(child) {
            if kid.pulse.beat != pulse.beat {
                kid.moved = now;
                kid.warned = false;
            }
            kid.pulse = pulse.clone();
        }
    }

    fn turn(&mut self, gate: Gate) {
        if self.gate != Gate::Released {
            self.gate = gate;
        }
    }

    fn release(&mut self, now: Moment) {
        self.gate = Gate::Released;
        let due = now.after(self.options.stop_grace);
        let kids =
            self.delegations.values_mut().filter(|kept| !kept.withdrawn).flat_map(|kept| &mut kept.children);
        for kid in kids.filter(|kid| kid.is_open() && kid.has_runner() && !kid.is_aborted()) {
            kid.abort_at = Some(kid.abort_at.map_or(due, |earlier| earlier.min(due)));
        }
    }
}
