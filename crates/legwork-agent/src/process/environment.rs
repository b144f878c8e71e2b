//! What the environment of a command holds: an allow list of names, never a key.
//!
//! Left out on purpose: `SSH_AUTH_SOCK` and its like, because an agent's socket lets its holder act as the user on
//! other machines; and everything that nobody listed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Variables that are passed on when they are set.
const NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TMPDIR",
    "TZ",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "CARGO_TARGET_DIR",
    "JAVA_HOME",
    "GOPATH",
    "GOROOT",
    "GOFLAGS",
    "NVM_DIR",
    "NVM_BIN",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "NODE_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "PKG_CONFIG_PATH",
    "LD_LIBRARY_PATH",
    "NIX_PATH",
];

/// Beginnings of names that are passed on.
const PREFIXES: &[&str] = &["LC_", "XDG_"];

/// Proxies are needed to reach anything in some networks, but their address may carry a password.
const PROXIES: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
];

/// Parts of names that mark a secret, whatever list the name is on.
const SECRET_MARKS: &[&str] = &["KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH"];

/// Set for every command: it has no terminal, so nothing may page, prompt or colour.
const FIXED: &[(&str, &str)] =
    &[("TERM", "dumb"), ("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")];

/// The environment of commands, made from the variables of this process.
#[derive(Debug, Clone)]
pub(super) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Keeps what may be passed on.
    pub(super) fn from_parent(variables: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let mut kept: BTreeMap<_, _> = variables.filter(|(name, value)| may_pass(name, value)).collect();
        kept.extend(FIXED.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
        Environment(kept)
    }

    /// The variables.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The value of one of them.
    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }
}

fn may_pass(name: &OsStr, value: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    if SECRET_MARKS.iter().any(|mark| name.to_ascii_uppercase().contains(mark)) {
        return false;
    }
    if PROXIES.contains(&name) {
        return !value.as_encoded_bytes().contains(&b'@');
    }
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(name: &str, value: &str) -> bool {
        let parent = [(OsString::from(name), OsString::from(value))];
        Environment::from_parent(parent.into_iter()).get(name).is_some_and(|kept| kept == value)
    }

    #[test]
    fn k29_no_key_reaches_a_command() {
        for name in [
            "OPENAI_API_KEY",
            "LEGWORK_API_KEY",
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "LC_TOKEN",
            "XDG_SECRET_DIR",
            "SSH_AUTH_SOCK",
            "PGPASSWORD",
            "UNHEARD_OF",
        ] {
            assert!(!passed(name, "x"), "{name} must not be passed on");
        }
    }

    #[test]
    fn what_tools_need_is_passed_on() {
        for name in ["PATH", "HOME", "LC_ALL", "XDG_CACHE_HOME", "CARGO_HOME", "VIRTUAL_ENV"] {
            assert!(passed(name, "/x"), "{name} must be passed on");
        }
        assert!(passed("HTTPS_PROXY", "http://proxy:3128"));
        assert!(!passed("HTTPS_PROXY", "http://me:word@proxy:3128"), "a password in a proxy's address");
    }

    #[test]
    fn a_terminal_of_the_parent_is_not_claimed() {
        assert!(passed("TERM", "dumb") && !passed("TERM", "xterm-256color"));
    }
}
