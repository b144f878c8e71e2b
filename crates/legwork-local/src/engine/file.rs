//! A model file in GGUF form.
//!
//! Owns reading it and nothing more: what the tensors mean is the network's business.

use super::EngineError;
use super::linear::Matrix;
use candle_core::Device;
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// An open model file.
pub(super) struct ModelFile {
    content: Content,
    reader: BufReader<File>,
}

impl ModelFile {
    pub(super) fn open(path: &Path) -> Result<Self, EngineError> {
        let file =
            File::open(path).map_err(|error| EngineError::Read(format!("{}: {error}", path.display())))?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let content = Content::read(&mut reader).map_err(read_error)?;
        Ok(Self { content, reader })
    }

    /// The header, for the vocabulary.
    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    pub(super) fn has(&self, tensor: &str) -> bool {
        self.content.tensor_infos.contains_key(tensor)
    }

    pub(super) fn text(&self, key: &str) -> Result<&str, EngineError> {
        self.value(key)?.to_string().map(String::as_str).map_err(read_error)
    }

    pub(super) fn count(&self, key: &str) -> Result<usize, EngineError> {
        self.value(key)?.to_u32().map(|number| number as usize).map_err(read_error)
    }

    pub(super) fn number(&self, key: &str) -> Result<f32, EngineError> {
        self.value(key)?.to_f32().map_err(read_error)
    }

    /// A list of whole numbers.
    pub(super) fn list(&self, key: &str) -> Result<Vec<u32>, EngineError> {
        let values = self.value(key)?.to_vec().map_err(read_error)?;
        values
            .iter()
            .map(|value| {
                whole(value).ok_or_else(|| EngineError::Read(format!("{key} is no list of numbers")))
            })
            .collect()
    }

    fn value(&self, key: &str) -> Result<&Value, EngineError> {
        self.content.metadata.get(key).ok_or_else(|| EngineError::Unsupported(format!("it has no {key}")))
    }

    /// A weight matrix; it must be stored as Q8_0.
    pub(super) fn matrix(&mut self, name: &str) -> Result<Matrix, EngineError> {
        let tensor = self.tensor(name)?;
        if tensor.dtype() != GgmlDType::Q8_0 {
            return Err(EngineError::Unsupported(format!("{name} is not stored as Q8_0")));
        }
        let (rows, cols) = tensor.shape().dims2().map_err(read_error)?;
        Matrix::pack(rows, cols, &tensor.data().map_err(read_error)?)
    }

    /// A vector of plain numbers.
    pub(super) fn vector(&mut self, name: &str) -> Result<Vec<f32>, EngineError> {
        let tensor = self.tensor(name)?.dequantize(&Device::Cpu).map_err(read_error)?;
        tensor.flatten_all().and_then(|flat| flat.to_vec1()).map_err(read_error)
    }

    fn tensor(&mut self, name: &str) -> Result<QTensor, EngineError> {
        self.content.tensor(&mut self.reader, name, &Device::Cpu).map_err(read_error)
    }
}

/// The library's own words; where backtraces are asked for it adds one, which is nothing for the message.
pub(super) fn read_error(error: impl std::fmt::Display) -> EngineError {
    EngineError::Read(error.to_string().lines().next().unwrap_or_default().to_owned())
}

fn whole(value: &Value) -> Option<u32> {
    match value {
        Value::U32(number) => Some(*number),
        Value::I32(number) => u32::try_from(*number).ok(),
        _ => None,
    }
}
