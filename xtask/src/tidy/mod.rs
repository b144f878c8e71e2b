//! The tidy check: rules of STYLE.md as code, one module a rule under `rules`. It reads the repository and reports; it
//! changes nothing and knows nothing of what legwork does.

mod exceptions;
mod finding;
mod inspect;
mod mask;
mod rules;
mod rust_file;
#[cfg(test)]
mod samples;
mod scan;
mod tree;

pub use inspect::inspect;
pub use rust_file::RustFile;
pub use scan::{in_name, leading_name, word_offsets};
pub use tree::Tree;
