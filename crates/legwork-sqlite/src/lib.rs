//! legwork-sqlite
