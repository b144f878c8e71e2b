//! Conversations over the real engine and a store in memory: what is answered, in which order, and that it is answered
//! once, whatever ends in between.

mod delivery;
mod failpoints;
mod held;
mod inbox;
mod processes;
mod reopening;
mod rows;
mod scene;
mod seeded;
mod trouble;
mod turns;
mod waking;
mod wire;
