//! The mark in the environment of every command: whose it is and which one, also after it has left its process group.
//!
//! It holds ids of ours and nothing of a user.

use super::store;
use legwork_core::step::Actor;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;

/// The variable that carries the mark. Its value is a list of ids with colons between them, the outermost first, so
/// that what a nested legwork starts is still found by the outer one: of each the database, whose the command is, and the
/// command. An older legwork left the database out.
pub(super) const VARIABLE: &str = "LEGWORK_CHILD";

/// How the id of a command begins.
const COMMAND: &str = "cmd-";

/// The mark of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// The last part: an agent may have several commands at once, and the end of one must not end what another left.
    command: String,
    value: OsString,
}

impl Mark {
    /// The mark for a command that `actor` of `store` starts. `outer` is the mark that this process itself carries, `bits`
    /// are drawn at random.
    pub(super) fn new(actor: &Actor, store: Option<&str>, outer: Option<&OsStr>, bits: u32) -> Self {
        let command = format!("{COMMAND}{bits:08x}");
        let mut value = outer.map(OsStr::to_owned).unwrap_or_default();
        if !value.is_empty() {
            value.push(":");
        }
        if let Some(store) = store {
            value.push(format!("{store}:"));
        }
        value.push(format!("{}:{command}", actor.as_str()));
        Mark { command, value }
    }

    /// What the variable is set to.
    pub(super) fn value(&self) -> &OsStr {
        &self.value
    }

    /// The id of the command.
    pub(super) fn command(&self) -> &str {
        &self.command
    }
}

/// Whether process `pid` carries the mark of one of `ids` of this process's database. A process that cannot be looked at
/// carries none.
pub(super) fn carries(pid: u32, ids: &[&str]) -> bool {
    of_one(pid, ids) == Named::Here
}

/// Which mark of one of `ids` process `pid` carries.
pub(super) fn of_one(pid: u32, ids: &[&str]) -> Named {
    let environ = fs::read(format!("/proc/{pid}/environ"));
    environ.map_or(Named::Nowhere, |environ| named(&environ, ids, store::mine()))
}

/// Whether a mark has an id, and of which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// Of the database that was meant, or of one that nobody noted.
    Here,
    /// Of another one only: of a copy, or of what this one is a copy of.
    Elsewhere,
    Nowhere,
}

/// Whether a process carries a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marked {
    Yes,
    /// It carries none, or is gone.
    No,
    /// It is there, and its environment may not be read.
    Unreadable,
}

/// Whether process `pid` carries any mark at all.
pub(super) fn any_of(pid: u32) -> Marked {
    marked(fs::read(format!("/proc/{pid}/environ")))
}

fn marked(environ: io::Result<Vec<u8>>) -> Marked {
    match environ {
        Ok(environ) if marks(&environ).next().is_some() => Marked::Yes,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Marked::Unreadable,
        Ok(_) | Err(_) => Marked::No,
    }
}

fn named(environ: &[u8], ids: &[&str], store: Option<&str>) -> Named {
    let mut named = Named::Nowhere;
    for value in marks(environ) {
        // Whose the parts up to the next command are.
        let mut of = None;
        for part in value.split(|byte| *byte == b':') {
            if ids.iter().any(|id| id.as_bytes() == part) {
                if of.is_none() || of == store.map(str::as_bytes) {
                    return Named::Here;
                }
                named = Named::Elsewhere;
            }
            if part.starts_with(store::PREFIX.as_bytes()) {
                of = Some(part);
            } else if part.starts_with(COMMAND.as_bytes()) {
                of = None;
            }
        }
    }
    named
}

fn marks(environ: &[u8]) -> impl Iterator<Item = &[u8]> {
    environ
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::ids::ChildId;

    #[test]
    fn a_mark_is_found_whole_and_below_an_outer_one() {
        let actor = Actor::Child(ChildId::from_stored("sa-1-00000001"));
        let mark = Mark::new(&actor, None, Some(OsStr::new("sa-0-000000ff:cmd-0000000a")), 11);
        assert_eq!(mark.value(), "sa-0-000000ff:cmd-0000000a:sa-1-00000001:cmd-0000000b");
        let environ = [b"PATH=/bin\0LEGWORK_CHILD=", mark.value().as_encoded_bytes(), b"\0X=sa-2-00000002\0"];
        let environ = environ.concat();
        let environ = environ.as_slice();
        let names_one_of = |environ, ids: &[&str]| named(environ, ids, Some("st-1-1")) == Named::Here;
        assert!(names_one_of(environ, &["sa-1-00000001"]) && names_one_of(environ, &[mark.command()]));
        assert!(names_one_of(environ, &["sa-9-00000009", "sa-0-000000ff"]));
        assert!(!names_one_of(environ, &["sa-1-0000000"]), "a part of an id is not the id");
        assert!(!names_one_of(environ, &["sa-2-00000002"]), "another variable is no mark");
        assert_eq!(marked(Ok(environ.to_vec())), Marked::Yes);
    }

    #[test]
    fn inv_30_an_id_in_the_mark_of_another_database_is_not_that_of_this_one() {
        let actor = Actor::Child(ChildId::from_stored("sa-1-00000001"));
        let outer = OsStr::new("st-0-f:sa-0-000000ff:cmd-0000000a:sa-2-00000002:cmd-0000000c");
        let mark = Mark::new(&actor, Some("st-1-2"), Some(outer), 11);
        let environ = [b"LEGWORK_CHILD=", mark.value().as_encoded_bytes(), b"\0"].concat();
        let named = |ids: &[&str], store| named(&environ, ids, store);
        assert_eq!(named(&["sa-1-00000001"], Some("st-1-2")), Named::Here);
        assert_eq!(named(&[mark.command()], Some("st-1-2")), Named::Here);
        assert_eq!(named(&["sa-1-00000001"], Some("st-1-3")), Named::Elsewhere);
        assert_eq!(named(&["sa-1-00000001"], None), Named::Elsewhere);
        assert_eq!(named(&["sa-1-00000001"], Some("st-0-f")), Named::Elsewhere, "that is the outer one's");
        assert_eq!(named(&["sa-0-000000ff"], Some("st-0-f")), Named::Here);
        assert_eq!(named(&["sa-0-000000ff", "sa-1-00000001"], Some("st-1-2")), Named::Here);
        assert_eq!(named(&["sa-2-00000002"], Some("st-0-f")), Named::Here, "an older legwork noted none");
        assert_eq!(named(&["sa-2-00000002"], Some("st-9-9")), Named::Here);
        assert_eq!(named(&["sa-9-00000009"], Some("st-1-2")), Named::Nowhere);
    }

    #[test]
    fn k15_an_environment_that_may_not_be_read_is_not_one_without_a_mark() {
        let refused = |kind: io::ErrorKind| marked(Err(kind.into()));
        assert_eq!(refused(io::ErrorKind::PermissionDenied), Marked::Unreadable);
        assert_eq!(refused(io::ErrorKind::NotFound), Marked::No, "it is gone");
        assert_eq!(marked(Ok(b"PATH=/bin\0".to_vec())), Marked::No);
    }
}
