//! A model file small enough to make in a test: the real form with random weights. What it says is noise, so whatever
//! holds for it holds for every model.

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use std::fs::File;
use std::path::{Path, PathBuf};

const WIDTH: usize = 64;
const TOKENS: usize = 272;
const CONTROL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

/// Writes the model into `folder`; equal seeds give equal models.
pub(crate) fn write_model(folder: &Path, seed: u64) -> PathBuf {
    let path = folder.join("tiny.gguf");
    let mut noise = Noise(seed);
    let mut tensors = vec![("token_embd.weight".to_owned(), noise.matrix(TOKENS, WIDTH))];
    for (name, rows) in [("attn_q", WIDTH), ("attn_k", 32), ("attn_v", 32), ("attn_output", WIDTH)] {
        tensors.push((format!("blk.0.{name}.weight"), noise.matrix(rows, WIDTH)));
    }
    for (name, rows, cols) in [("ffn_gate", 96, WIDTH), ("ffn_up", 96, WIDTH), ("ffn_down", WIDTH, 96)] {
        tensors.push((format!("blk.0.{name}.weight"), noise.matrix(rows, cols)));
    }
    for name in ["blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"] {
        tensors.push((name.to_owned(), ones()));
    }
    let metadata = metadata();
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    gguf_file::write(&mut File::create(&path).unwrap(), &metadata, &tensors).unwrap();
    path
}

fn metadata() -> Vec<(&'static str, Value)> {
    let letters = (0..=255u8).map(byte_letter);
    let control = CONTROL.into_iter().map(str::to_owned);
    let mut names: Vec<String> = letters.chain(control).collect();
    names.extend((names.len()..TOKENS).map(|number| format!("a{}", "b".repeat(number - 258))));
    let kinds = names.iter().map(|name| Value::I32(if CONTROL.contains(&name.as_str()) { 3 } else { 1 }));
    let kinds = Value::Array(kinds.collect());
    let names = Value::Array(names.into_iter().map(Value::String).collect());
    vec![
        ("general.architecture", Value::String("llama".to_owned())),
        ("llama.attention.head_count", Value::U32(2)),
        ("llama.attention.head_count_kv", Value::U32(1)),
        ("llama.embedding_length", Value::U32(WIDTH as u32)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.block_count", Value::U32(1)),
        ("tokenizer.ggml.model", Value::String("gpt2".to_owned())),
        ("tokenizer.ggml.tokens", names),
        ("tokenizer.ggml.token_type", kinds),
        ("tokenizer.ggml.merges", Value::Array(vec![Value::String("a b".to_owned())])),
    ]
}

/// The letter that byte-level vocabularies write for a byte.
fn byte_letter(byte: u8) -> String {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte).to_string();
    }
    let place = (0..byte).filter(|byte| !printable(*byte)).count() as u32;
    char::from_u32(0x100 + place).unwrap().to_string()
}

fn ones() -> QTensor {
    let ones = Tensor::ones(WIDTH, candle_core::DType::F32, &Device::Cpu).unwrap();
    QTensor::quantize(&ones, GgmlDType::F32).unwrap()
}

/// A linear congruential generator, enough for weights.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u32 << 24) as f32 - 0.5
    }

    fn matrix(&mut self, rows: usize, cols: usize) -> QTensor {
        let numbers: Vec<f32> = (0..rows * cols).map(|_| self.next()).collect();
        let matrix = Tensor::from_vec(numbers, (rows, cols), &Device::Cpu).unwrap();
        QTensor::quantize(&matrix, GgmlDType::Q8_0).unwrap()
    }
}
