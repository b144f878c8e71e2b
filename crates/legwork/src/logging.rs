//! What the program says of itself on stderr: warnings, and more with `-v`.

use tracing_subscriber::filter::LevelFilter;

use crate::args::CommonArgs;
use crate::stderr;

/// Starts logging to stderr: errors and warnings, with `-v` also information, with `-vv` everything of ours; with `-q` only
/// errors.
pub fn start(common: &CommonArgs) {
    let level = match (common.quiet, common.verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, _) => LevelFilter::DEBUG,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(stderr::Teller::default)
        .with_target(false)
        .with_ansi(false)
        // It would tell of a closed stderr on stderr, and panic.
        .log_internal_errors(false)
        .without_time();
    subscriber.init();
}
