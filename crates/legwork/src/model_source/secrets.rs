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

/// Whether a variable with this name holds a key by all that people call keys: a word of it ends as such a name does, unless it
/// is one of those that only sound so, as in `MONKEY_DIR`.
fn speaks_of_a_key(name: &str) -> bool {
    const ENDS: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"];
    const OTHERS: [&str; 5] = ["MONKEY", "DONKEY", "TURKEY", "HOCKEY", "JOCKEY"];
    let name = name.to_ascii_uppercase();
    let words = name.split('_').map(|word| word.trim_end_matches(|letter: char| letter.is_ascii_digit()));
    let mut words = words.map(|word| word.strip_suffix('S').unwrap_or(word));
    words.any(|word| word == "PAT" || ENDS.iter().any(|end| word.ends_with(end)) && !OTHERS.contains(&word))
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
            "OPENAIKEY",
            "STRIPE_SECRETKEY",
            "SSHKEY",
            "CLIENT_SECRETS",
            "DB_PASSWORDS",
            "KEYS",
        ] {
            assert!(speaks_of_a_key(name), "{name}");
        }
        for name in
            ["MONKEY_DIR", "MONKEYS", "KEYBOARD", "PATH", "TOKENIZERS_PARALLELISM", "XKB_DEFAULT_LAYOUT"]
        {
            assert!(!speaks_of_a_key(name), "{name}");
        }
    }
}
