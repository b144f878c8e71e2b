//! Which locks this process holds on a file, to see that none was lost.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The POSIX locks of this process on the file at `path`, sorted, without their numbers in the system's list (proc(5),
/// `fdinfo`).
///
/// They are read for each open descriptor, which the system lists under the lock of the file. `/proc/locks` is put together in
/// pieces while others lock and unlock: it may name a lock twice, or leave one out.
///
/// # Panics
/// When the file is not there, or the system does not tell.
pub fn held(path: &Path) -> Vec<String> {
    let place = |told: fs::Metadata| (told.dev(), told.ino());
    let file = place(fs::metadata(path).expect("the file is there"));
    let mut held = Vec::new();
    for descriptor in fs::read_dir("/proc/self/fd").expect("the system lists descriptors") {
        let descriptor = descriptor.expect("the system lists descriptors");
        // Others may close theirs meanwhile.
        if !fs::metadata(descriptor.path()).is_ok_and(|told| place(told) == file) {
            continue;
        }
        held.extend(locks_of(&descriptor.file_name().to_string_lossy()).unwrap_or_default());
    }
    held.sort();
    held
}

fn locks_of(descriptor: &str) -> io::Result<Vec<String>> {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}"))?;
    let locks = told.lines().filter_map(|line| line.strip_prefix("lock:")?.split_once(": "));
    Ok(locks.map(|(_number, lock)| lock.to_owned()).collect())
}
