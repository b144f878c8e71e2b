//! The network itself: a Llama of the size of SmolLM2.
//!
//! Owns the weights and the order of the layers. It holds no conversation: what it has seen comes in with each call.

use super::attention::{Attention, Heads};
use super::cache::Cache;
use super::file::ModelFile;
use super::kernel::LANES;
use super::linear::{Activations, Matrix};
use super::{EngineError, kernel};

/// Tokens of one prompt and its reply together.
pub const WINDOW: usize = 2048;

/// The weights.
pub(super) struct Network {
    embedding: Matrix,
    layers: Vec<Layer>,
    norm: Norm,
    /// Absent where the embedding serves for the output too.
    output: Option<Matrix>,
    rotation: Rotation,
    heads: Heads,
}

struct Layer {
    attention_norm: Norm,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    merge: Matrix,
    feed_norm: Norm,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

impl Network {
    /// Reads all weights into memory.
    ///
    /// # Errors
    /// When the file cannot be read, is no Llama, or is not stored in Q8_0.
    pub(super) fn load(file: &mut ModelFile) -> Result<Self, EngineError> {
        let architecture = file.text("general.architecture")?;
        if architecture != "llama" {
            return Err(EngineError::Unsupported(format!("its architecture is {architecture}")));
        }
        let queries = file.count("llama.attention.head_count")?;
        let stored = file.count("llama.attention.head_count_kv")?;
        let width = file.count("llama.embedding_length")?;
        if queries == 0
            || stored == 0
            || !queries.is_multiple_of(stored)
            || !width.is_multiple_of(queries * LANES)
        {
            return Err(EngineError::Unsupported("its heads do not divide its width".to_owned()));
        }
        let heads = Heads { queries, stored, size: width / queries };
        let epsilon = file.number("llama.attention.layer_norm_rms_epsilon")?;
        let layers = file.count("llama.block_count")?;
        let network = Self {
            embedding: file.matrix("token_embd.weight")?,
            layers: (0..layers).map(|index| Layer::load(file, index, epsilon)).collect::<Result<_, _>>()?,
            norm: Norm::load(file, "output_norm.weight", epsilon)?,
            output: file.has("output.weight").then(|| file.matrix("output.weight")).transpose()?,
            rotation: Rotation::new(heads.size, file.number("llama.rope.freq_base").unwrap_or(10_000.0)),
            heads,
        };
        network.check()
    }

    /// Sizes that do not fit together would be found only in the middle of an answer.
    fn check(self) -> Result<Self, EngineError> {
        let width = self.embedding.cols();
        let stored = self.heads.stored_width();
        let fits = |matrix: &Matrix, rows: usize, cols: usize| matrix.rows() == rows && matrix.cols() == cols;
        let layer_fits = |layer: &Layer| {
            let inner = layer.gate.rows();
            fits(&layer.query, width, width)
                && fits(&layer.key, stored, width)
                && fits(&layer.value, stored, width)
                && fits(&layer.merge, width, width)
                && fits(&layer.gate, inner, width)
                && fits(&layer.up, inner, width)
                && fits(&layer.down, width, inner)
                && layer.attention_norm.weights.len() == width
                && layer.feed_norm.weights.len() == width
        };
        let output = self.output.as_ref().unwrap_or(&self.embedding);
        let whole =
            self.heads.query_width() == width && output.cols() == width && self.norm.weights.len() == width;
        if whole && self.layers.iter().all(layer_fits) {
            Ok(self)
        } else {
            Err(EngineError::Unsupported("its matrices do not fit together".to_owned()))
        }
    }

    /// How many different tokens there are.
    pub(super) fn tokens(&self) -> usize {
        self.embedding.rows()
    }

    /// An empty memory for one conversation.
    pub(super) fn new_cache(&self) -> Cache {
        Cache::new(self.layers.len(), self.heads.stored_width())
    }

    /// Reads `tokens` as the continuation of what `cache` remembers and adds them to it.
    pub(super) fn read(&self, tokens: &[u32], cache: &mut Cache) -> Seen {
        let width = self.embedding.cols();
        let start = cache.len();
        assert!(start + tokens.len() <= WINDOW, "BUG: more tokens than the window holds");
        let mut state = vec![0.0; tokens.len() * width];
        for (token, row) in tokens.iter().zip(state.chunks_exact_mut(width)) {
            self.embedding.row_into(*token as usize, row);
        }
        for (index, layer) in self.layers.iter().enumerate() {
            self.attend(layer, index, &mut state, cache);
            layer.feed(&mut state);
        }
        cache.advance(tokens);
        Seen { last: state.split_off(state.len() - width) }
    }

