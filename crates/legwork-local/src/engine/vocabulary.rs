//! The tokens of the model and the way from text to them and back.
//!
//! Owns the tokenizer of the model file. Text never becomes a control token: those are asked for by name.

use super::EngineError;
use super::file::{ModelFile, read_error};
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use std::collections::HashMap;
use std::sync::Arc;
use tokenizers::Tokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use toktrie::{TokRxInfo, TokTrie, TokenizerEnv};

/// The kind that the file gives to tokens that are no text.
const CONTROL: u32 = 3;
/// Ways to split a text into words that the library knows by itself.
const KNOWN_SPLITS: [&str; 4] = ["qwen2", "llama3", "smaug-bpe", "lfm2"];

/// Text to tokens and back. Cheap to share.
pub struct Vocabulary {
    tokenizer: Tokenizer,
    /// What each token stands for; control tokens begin with the marker of the trie.
    bytes: Vec<Vec<u8>>,
    trie: TokTrie,
    turn_start: u32,
    turn_end: u32,
}

impl Vocabulary {
    /// Reads the vocabulary of a model file.
    ///
    /// # Errors
    /// When the file has no byte-level vocabulary or lacks the two tokens that enclose a turn.
    pub(super) fn load(file: &ModelFile) -> Result<Self, EngineError> {
        let mut tokenizer = Tokenizer::from_gguf(file.content()).map_err(read_error)?;
        if !KNOWN_SPLITS.contains(&file.text("tokenizer.ggml.pre").unwrap_or_default()) {
            // The library takes SmolLM for GPT-2; it splits every digit and puts no space before the text.
            let split: Vec<_> = vec![Digits::new(true).into(), ByteLevel::new(false, true, true).into()];
            tokenizer.with_pre_tokenizer(Some(Sequence::new(split)));
        }
        tokenizer.set_encode_special_tokens(true);
        let bytes = token_bytes(file, &tokenizer)?;
        let control = |name: &str| {
            tokenizer
                .token_to_id(name)
                .ok_or_else(|| EngineError::Unsupported(format!("it has no token {name}")))
        };
        let (turn_start, turn_end) = (control("<|im_start|>")?, control("<|im_end|>")?);
        let size = u32::try_from(bytes.len()).map_err(read_error)?;
        let trie = TokTrie::from(&TokRxInfo::new(size, turn_end), &bytes);
        Ok(Self { tokenizer, bytes, trie, turn_start, turn_end })
    }

    /// The tokens of a text. Whatever the text says, none of them is a control token.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match self.tokenizer.encode_fast(text, false) {
            Ok(encoding) => encoding.get_ids().to_vec(),
            // The library refuses nothing that a byte-level vocabulary can hold; should it, the slow way is as good.
            Err(_) => self.trie.greedy_tokenize(text.as_bytes()),
        }
    }

    /// The bytes that a token stands for; none for a control token.
    pub fn decode(&self, token: u32) -> &[u8] {
        match self.bytes.get(token as usize) {
            Some(bytes) if bytes.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER) => bytes,
            Some(_) | None => &[],
        }
    }

    /// The token that begins a turn.
    pub fn turn_start(&self) -> u32 {
        self.turn_start
    }

    /// The token that ends a turn.
    pub fn turn_end(&self) -> u32 {
        self.turn_end
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// The face that the grammar library asks for.
pub(super) struct GrammarVocabulary(pub(super) Arc<Vocabulary>);

impl TokenizerEnv for GrammarVocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.0.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.0.encode(text),
            Err(_) => self.0.trie.greedy_tokenize(bytes),
        }
    }
}

fn token_bytes(file: &ModelFile, tokenizer: &Tokenizer) -> Result<Vec<Vec<u8>>, EngineError> {
    let kinds = file.list("tokenizer.ggml.token_type")?;
    let letters = byte_letters();
    let size = u32::try_from(kinds.len()).map_err(read_error)?;
    let tokens = (0..size).zip(kinds).map(|(id, kind)| {
        let name = tokenizer.id_to_token(id).unwrap_or_default();
        if kind == CONTROL {
            return Ok([&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat());
        }
        let bytes = name.chars().map(|letter| letters.get(&letter).copied()).collect::<Option<Vec<u8>>>();
        bytes.ok_or_else(|| EngineError::Unsupported(format!("its token {id} is not made of bytes")))
    });
    tokens.collect()
}

/// Byte-level vocabularies write every byte as one printable letter: itself where it is printable, else one of the
/// letters from U+0100 on.
fn byte_letters() -> HashMap<char, u8> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let own = (0..=u8::MAX).filter(|byte| printable(*byte)).map(|byte| (char::from(byte), byte));
    let others =
        (0..=u8::MAX).filter(|byte| !printable(*byte)).zip('\u{100}'..).map(|(byte, letter)| (letter, byte));
    own.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_letter_of_its_own() {
        let letters = byte_letters();
        assert_eq!(letters.len(), 256);
        assert_eq!(
            (letters.get(&'Ġ'), letters.get(&'Ċ'), letters.get(&'a')),
            (Some(&b' '), Some(&b'\n'), Some(&b'a'))
        );
    }
}
