//! SHA-256 of a file or of bytes that pass by.

use super::WeightsError;
use super::progress::{Progress, Watch, tell};
use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};
use std::path::Path;

/// Bytes between two words to the watcher.
pub(super) const STRIDE: usize = 1 << 20;

/// Writes what passes through on to `inner` and computes its checksum.
pub(super) struct HashingWriter<W> {
    inner: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> HashingWriter<W> {
    pub(super) fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new(), bytes: 0 }
    }

    /// Bytes that have passed.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The writer and the checksum of everything that passed, in hex.
    pub(super) fn finish(self) -> (W, String) {
        (self.inner, format!("{:x}", self.hash.finalize()))
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The checksum of a file, in hex. `blame` turns a failed read into an error.
pub(super) fn file_digest(
    path: &Path,
    watch: &mut Watch<'_>,
    blame: impl Fn(io::Error) -> WeightsError,
) -> Result<String, WeightsError> {
    let mut file = std::fs::File::open(path).map_err(&blame)?;
    let total = file.metadata().map_err(&blame)?.len();
    let mut hash = HashingWriter::new(io::sink());
    let mut buffer = vec![0; STRIDE];
    loop {
        tell(watch, Progress::Verifying { done: hash.bytes(), total })?;
        match file.read(&mut buffer).map_err(&blame)? {
            0 => return Ok(hash.finish().1),
            read => hash.write_all(&buffer[..read]).map_err(&blame)?,
        }
    }
}
