//! The agent at its ports: turn loop, journal, delegation, worker and session against fakes of model, tools, line and
//! engine. Nothing here waits for time to pass.

#[path = "../models_support/asking.rs"]
mod asking;
mod conversation;
mod delegate_background;
mod delegate_calls;
mod delegate_order;
mod delegate_results;
mod engine;
mod fakes;
mod patience;
mod session;
mod steers_at_the_end;
mod turn_compaction;
mod turn_contract;
mod turn_counts;
mod turn_ends;
mod turn_journal;
mod turn_resume;
mod turn_steers;
mod turn_stops;
mod turn_tools;
mod worker;
mod worker_close;
mod worker_resume;
mod worker_unready;
