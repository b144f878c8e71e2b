//! How a model's window is shared out: room for the reply, the size from which earlier messages are summarised, and what a
//! summary leaves.

/// Of the window, what is kept free for the reply: this share of it, but not more than so many tokens.
const REPLY_PART: u64 = 8;
const REPLY_TOKENS_MAX: u64 = 8192;
/// Of the rest, the percentage from which on earlier messages are summarised.
const FULL_PERCENT: u64 = 80;
/// Of the window, the percentage that the last messages keep when the others are summarised; the same again is the most
/// that one message is shown with, once one is larger than the window.
const KEPT_PERCENT: u64 = 30;
/// The same when that was not enough.
const KEPT_PERCENT_HARD: u64 = 10;
/// Of the window, the percentage for the text of a summary; the same again is for what is added to it from the store.
const SUMMARY_PERCENT: u64 = 10;
const SUMMARY_TOKENS_MAX: u64 = 4000;
/// After a request that the provider found too large, the window is taken for this percentage of it.
const OVERFLOW_PERCENT: u64 = 75;

/// How hard a context is pressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Press {
    /// Every message is shown whole.
    #[default]
    Whole,
    /// No message is shown with more than its share.
    Shared,
    /// That was not enough.
    Hard,
}

/// A window of so many tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) tokens: u64,
    /// The size from which on earlier messages are summarised although there is room for more.
    pub(super) cap: Option<u64>,
}

impl Window {
    /// For a model that takes any request. Small enough for percentages to be taken of it.
    pub(super) const BOUNDLESS: Window = Window { tokens: u64::MAX / 1000, cap: None };

    /// The most that a request may have.
    pub(super) fn usable(self) -> u64 {
        self.tokens.saturating_sub((self.tokens / REPLY_PART).min(REPLY_TOKENS_MAX))
    }

    /// A request with more than this makes earlier messages be summarised.
    pub(super) fn full(self) -> u64 {
        let full = self.usable() * FULL_PERCENT / 100;
        self.cap.map_or(full, |cap| full.min(cap))
    }

    /// What shares are taken of: with a cap, the window that would be full at it.
    fn shared(self) -> u64 {
        self.cap.map_or(self.tokens, |cap| self.tokens.min(cap.saturating_mul(100) / FULL_PERCENT))
    }

    /// What the last messages may keep, and what one message is shown with at most unless it is shown whole.
    pub(super) fn kept(self, press: Press) -> u64 {
        let percent = match press {
            Press::Whole | Press::Shared => KEPT_PERCENT,
            Press::Hard => KEPT_PERCENT_HARD,
        };
        self.shared() * percent / 100
    }

    /// What the text of a summary may have.
    pub(super) fn summary(self) -> u64 {
        (self.shared() * SUMMARY_PERCENT / 100).min(SUMMARY_TOKENS_MAX)
    }

    /// The window as it must be after a request of so many tokens did not fit.
    pub(super) fn overflowed(self, tokens: u64) -> Window {
        Window { tokens: self.tokens.min(tokens) * OVERFLOW_PERCENT / 100, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_07_cfg_12_a_cap_makes_a_window_full_earlier_and_never_later() {
        let of = |tokens, cap| Window { tokens, cap };
        assert_eq!(of(128_000, Some(16_000)).full(), 16_000);
        assert_eq!(of(128_000, Some(16_000)).usable(), of(128_000, None).usable());
        assert_eq!(of(8_000, Some(16_000)), Window { cap: Some(16_000), ..of(8_000, None) });
        assert_eq!(of(8_000, Some(16_000)).full(), of(8_000, None).full());
        for press in [Press::Whole, Press::Hard] {
            let kept = of(1_000_000, Some(16_000)).kept(press);
            assert!(kept < 16_000 / 2, "what is kept leaves room below the cap: {kept}");
        }
    }
}
