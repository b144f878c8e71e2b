//! Seeded chance. It is ours and small, so that a seed means the same world on every machine and in every version.

/// A sequence of numbers that only its seed decides.
#[derive(Debug, Clone)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Chance { state: seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(0x9e37_79b9_7f4a_7c15) }
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        // A counter through a mixing function: every state has one successor and no two states share one.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, not including, `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.bits() % limit).expect("a number below a usize is one")
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// `true` once in `n` times; never when `n` is 0.
    pub fn once_in(&mut self, n: usize) -> bool {
        n != 0 && self.below(n) == 0
    }

    /// One of `choices`, which are not empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::Chance;

    #[test]
    fn a_seed_always_means_the_same_and_another_seed_something_else() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (0..8).map(|_| chance.bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_ne!(draw(0), draw(1));
    }

    #[test]
    fn draws_stay_within_their_bounds_and_meet_both_ends() {
        let mut chance = Chance::new(1);
        let draws: Vec<usize> = (0..500).map(|_| chance.between(3, 6)).collect();
        assert_eq!((draws.iter().min(), draws.iter().max()), (Some(&3), Some(&6)));
        assert!(!chance.once_in(0) && chance.once_in(1));
    }
}
