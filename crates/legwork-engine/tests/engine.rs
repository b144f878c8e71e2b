//! The running engine: real tasks, real channels, paused time, a store with a gate, and workers that do what their goals
//! say.

#[path = "engine/adoption.rs"]
mod adoption;
#[path = "engine/alone.rs"]
mod alone;
#[path = "engine/calls.rs"]
mod calls;
#[path = "engine/capacity.rs"]
mod capacity;
#[path = "engine/clocks.rs"]
mod clocks;
#[path = "engine/commits.rs"]
mod commits;
#[path = "engine/deaths.rs"]
mod deaths;
#[path = "engine/desk.rs"]
mod desk;
#[path = "engine/front.rs"]
mod front;
#[path = "engine/gaps.rs"]
mod gaps;
#[path = "engine/given_up.rs"]
mod given_up;
#[path = "engine/ids.rs"]
mod ids;
#[path = "engine/inboxes.rs"]
mod inboxes;
#[path = "engine/joins.rs"]
mod joins;
#[path = "engine/late.rs"]
mod late;
#[path = "engine/leases.rs"]
mod leases;
#[path = "engine/notices.rs"]
mod notices;
#[path = "engine/quiet.rs"]
mod quiet;
#[path = "engine/races.rs"]
mod races;
#[path = "engine/recovery.rs"]
mod recovery;
#[path = "engine/release.rs"]
mod release;
#[path = "engine/remains.rs"]
mod remains;
#[path = "engine/requests.rs"]
mod requests;
#[path = "engine/room.rs"]
mod room;
#[path = "engine/scene.rs"]
mod scene;
#[path = "engine/slots.rs"]
mod slots;
#[path = "engine/steering.rs"]
mod steering;
#[path = "engine/stopping.rs"]
mod stopping;
#[path = "engine/supervision.rs"]
mod supervision;
#[path = "engine/switch.rs"]
mod switch;
#[path = "engine/timeouts.rs"]
mod timeouts;
#[path = "engine/trouble.rs"]
mod trouble;
#[path = "engine/troupe.rs"]
mod troupe;
#[path = "engine/unread.rs"]
mod unread;
#[path = "engine/wall.rs"]
mod wall;
#[path = "engine/watching.rs"]
mod watching;
#[path = "engine/withheld.rs"]
mod withheld;
