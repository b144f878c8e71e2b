//! legwork-core
