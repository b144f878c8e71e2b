//! legwork-agent
