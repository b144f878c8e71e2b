//! What no tool's result may show: the keys that this process was given.

use crate::settings::{Environment, Settings};

/// The keys that the configuration holds, the values of the variables in which it says that keys are, and those of variables
/// whose names speak of keys. A command does not get them, but it can look for them, and so can whatever reads files.
pub(super) fn known(environment: &Environment, settings: &Settings) -> Vec<String> {
    let blocks = settings.blocks();
    let named: Vec<&str> = blocks.iter().map(|block| block.api_key_env.as_str()).collect();
    let is_meant =
        |name: &str| speaks_of_a_key(name) || name == settings.model.api_key_env || named.contains(&name);
    let variables = environment.names().filter(|name| is_meant(name));
    // One that is no text is no key: nothing could send it.
    let values = variables.filter_map(|name| environment.text(name).ok().flatten());
    let held = blocks.iter().map(|block| block.api_key.expose());
    held.chain(values).map(|text| text.trim().to_owned()).collect()
}

/// Whether a variable with this name holds a key by all that people call keys. A word of it is looked at, not a part of one:
/// `MONKEY_DIR` is a folder.
fn speaks_of_a_key(name: &str) -> bool {
    const WORDS: [&str; 5] = ["KEY", "KEYS", "PAT", "CREDENTIAL", "CREDENTIALS"];
    const ENDS: [&str; 7] = ["TOKEN", "TOKENS", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "ACCESSKEY"];
    let name = name.to_ascii_uppercase();
    let mut words = name.split('_').map(|word| word.trim_end_matches(|letter: char| letter.is_ascii_digit()));
    words.any(|word| WORDS.contains(&word) || ENDS.iter().any(|end| word.ends_with(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k31_a_name_speaks_of_a_key_with_a_word_of_its_own() {
        for name in [
            "OPENAI_API_KEY",
            "key",
            "AWS_SECRET_ACCESS_KEY",
            "GITHUBTOKEN",
            "MY_KEY2",
            "GH_PAT",
            "PGPASSWORD",
        ] {
            assert!(speaks_of_a_key(name), "{name}");
        }
        for name in ["MONKEY_DIR", "KEYBOARD", "PATH", "TOKENIZERS_PARALLELISM", "XKB_DEFAULT_LAYOUT"] {
            assert!(!speaks_of_a_key(name), "{name}");
        }
    }
}
