//! What only a store in a file can get wrong: the file itself, other processes, a full disk, old versions.

mod accepting;
mod creating;
mod damaged;
mod full;
mod killed;
mod log;
mod opening;
mod place;
mod processes;
mod versions;
mod volume;
