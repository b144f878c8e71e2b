//! The log beside the database as a process left it that died: whether everything is in it that was committed to it, as its
//! index says (K35).
//!
//! SQLite reads a log up to the first frame that is not whole, and takes what follows for never written. After a death that
//! is right. After damage it would take commits away without a word, and write over them.
//!
//! It changes nothing. A log without an index is left to SQLite: nobody can say how far it went.

use crate::failure;
use crate::files::{self, Identity};
use legwork_core::ports::StoreError;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Bytes of the header of a log, and of one frame's.
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Bytes of one of the two copies of an index's header.
const INDEX_HEADER: usize = 48;
/// Where an index says behind them how many frames were moved into the database, and the end of that.
const MOVED: usize = 2 * INDEX_HEADER;
const READ: usize = MOVED + 4;
/// The version of both formats.
const FORMAT: u32 = 3_007_000;
/// The first word of a log, but for its last bit: that says in which order sums read bytes.
const MAGIC: u32 = 0x377f_0682;
/// The byte of an index that every process with a connection to it holds a lock on.
const USED: libc::off_t = 128;
/// Looks at files that somebody changes meanwhile; then they are in use, and SQLite decides.
const LOOKS: u32 = 2;

/// The files that this process has open, once for each store.
static OPEN: Mutex<Vec<Identity>> = Mutex::new(Vec::new());

/// That this process has a file open.
#[derive(Debug)]
pub(crate) struct Opened(Identity);

impl Opened {
    /// Looks at the log of the file at `path` if nobody has it open, and notes that this process has from now on. Files of a
    /// database are never opened and closed beside its connections: by that a process would lose all its locks on them.
    ///
    /// # Errors
    /// `Corrupt` when a part of what was committed cannot be read; the errors of looking.
    pub(crate) fn after_a_look(path: &Path) -> Result<Opened, StoreError> {
        let identity = Identity::of(path).map_err(|error| failure::of_io(&error, path))?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if !open.contains(&identity) {
            check(path)?;
        }
        open.push(identity);
        Ok(Opened(identity))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = open.iter().position(|identity| *identity == self.0) {
            open.swap_remove(place);
        }
    }
}

fn check(path: &Path) -> Result<(), StoreError> {
    let (log, index) = (files::log_path(path), files::index_path(path));
    let of_index = |error: io::Error| failure::of_io(&error, &index);
    for _look in 0..LOOKS {
        let Some(known) = Known::read(&index).map_err(of_index)? else {
            return Ok(());
        };
        let found = damaged(&log, &known).map_err(|error| failure::of_io(&error, &log))?;
        let Some(frame) = found.filter(|_| files::has_content(path) || files::has_log(path)) else {
            return Ok(());
        };
        // Whoever came meanwhile may have begun the log anew.
        if known.is_used().map_err(of_index)? {
            return Ok(());
        }
        if known.still_stands(&index).map_err(of_index)? {
            return Err(StoreError::Corrupt(format!(
                "{}: {} pages were committed to this log, and those from number {frame} on cannot be read; with a copy \
                 of the folder kept and {} moved away it opens with every commit that is whole",
                log.display(),
                known.frames,
                index.display()
            )));
        }
    }
    Ok(())
}

/// What the index of a log says.
struct Known {
    index: File,
    /// What was read of it.
    bytes: [u8; READ],
    /// Frames that were committed.
    frames: u32,
    /// The first of them that were moved into the database, and stored there.
    moved: u32,
    page: usize,
    /// What the frames of this log are marked with.
    salt: [u8; 8],
}

