//! The built program from end to end, against the scripted model server on loopback: what people and other programs may
//! rely on, with every fault and every kill that the scripts can bring about.

mod background;
mod chat;
mod chat_delivery;
mod chat_screens;
mod commands;
mod contract;
mod delegate;
mod dismiss;
mod faults;
mod harness;
mod interrupt;
mod looking;
mod models;
mod owner_death;
mod pause;
mod pictures;
mod processes;
mod requests;
mod resume;
mod resumption;
mod routes;
mod run;
mod secrets;
mod sessions;
mod shapes;
mod state_trouble;
mod steer;
mod stop;
mod terminal_view;
mod texts;
mod tools;
mod units;
mod worktrees;
mod wrong_input;
