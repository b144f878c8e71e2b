//! What the configuration knows but this version cannot do yet. A line goes away when the thing is built.

use super::origin::Shown;
use super::problem::Complaint;

/// Keys of which every value but the default is refused.
const NOT_BUILT: &[&str] = &[
    "delegation.inherit_mcp_toolsets",
    "delegation.subagent_auto_approve",
    "delegation.command",
    "delegation.args",
    "auxiliary.review",
];

/// Refuses a value that is understood but cannot be acted on.
pub fn check(key: &str, value: &Shown, default: &Shown) -> Result<(), Complaint> {
    if !NOT_BUILT.contains(&key) || value == default {
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
        for name in NOT_BUILT {
            assert!(KEYS.iter().any(|key| key.name == *name), "{name}");
        }
    }
}