impl Known {
    /// `None` when there is none that could be believed, or somebody uses it.
    fn read(path: &Path) -> io::Result<Option<Known>> {
        let mut index = match File::open(path) {
            Ok(index) => index,
            // What cannot be read is met by whoever opens the database.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut bytes = [0; READ];
        match index.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let (header, copy) = bytes[..MOVED].split_at(INDEX_HEADER);
        let native = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let is_set = header[12] == 1;
        if header != copy || native(0) != FORMAT || !is_set {
            return Ok(None);
        }
        let page = match u16::from_ne_bytes([header[14], header[15]]) {
            1 => 65_536,
            page => usize::from(page),
        };
        let mut salt = [0; 8];
        salt.copy_from_slice(&header[32..40]);
        let known = Known { index, bytes, frames: native(16), moved: native(MOVED), page, salt };
        Ok((!known.is_used()?).then_some(known))
    }

    /// Whether this is still the index at `path`, and nobody has written to it since it was read.
    fn still_stands(&self, path: &Path) -> io::Result<bool> {
        let read = Identity::from(&self.index.metadata()?);
        match Identity::of(path) {
            Ok(found) if found == read => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        let mut bytes = [0; READ];
        match self.index.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(bytes == self.bytes),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The first frame that is nowhere when the log is empty: who was told to keep it leaves it so, with all of it in
    /// the database.
    fn lost(&self) -> Option<u32> {
        (self.frames > self.moved).then(|| self.moved + 1)
    }

    /// Whether another process has a connection to the database.
    fn is_used(&self) -> io::Result<bool> {
        let mut lock = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: USED,
            l_len: 1,
            l_pid: 0,
        };
        fcntl(&self.index, FcntlArg::F_GETLK(&mut lock))?;
        Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
    }
}

/// The first frame of those that were committed that cannot be read, from 1.
fn damaged(log: &Path, known: &Known) -> io::Result<Option<u32>> {
    let file = match File::open(log) {
        Ok(file) => file,
        // Whoever closes a database last moves all of the log into it and takes the log away; one that uses no index
        // (`locking_mode=exclusive`) leaves that of before.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if known.frames == 0 {
        return Ok(None);
    }
    let mut log = BufReader::with_capacity(1 << 20, file);
    let mut header = [0; HEADER];
    if !is_filled(&mut log, &mut header)? {
        return Ok(known.lost());
    }
    let order = match word(&header, 0).wrapping_sub(MAGIC) {
        0 => Order::Little,
        1 => Order::Big,
        _other => return Ok(Some(1)),
    };
    let mut sum = Sum::default().with(&header[..24], order);
    if !sum.is_at(&header[24..]) {
        return Ok(Some(1));
    }
    if header[16..24] != known.salt {
        // Another log than the index is about: the machine went down before that was stored.
        return Ok(None);
    }
    let mut frame = vec![0; FRAME_HEADER + known.page];
    for number in 1..=known.frames {
        if !is_filled(&mut log, &mut frame)? {
            return Ok(Some(number));
        }
        sum = sum.with(&frame[..8], order).with(&frame[FRAME_HEADER..], order);
        if frame[8..16] != known.salt || !sum.is_at(&frame[16..FRAME_HEADER]) {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Whether there was so much to read.
fn is_filled(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// A word as the headers store it.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// How sums read the bytes of a word.
#[derive(Debug, Clone, Copy)]
enum Order {
    Little,
    Big,
}

/// The sum over a log so far.
#[derive(Debug, Clone, Copy, Default)]
struct Sum(u32, u32);

impl Sum {
    /// `bytes` have whole pairs of words.
    fn with(mut self, bytes: &[u8], order: Order) -> Sum {
        for pair in bytes.chunks_exact(8) {
            let (first, second) = (word(pair, 0), word(pair, 4));
            let (first, second) = match order {
                Order::Big => (first, second),
                Order::Little => (first.swap_bytes(), second.swap_bytes()),
            };
            self.0 = self.0.wrapping_add(first).wrapping_add(self.1);
            self.1 = self.1.wrapping_add(second).wrapping_add(self.0);
        }
        self
    }

    /// Whether it is what stands here.
    fn is_at(self, bytes: &[u8]) -> bool {
        (word(bytes, 0), word(bytes, 4)) == (self.0, self.1)
    }
}
