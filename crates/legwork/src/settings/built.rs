//! What the configuration knows but this version cannot do yet. A line goes away when the thing is built.

use super::origin::Shown;
use super::problem::Complaint;

/// Which values of a key are refused.
enum Refused {
    /// Everything but the default.
    AllButDefault,
    /// These words.
    Words(&'static [&'static str]),
}

const NOT_BUILT: &[(&str, Refused)] = &[
    ("delegation.at_capacity", Refused::Words(&["sync"])),
    ("delegation.compression_threshold_tokens", Refused::AllButDefault),
    ("delegation.inherit_mcp_toolsets", Refused::AllButDefault),
    ("delegation.default_toolsets", Refused::AllButDefault),
    ("delegation.subagent_auto_approve", Refused::AllButDefault),
    ("delegation.lease_seconds", Refused::AllButDefault),
    ("delegation.command", Refused::AllButDefault),
    ("delegation.args", Refused::AllButDefault),
    ("auxiliary.review", Refused::AllButDefault),
];

/// Refuses a value that is understood but cannot be acted on.
pub fn check(key: &str, value: &Shown, default: &Shown) -> Result<(), Complaint> {
    let Some((_, refused)) = NOT_BUILT.iter().find(|(name, _)| *name == key) else { return Ok(()) };
    let built = match refused {
        Refused::AllButDefault => value == default,
        Refused::Words(words) => !matches!(value, Shown::Text(word) if words.contains(&word.as_str())),
    };
    if built {
        return Ok(());
    }
    let instead = match default {
        Shown::Unset | Shown::Table(_) => "leave it out".to_owned(),
        Shown::Text(text) if text.is_empty() => "leave it out".to_owned(),
        Shown::Text(_) | Shown::Masked | Shown::Flag(_) | Shown::Whole(_) | Shown::List(_) => {
            format!("leave it out or set it to {default}")
        }
    };
    let value =
        if let Shown::Table(_) = value { "a table with entries".to_owned() } else { value.to_string() };
    Err(Complaint::NotBuilt { value, instead })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::keys::KEYS;

    #[test]
    fn every_line_names_a_key_of_the_table() {
        for (name, _) in NOT_BUILT {
            assert!(KEYS.iter().any(|key| key.name == *name), "{name}");
        }
    }
}
