//! What the network remembers of the tokens it has seen, so that a longer prompt costs only its new part.
//!
//! Owns one conversation's keys and values. It does not decide which conversation gets which cache.

/// Keys and values of one layer, a row for every token.
#[derive(Clone, Default)]
pub(super) struct LayerCache {
    pub(super) keys: Vec<f32>,
    pub(super) values: Vec<f32>,
}

/// The memory of one conversation.
#[derive(Clone)]
pub(super) struct Cache {
    /// The tokens that the rows belong to.
    tokens: Vec<u32>,
    layers: Vec<LayerCache>,
    /// Numbers of one row.
    width: usize,
}

impl Cache {
    pub(super) fn new(layers: usize, width: usize) -> Self {
        Self { tokens: Vec::new(), layers: vec![LayerCache::default(); layers], width }
    }

    /// Tokens remembered.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// How many tokens at the start are the same as in `tokens`.
    pub(super) fn common_prefix(&self, tokens: &[u32]) -> usize {
        self.tokens.iter().zip(tokens).take_while(|(ours, theirs)| ours == theirs).count()
    }

    /// Forgets everything after the first `len` tokens.
    pub(super) fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
        for layer in &mut self.layers {
            layer.keys.truncate(len * self.width);
            layer.values.truncate(len * self.width);
        }
    }

    /// A new memory that knows the first `len` tokens of this one.
    pub(super) fn fork(&self, len: usize) -> Self {
        let rows = len * self.width;
        let layers = self.layers.iter();
        Self {
            tokens: self.tokens[..len].to_vec(),
            layers: layers
                .map(|layer| LayerCache {
                    keys: layer.keys[..rows].to_vec(),
                    values: layer.values[..rows].to_vec(),
                })
                .collect(),
            width: self.width,
        }
    }

    /// The memory of one layer.
    pub(super) fn layer(&mut self, layer: usize) -> &mut LayerCache {
        &mut self.layers[layer]
    }

    /// Notes that every layer has stored rows for these tokens.
    pub(super) fn advance(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache_of(tokens: &[u32]) -> Cache {
        let mut cache = Cache::new(2, 1);
        for layer in 0..2 {
            let rows = tokens.iter().map(|token| *token as f32);
            cache.layer(layer).keys.extend(rows.clone());
            cache.layer(layer).values.extend(rows);
        }
        cache.advance(tokens);
        cache
    }

    #[test]
    fn a_fork_knows_the_shared_prefix_only() {
        let mut fork = cache_of(&[7, 8, 9]).fork(2);
        assert_eq!((fork.len(), fork.layer(1).keys.as_slice()), (2, [7.0, 8.0].as_slice()));
    }

    #[test]
    fn truncating_forgets_tokens_and_rows_alike() {
        let mut cache = cache_of(&[7, 8, 9]);
        cache.truncate(cache.common_prefix(&[7, 1, 9]));
        assert_eq!((cache.len(), cache.layer(0).values.as_slice()), (1, [7.0].as_slice()));
    }
}
