//! What no tool's result may show: the values of keys that this process was given.

/// The values of variables of this process whose names speak of keys. A command does not get them, but it can look for them.
pub(super) fn known() -> impl Iterator<Item = String> {
    const SIGNS: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];
    let named = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?.to_ascii_uppercase();
        SIGNS.iter().any(|sign| name.contains(sign)).then_some(value)
    });
    named.filter_map(|value| value.into_string().ok())
}
