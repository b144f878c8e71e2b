//! What a goal demands of a model that is too small to find out by itself.
//!
//! Owns reading the goal for the tools and the files that it names, and the form of the calls that are still due. It
//! narrows calls and nothing else: what the model says in the end is free.

mod calls;
mod goal;
mod words;

pub(crate) use calls::{Made, due, schema};
pub(crate) use goal::{Wish, wishes};
