//! Attention of new tokens over everything seen so far.
//!
//! Owns that one step of a layer. The rows are already rotated and stored when it begins.

use super::cache::LayerCache;
use super::kernel::{Kernel, Work};

/// How the rows are divided among heads.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    /// Heads that ask.
    pub(super) queries: usize,
    /// Heads that are asked; each serves `queries / stored` of the others.
    pub(super) stored: usize,
    /// Numbers of one head.
    pub(super) size: usize,
}

impl Heads {
    /// Numbers of one query row.
    pub(super) fn query_width(self) -> usize {
        self.queries * self.size
    }

    /// Numbers of one key or value row.
    pub(super) fn stored_width(self) -> usize {
        self.stored * self.size
    }
}

/// One layer's attention, ready to run.
pub(super) struct Attention<'a> {
    pub(super) heads: Heads,
    /// A row for every new token.
    pub(super) queries: &'a [f32],
    /// The rows of all tokens, the new ones last.
    pub(super) memory: &'a LayerCache,
    /// As large as `queries`, zero at the start.
    pub(super) out: &'a mut [f32],
}

impl Work for Attention<'_> {
    // Loops instead of closures: a closure is a function of its own, which would not get the kernel's instructions.
    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) {
        let Self { heads, queries, memory, out } = self;
        let width = heads.query_width();
        let seen = memory.keys.len() / heads.stored_width() - queries.len() / width;
        let mut scores = vec![0.0; memory.keys.len() / heads.stored_width()];
        for place in 0..queries.len() / heads.size {
            let (token, head) = (place / heads.queries, place % heads.queries);
            let start = head * heads.stored / heads.queries * heads.size;
            let rows = Rows { stride: heads.stored_width(), start, size: heads.size };
            let scores = &mut scores[..seen + token + 1];
            let part = place * heads.size..(place + 1) * heads.size;
            weigh(kernel, &queries[part.clone()], (&memory.keys, rows), scores);
            mix(kernel, scores, (&memory.values, rows), &mut out[part]);
        }
    }
}

/// Where one head's part of the stored rows is.
#[derive(Clone, Copy)]
struct Rows {
    stride: usize,
    start: usize,
    size: usize,
}

impl Rows {
    #[inline(always)]
    fn row(self, data: &[f32], index: usize) -> &[f32] {
        let start = index * self.stride + self.start;
        &data[start..start + self.size]
    }
}

/// How much each stored row matters to the query; the weights sum to one.
#[inline(always)]
fn weigh<K: Kernel>(kernel: K, query: &[f32], (keys, rows): (&[f32], Rows), scores: &mut [f32]) {
    let scale = 1.0 / (query.len() as f32).sqrt();
    let mut largest = f32::NEG_INFINITY;
    for (index, score) in scores.iter_mut().enumerate() {
        *score = kernel.dot(query, rows.row(keys, index)) * scale;
        largest = largest.max(*score);
    }
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
        sum += *score;
    }
    for score in scores.iter_mut() {
        *score /= sum;
    }
}

/// Adds up the stored rows by their weights.
#[inline(always)]
fn mix<K: Kernel>(kernel: K, scores: &[f32], (values, rows): (&[f32], Rows), out: &mut [f32]) {
    for (index, score) in scores.iter().enumerate() {
        kernel.add_scaled(out, *score, rows.row(values, index));
    }
}
