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
    #[inline(always)]
    fn run<K: Kernel>(self, _kernel: K) {
        let Self { heads, queries, memory, out } = self;
        let width = heads.query_width();
        let seen = memory.keys.len() / heads.stored_width() - queries.len() / width;
        let mut scores = Vec::with_capacity(memory.keys.len() / heads.stored_width());
        for (token, (queries, out)) in
            queries.chunks_exact(width).zip(out.chunks_exact_mut(width)).enumerate()
        {
            for (head, (query, out)) in
                queries.chunks_exact(heads.size).zip(out.chunks_exact_mut(heads.size)).enumerate()
            {
                let start = head * heads.stored / heads.queries * heads.size;
                let rows =
                    Rows { stride: heads.stored_width(), start, size: heads.size, len: seen + token + 1 };
                weigh(query, &memory.keys, rows, &mut scores);
                mix(&scores, &memory.values, rows, out);
            }
        }
    }
}

/// One head's part of the stored rows.
#[derive(Clone, Copy)]
struct Rows {
    stride: usize,
    start: usize,
    size: usize,
    len: usize,
}

impl Rows {
    #[inline(always)]
    fn of(self, data: &[f32]) -> impl Iterator<Item = &[f32]> {
        data.chunks_exact(self.stride).take(self.len).map(move |row| &row[self.start..self.start + self.size])
    }
}

/// How much each stored row matters to the query; the weights sum to one.
#[inline(always)]
fn weigh(query: &[f32], keys: &[f32], rows: Rows, scores: &mut Vec<f32>) {
    let scale = 1.0 / (rows.size as f32).sqrt();
    scores.clear();
    scores.extend(rows.of(keys).map(|key| dot(query, key) * scale));
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
        sum += *score;
    }
    for score in scores.iter_mut() {
        *score /= sum;
    }
}

#[inline(always)]
fn mix(scores: &[f32], values: &[f32], rows: Rows, out: &mut [f32]) {
    for (score, value) in scores.iter().zip(rows.of(values)) {
        for (out, value) in out.iter_mut().zip(value) {
            *out += score * value;
        }
    }
}

/// Sixteen sums side by side, because the compiler may not reorder the additions of one.
#[inline(always)]
fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 16];
    for (left, right) in left.as_chunks::<16>().0.iter().zip(right.as_chunks::<16>().0) {
        for lane in 0..16 {
            lanes[lane] += left[lane] * right[lane];
        }
    }
    lanes.iter().sum()
}
