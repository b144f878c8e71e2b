//! Moves of runners, each by its own plan.

use crate::worlds::law::Broken;
use crate::worlds::runner::{Act, Mood, Stage};
use crate::worlds::world::World;
use legwork_core::ids::ChildId;
use legwork_core::outcome::Ending;
use legwork_core::report::Report;
use legwork_engine::book::Event;

impl World {
    /// One live runner does what it does next; `false` when there is none, or it has nothing to do.
    pub(super) fn move_some_runner(&mut self, mood: Mood) -> Result<(), Broken> {
        let live: Vec<ChildId> = self.runners.keys().cloned().collect();
        if live.is_empty() {
            return Ok(());
        }
        let child = self.chance.pick(&live).clone();
        self.move_runner(&child, mood).map(|_| ())
    }

    /// Lets one runner act; says whether it did anything.
    pub(in crate::worlds) fn move_runner(&mut self, child: &ChildId, mood: Mood) -> Result<bool, Broken> {
        let Some(runner) = self.runners.get_mut(child) else { return Ok(false) };
        let joined = match &runner.stage {
            Stage::Joining(delegation) => {
                let withdrawn = self.account.delegations.get(delegation).is_none_or(|kept| kept.withdrawn);
                self.joined.contains(delegation) || withdrawn
            }
            Stage::Working | Stage::Calling(_) | Stage::Called(_) | Stage::Returning => false,
        };
        match runner.act(mood, joined, &mut self.chance) {
            Act::Nothing => return Ok(false),
            Act::Beat => {
                runner.beat(&mut self.chance);
                if self.chance.once_in(3) {
                    self.hear(child)?;
                }
            }
            Act::End(ending) => self.end(child, ending)?,
            Act::Call => self.call_from(child)?,
            Act::Park(delegation) => {
                runner.stage = Stage::Joining(delegation);
                self.figures.parked += 1;
                self.step(Event::Parked(child.clone()))?;
            }
            Act::Join => {
                runner.stage = Stage::Returning;
                self.step(Event::Unparked(child.clone()))?;
            }
        }
        Ok(true)
    }

    fn end(&mut self, child: &ChildId, ending: Ending) -> Result<(), Broken> {
        self.hear(child)?;
        self.runners.remove(child);
        self.step(Event::Returned(child.clone(), Box::new(Report::bare(ending))))
    }

    pub(super) fn hear(&mut self, child: &ChildId) -> Result<(), Broken> {
        let Some(runner) = self.runners.get(child) else { return Ok(()) };
        let pulse = runner.pulse.clone();
        self.step(Event::Heard(child.clone(), pulse))
    }
}
