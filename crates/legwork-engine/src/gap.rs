//! Gaps between tries of something that keeps failing: each is twice the one before, up to a longest. It knows nothing
//! of what fails and does not wait itself.

use std::time::Duration;

/// The gaps of one thing that is tried again and again.
#[derive(Debug, Clone)]
pub struct Gaps {
    first: Duration,
    longest: Duration,
    next: Duration,
    /// Failures since the last success.
    failures: u32,
}

impl Gaps {
    /// Gaps from `first`, doubled up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Gaps { first, longest, next: first, failures: 0 }
    }

    /// It failed once more: how long to leave it alone.
    pub fn widen(&mut self) -> Duration {
        let gap = self.next;
        self.next = (self.next * 2).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        gap
    }

    /// It worked. Answers whether it had failed before.
    pub fn close(&mut self) -> bool {
        let had_failed = self.failures > 0;
        self.next = self.first;
        self.failures = 0;
        had_failed
    }

    /// Whether it works, as far as is known.
    pub fn is_closed(&self) -> bool {
        self.failures == 0
    }

    /// Whether the next gap is as long as gaps get.
    pub fn is_longest(&self) -> bool {
        self.next >= self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k35_gaps_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let mut gaps = Gaps::new(Duration::from_millis(100), Duration::from_millis(350));
        let widened: Vec<u128> = (0..4).map(|_| gaps.widen().as_millis()).collect();
        assert_eq!(widened, [100, 200, 350, 350]);
        assert!(gaps.is_longest() && !gaps.is_closed());
        assert!(gaps.close(), "it had failed");
        assert!(!gaps.close(), "it has not failed since");
        assert_eq!(gaps.widen(), Duration::from_millis(100));
    }
}
