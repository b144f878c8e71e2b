//! legwork-engine
