//! How hard a model is asked to think, and how that is said to one that knows other levels, or budgets, or nothing of the
//! kind.

use rig_core::completion::{Effort, Reasoning};

/// How hard a model is asked to think.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReasoningEffort {
    /// The most there is.
    Ultra,
    /// Almost the most.
    Max,
    /// Very high.
    Xhigh,
    /// High.
    High,
    /// The middle.
    #[default]
    Medium,
    /// Low.
    Low,
    /// The least that still thinks.
    Minimal,
    /// Not at all.
    None,
}

/// Budgets, in tokens, for models that have no levels: the first that a model takes.
const BUDGETS_HIGH: &[u32] = &[24_576, 16_384, 8_192, 4_096, 2_048, 1_024];
const BUDGETS_MEDIUM: &[u32] = &[8_192, 4_096, 2_048, 1_024];
const BUDGETS_LOW: &[u32] = &[2_048, 1_024];

impl ReasoningEffort {
    /// Every value, in order.
    pub const ALL: &[ReasoningEffort] = &[
        ReasoningEffort::Ultra,
        ReasoningEffort::Max,
        ReasoningEffort::Xhigh,
        ReasoningEffort::High,
        ReasoningEffort::Medium,
        ReasoningEffort::Low,
        ReasoningEffort::Minimal,
        ReasoningEffort::None,
    ];
    /// The words of [`Self::ALL`], in the same order.
    pub const WORDS: &[&str] = &["ultra", "max", "xhigh", "high", "medium", "low", "minimal", "none"];

    /// The word of this value.
    pub fn word(self) -> &'static str {
        match self {
            ReasoningEffort::Ultra => "ultra",
            ReasoningEffort::Max => "max",
            ReasoningEffort::Xhigh => "xhigh",
            ReasoningEffort::High => "high",
            ReasoningEffort::Medium => "medium",
            ReasoningEffort::Low => "low",
            ReasoningEffort::Minimal => "minimal",
            ReasoningEffort::None => "none",
        }
    }

    /// How it may be said, best first. A model that takes none of these is asked without any.
    pub(super) fn ways(self) -> Vec<Reasoning> {
        let (levels, budgets): (&[Effort], &[u32]) = match self {
            ReasoningEffort::Ultra | ReasoningEffort::Max => {
                (&[Effort::Max, Effort::XHigh, Effort::High], BUDGETS_HIGH)
            }
            ReasoningEffort::Xhigh => (&[Effort::XHigh, Effort::High], BUDGETS_HIGH),
            ReasoningEffort::High => (&[Effort::High], BUDGETS_HIGH),
            ReasoningEffort::Medium => (&[Effort::Medium, Effort::High], BUDGETS_MEDIUM),
            ReasoningEffort::Low => (&[Effort::Low], BUDGETS_LOW),
            ReasoningEffort::Minimal => (&[Effort::Minimal, Effort::Low], BUDGETS_LOW),
            ReasoningEffort::None => {
                return vec![
                    Reasoning::Off,
                    Reasoning::Effort(Effort::Minimal),
                    Reasoning::Effort(Effort::Low),
                ];
            }
        };
        let levels = levels.iter().copied().map(Reasoning::Effort);
        levels.chain(budgets.iter().map(|tokens| Reasoning::Budget { tokens: *tokens })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_values() {
        let words: Vec<&str> = ReasoningEffort::ALL.iter().map(|effort| effort.word()).collect();
        assert_eq!(words, ReasoningEffort::WORDS);
        assert!(ReasoningEffort::ALL.iter().all(|effort| !effort.ways().is_empty()));
    }
}
