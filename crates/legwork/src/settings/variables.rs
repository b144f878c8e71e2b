//! The variables of the environment that begin as ours do: those that set a key of the configuration, those that are
//! read beside it, and those that the configuration names itself. Any other is a slip of the pen, or meant for a
//! version that is not this one.

use super::environment::Environment;
use super::keys::{self, KEYS, Key};
use super::nearest::nearest;
use super::problem::{Place, Problem};
use super::values::Settings;

/// How the names of all of them begin.
const PREFIX: &str = "LEGWORK_";

/// Set to a truth value, it makes the program read no configuration file but one named by `--config`.
pub const IGNORE_FILES: &str = "LEGWORK_IGNORE_USER_CONFIG";
/// The key for what is configured beside it in the environment.
pub const API_KEY: &str = "LEGWORK_API_KEY";
/// The state folder.
pub const STATE_DIR: &str = "LEGWORK_STATE_DIR";
/// The most pages that the state database may have.
pub const STATE_MAX_PAGES: &str = "LEGWORK_STATE_MAX_PAGES";
/// The file of the embedded model.
pub const LOCAL_MODEL: &str = "LEGWORK_LOCAL_MODEL";
/// Set by the program for the commands of its agents, so that a nested one is known.
const CHILD: &str = "LEGWORK_CHILD";

/// Those that set no key.
const BESIDE_KEYS: [&str; 6] = [IGNORE_FILES, API_KEY, STATE_DIR, STATE_MAX_PAGES, LOCAL_MODEL, CHILD];

/// Set variables that begin as ours do and mean nothing.
pub(super) fn unknown(environment: &Environment, settings: &Settings) -> Vec<Problem> {
    let mut known: Vec<String> = KEYS.iter().flat_map(Key::variables).collect();
    known.extend(BESIDE_KEYS.map(str::to_owned));
    let named = named(settings);
    let is_known = |name: &str| known.iter().any(|known| known == name) || named.contains(&name);
    let strangers = environment.names().filter(|name| name.starts_with(PREFIX) && !is_known(name));
    strangers
        .map(|name| Problem::Unknown {
            place: Place::Variable(name.to_owned()),
            what: if is_of_section(name) { "key" } else { "variable" },
            name: name.to_owned(),
            nearest: nearest_of(name, &known),
        })
        .collect()
}

/// The name that was probably meant; what all of them begin with makes no two alike.
fn nearest_of(name: &str, known: &[String]) -> Option<String> {
    let own = |name: &str| name.trim_start_matches(PREFIX).to_owned();
    let known: Vec<String> = known.iter().map(|known| own(known)).collect();
    nearest(&own(name), known.iter().map(String::as_str)).map(|found| format!("{PREFIX}{found}"))
}

/// Whether the name is made as that of a key.
fn is_of_section(name: &str) -> bool {
    keys::sections()
        .iter()
        .any(|section| name.starts_with(&format!("{PREFIX}{}_", section.to_ascii_uppercase())))
}

/// Those in which the configuration has its keys; it may call them as it likes.
fn named(settings: &Settings) -> Vec<&str> {
    let blocks = settings.blocks();
    blocks
        .iter()
        .map(|block| block.api_key_env.as_str())
        .chain([settings.model.api_key_env.as_str()])
        .collect()
}
