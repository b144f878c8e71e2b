//! The number of children that the calls of one conversation may start in all (TASK-14). It is reserved before a call is
//! accepted and given back when it is not (K17).

use std::sync::atomic::{AtomicU32, Ordering};

/// Counts the children of one conversation.
pub(super) struct Budget {
    max: Option<u32>,
    taken: AtomicU32,
}

impl Budget {
    pub(super) fn new(max: Option<u32>) -> Self {
        Budget { max, taken: AtomicU32::new(0) }
    }

    /// Takes room for `children`, or says how much there is.
    pub(super) fn reserve(&self, children: usize) -> Result<Reserved<'_>, String> {
        let children = u32::try_from(children).unwrap_or(u32::MAX);
        let Some(max) = self.max else { return Ok(Reserved { budget: self, children: 0 }) };
        let grown = |taken: u32| taken.checked_add(children).filter(|total| *total <= max);
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            Ok(_) => Ok(Reserved { budget: self, children }),
            Err(taken) => Err(format!(
                "this one-shot session may start {max} subagents in all (delegation.oneshot_max_children); {taken} were started and this call asks for {children} more. Nothing was started; do the work yourself"
            )),
        }
    }

    /// Counts children that were accepted before, whatever room there is.
    pub(super) fn count(&self, children: usize) {
        let children = u32::try_from(children).unwrap_or(u32::MAX);
        if self.max.is_some() {
            // It never fails: the closure always gives a number.
            self.taken
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                    Some(taken.saturating_add(children))
                })
                .ok();
        }
    }
}

/// Room that is given back unless it is kept.
pub(super) struct Reserved<'a> {
    budget: &'a Budget,
    children: u32,
}

impl Reserved<'_> {
    /// The call was accepted.
    pub(super) fn keep(mut self) {
        self.children = 0;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.children, Ordering::Relaxed);
    }
}