    /// How likely each token is to come next, as unscaled numbers.
    pub(super) fn next(&self, seen: Seen) -> Vec<f32> {
        let output = self.output.as_ref().unwrap_or(&self.embedding);
        output.multiply(&self.norm.apply(&seen.last))
    }

    fn attend(&self, layer: &Layer, index: usize, state: &mut [f32], cache: &mut Cache) {
        let start = cache.len();
        let input = layer.attention_norm.apply(state);
        let mut queries = layer.query.multiply(&input);
        let mut keys = layer.key.multiply(&input);
        self.rotation.apply(&mut queries, self.heads.query_width(), start);
        self.rotation.apply(&mut keys, self.heads.stored_width(), start);
        let memory = cache.layer(index);
        memory.keys.extend_from_slice(&keys);
        memory.values.extend_from_slice(&layer.value.multiply(&input));
        let mut out = vec![0.0; queries.len()];
        kernel::run(Attention { heads: self.heads, queries: &queries, memory, out: &mut out });
        add(state, &layer.merge.multiply(&Activations::quantize(&out, layer.merge.cols())));
    }
}

/// What the network makes of the last token it read.
pub(super) struct Seen {
    last: Vec<f32>,
}

impl Layer {
    fn load(file: &mut ModelFile, index: usize, epsilon: f32) -> Result<Self, EngineError> {
        let name = |part: &str| format!("blk.{index}.{part}.weight");
        Ok(Self {
            attention_norm: Norm::load(file, &name("attn_norm"), epsilon)?,
            query: file.matrix(&name("attn_q"))?,
            key: file.matrix(&name("attn_k"))?,
            value: file.matrix(&name("attn_v"))?,
            merge: file.matrix(&name("attn_output"))?,
            feed_norm: Norm::load(file, &name("ffn_norm"), epsilon)?,
            gate: file.matrix(&name("ffn_gate"))?,
            up: file.matrix(&name("ffn_up"))?,
            down: file.matrix(&name("ffn_down"))?,
        })
    }

    fn feed(&self, state: &mut [f32]) {
        let input = self.feed_norm.apply(state);
        let mut inner = self.gate.multiply(&input);
        for (gate, up) in inner.iter_mut().zip(self.up.multiply(&input)) {
            *gate = *gate / (1.0 + (-*gate).exp()) * up;
        }
        add(state, &self.down.multiply(&Activations::quantize(&inner, self.down.cols())));
    }
}

/// Division by the root of the mean square.
struct Norm {
    weights: Vec<f32>,
    epsilon: f32,
}

impl Norm {
    fn load(file: &mut ModelFile, name: &str, epsilon: f32) -> Result<Self, EngineError> {
        Ok(Self { weights: file.vector(name)?, epsilon })
    }

    /// Normalises every row and rounds it for the multiplication that follows.
    fn apply(&self, state: &[f32]) -> Activations {
        let width = self.weights.len();
        let mut out = Vec::with_capacity(state.len());
        for row in state.chunks_exact(width) {
            let mean = row.iter().map(|value| value * value).sum::<f32>() / width as f32;
            let factor = 1.0 / (mean + self.epsilon).sqrt();
            out.extend(row.iter().zip(&self.weights).map(|(value, weight)| value * factor * weight));
        }
        Activations::quantize(&out, width)
    }
}

/// The turn of each pair of numbers that tells the network where a token stands.
struct Rotation {
    /// `[position][pair]`: sine and cosine.
    turns: Vec<(f32, f32)>,
    pairs: usize,
}

impl Rotation {
    fn new(size: usize, base: f32) -> Self {
        let pairs = size / 2;
        let angle =
            |position: usize, pair: usize| position as f32 / base.powf(2.0 * pair as f32 / size as f32);
        let turns = (0..WINDOW * pairs).map(|index| angle(index / pairs, index % pairs).sin_cos()).collect();
        Self { turns, pairs }
    }

    fn apply(&self, rows: &mut [f32], width: usize, start: usize) {
        for (offset, row) in rows.chunks_exact_mut(width).enumerate() {
            let turns = &self.turns[(start + offset) * self.pairs..(start + offset + 1) * self.pairs];
            for head in row.chunks_exact_mut(2 * self.pairs) {
                for (pair, (sin, cos)) in head.as_chunks_mut::<2>().0.iter_mut().zip(turns) {
                    *pair = [pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos];
                }
            }
        }
    }
}

fn add(state: &mut [f32], change: &[f32]) {
    for (state, change) in state.iter_mut().zip(change) {
        *state += change;
    }
}
