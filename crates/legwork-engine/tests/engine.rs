//! The running engine: real tasks, real channels, paused time, a store with a gate, and workers that do what their goals
//! say.

#[path = "engine/commits.rs"]
mod commits;
#[path = "engine/front.rs"]
mod front;
#[path = "engine/recovery.rs"]
mod recovery;
#[path = "engine/release.rs"]
mod release;
#[path = "engine/requests.rs"]
mod requests;
#[path = "engine/scene.rs"]
mod scene;
#[path = "engine/slots.rs"]
mod slots;
#[path = "engine/stopping.rs"]
mod stopping;
#[path = "engine/supervision.rs"]
mod supervision;
#[path = "engine/trouble.rs"]
mod trouble;
#[path = "engine/troupe.rs"]
mod troupe;
