//! legwork-local
