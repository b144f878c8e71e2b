//! The one-off conversion of a model file to Q8_0, the only form that the engine computes with.
//!
//! Owns reading the old form and writing the new one. Where the file belongs is decided elsewhere.

use super::WeightsError;
use super::error::cache_error;
use super::progress::{Progress, Watch, tell};
use candle_core::Device;
use candle_core::quantized::gguf_file::{self, Content};
use candle_core::quantized::{GgmlDType, QTensor};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

/// Whether every matrix of the file is in Q8_0 already.
pub(super) fn is_converted(path: &Path) -> Result<bool, WeightsError> {
    let content = open(path)?.0;
    let matrices = content.tensor_infos.values().filter(|info| info.shape.rank() == 2);
    Ok(matrices.into_iter().all(|info| info.ggml_dtype == GgmlDType::Q8_0))
}

/// Writes `source` to `target` with every matrix in Q8_0. `target` is new, and safely on the disk afterwards.
pub(super) fn convert(source: &Path, target: &Path, watch: &mut Watch<'_>) -> Result<(), WeightsError> {
    let (content, mut reader) = open(source)?;
    let total = std::fs::metadata(source).map_err(|error| problem(source)(error.into()))?.len();
    let mut tensors = Vec::with_capacity(content.tensor_infos.len());
    let mut done = 0;
    for name in content.tensor_infos.keys() {
        tell(watch, Progress::Converting { done, total })?;
        let tensor = content.tensor(&mut reader, name, &Device::Cpu).map_err(problem(source))?;
        done += tensor.storage_size_in_bytes() as u64;
        tensors.push((name.as_str(), to_q8(tensor).map_err(problem(source))?));
    }
    tell(watch, Progress::Converting { done: total, total })?;
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
    let metadata: Vec<_> = content.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let file = File::create_new(target).map_err(cache_error(target))?;
    let mut writer = BufWriter::new(file);
    gguf_file::write(&mut writer, &metadata, &tensors).map_err(problem(source))?;
    writer.flush().map_err(cache_error(target))?;
    writer.get_ref().sync_all().map_err(cache_error(target))
}

fn open(path: &Path) -> Result<(Content, BufReader<File>), WeightsError> {
    let file = File::open(path).map_err(|cause| WeightsError::File { path: path.to_owned(), cause })?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let content = Content::read(&mut reader).map_err(problem(path))?;
    Ok((content, reader))
}

fn to_q8(tensor: QTensor) -> candle_core::Result<QTensor> {
    if tensor.shape().rank() != 2 || tensor.dtype() == GgmlDType::Q8_0 {
        return Ok(tensor);
    }
    QTensor::quantize(&tensor.dequantize(&Device::Cpu)?, GgmlDType::Q8_0)
}

/// The library's own words; where backtraces are asked for it adds one, which is nothing for the message.
fn problem(path: &Path) -> impl Fn(candle_core::Error) -> WeightsError {
    move |error| {
        let problem = error.to_string().lines().next().unwrap_or_default().to_owned();
        WeightsError::Convert { path: path.to_owned(), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Tensor;
    use std::ops::ControlFlow;

    fn small_model(path: &Path) {
        let numbers: Vec<f32> = (0..64).map(|number| number as f32 / 64.0).collect();
        let matrix = Tensor::from_vec(numbers.clone(), (2, 32), &Device::Cpu).unwrap();
        let matrix = QTensor::quantize(&matrix, GgmlDType::Q4_1).unwrap();
        let vector = Tensor::from_vec(numbers, 64, &Device::Cpu).unwrap();
        let vector = QTensor::quantize(&vector, GgmlDType::F32).unwrap();
        let name = gguf_file::Value::String("small".to_owned());
        let tensors = [("matrix", &matrix), ("vector", &vector)];
        gguf_file::write(&mut File::create(path).unwrap(), &[("general.name", &name)], &tensors).unwrap();
    }

    #[test]
    fn matrices_become_q8_and_vectors_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        small_model(&old);
        convert(&old, &new, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((is_converted(&old).unwrap(), is_converted(&new).unwrap()), (false, true));
        let (content, mut reader) = open(&new).unwrap();
        assert_eq!(content.tensor_infos["vector"].ggml_dtype, GgmlDType::F32);
        assert_eq!(content.metadata["general.name"].to_string().unwrap(), "small");
        let matrix =
            content.tensor(&mut reader, "matrix", &Device::Cpu).unwrap().dequantize(&Device::Cpu).unwrap();
        let row: Vec<f32> = matrix.get(1).unwrap().to_vec1().unwrap();
        assert!((row[31] - 63.0 / 64.0).abs() < 0.02, "{row:?}");
    }

    #[test]
    fn a_file_that_was_cut_off_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        small_model(&old);
        let bytes = std::fs::read(&old).unwrap();
        std::fs::write(&old, &bytes[..bytes.len() - 80]).unwrap();
        let error = convert(&old, &new, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(error, WeightsError::Convert { .. }), "{error}");
    }
}
