//! legwork-testkit
