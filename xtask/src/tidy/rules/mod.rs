//! The rules, one module each. A rule is a function from the tree to its findings; this folder does no IO.

mod all;
mod architecture;
mod changelog;
mod citations;
mod comment_width;
mod core_dependencies;
mod crate_readmes;
mod design_pages;
mod detached_tasks;
pub mod file_length;
mod function_length;
mod machine_paths;
mod module_docs;
mod names;
mod parameters;
mod replacements;
mod sleeps;
mod table_of_contents;
mod traceability;
mod unfinished;

pub use all::ALL;
