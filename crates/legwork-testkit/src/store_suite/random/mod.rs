//! The same random calls for two stores: whatever one answers, the other must answer. Equal seeds make equal calls, and a
//! failure names the seed, the call's number and the call.

mod appends;
mod calls;
mod dice;
mod pair;
mod sessions;
mod steers;
mod view;

pub use pair::compare;
