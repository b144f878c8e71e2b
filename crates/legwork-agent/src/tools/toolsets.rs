//! Named sets of tools, as an operator writes them, and what of them a child may be given (BUILD-9…15).
//!
//! It makes rights; that they are kept is checked at the call, by the toolbox.

use super::DELEGATE_TASK;
use legwork_core::batch::Rights;
use std::collections::BTreeSet;

/// The sets. A member is a tool, or another set that stands above.
const SETS: &[(&str, &[&str])] = &[
    ("file", &["read_file", "write_file", "patch", "list_files", "search_files"]),
    ("terminal", &["terminal", "process"]),
    ("web", &["web_fetch"]),
    ("delegation", &[DELEGATE_TASK]),
    ("coding", &["file", "terminal"]),
    ("all", &["coding", "web", "delegation"]),
];

/// Tools that no child is given, whatever names them (BUILD-14): they speak for the conversation, to its user or into its
/// future.
const BLOCKED: &[&str] = &["clarify", "memory", "send_message", "cronjob", "start_chat"];

/// The names that may be written: those of sets, and those of tools.
pub fn toolset_names() -> Vec<&'static str> {
    let tools = SETS.iter().flat_map(|(_, members)| members.iter().copied());
    let mut names: Vec<&str> = SETS.iter().map(|(name, _)| *name).collect();
    names.extend(tools.filter(|tool| set(tool).is_none()));
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    names
}

/// The tools of these sets. A name that is no set stands for itself (BUILD-11).
pub fn expand<'a>(names: impl IntoIterator<Item = &'a str>) -> Rights {
    let mut tools = BTreeSet::new();
    for name in names {
        add(name, &mut tools);
    }
    Rights { tools }
}

/// Sets hold only sets that stand above them, so this ends.
fn add(name: &str, tools: &mut BTreeSet<String>) {
    match set(name) {
        Some(members) if members.contains(&name) => {
            tools.extend(members.iter().map(|tool| (*tool).to_owned()))
        }
        Some(members) => members.iter().for_each(|member| add(member, tools)),
        None => {
            tools.insert(name.to_owned());
        }
    }
}

fn set(name: &str) -> Option<&'static [&'static str]> {
    SETS.iter().find(|(known, _)| *known == name).map(|(_, members)| *members)
}

/// Whether children stand where they may delegate themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Below {
    /// They may, if their caller may.
    Delegates,
    /// Nobody stands below them.
    Leaf,
}

/// What the children of a caller with these rights get: no more than the caller, nothing above the operator's ceiling,
/// nothing that is blocked, and the right to delegate only where they may use it.
pub fn for_children(caller: &Rights, ceiling: Option<&Rights>, below: Below) -> Rights {
    let mut rights = match ceiling {
        Some(ceiling) => caller.shrunk_to(ceiling),
        None => caller.clone(),
    };
    rights.tools.retain(|tool| !BLOCKED.contains(&tool.as_str()));
    if below == Below::Leaf {
        rights.tools.remove(DELEGATE_TASK);
    }
    rights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(names: &[&str]) -> Rights {
        Rights { tools: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn build_11_sets_of_sets_become_tools_and_other_names_stay() {
        assert_eq!(
            expand(["web", "read_file", "of_a_server"]),
            rights(&["web_fetch", "read_file", "of_a_server"])
        );
        assert_eq!(expand(["terminal"]), rights(&["terminal", "process"]));
        let all = expand(["all"]);
        assert!(
            expand(["coding"]).tools.is_subset(&all.tools)
                && all.allow("web_fetch")
                && all.allow(DELEGATE_TASK)
        );
        assert_eq!(expand([]), rights(&[]));
        assert!(toolset_names().iter().all(|name| !expand([*name]).tools.is_empty()));
    }

    /// Proves BUILD-9, BUILD-11.
    #[test]
    fn build_10_the_ceiling_is_a_ceiling_and_an_empty_one_leaves_nothing() {
        let caller = rights(&["read_file", "terminal", "process"]);
        assert_eq!(for_children(&caller, None, Below::Delegates), caller);
        assert_eq!(for_children(&caller, Some(&expand(["file"])), Below::Delegates), rights(&["read_file"]));
        assert_eq!(for_children(&caller, Some(&expand(["web", "nothing"])), Below::Delegates), rights(&[]));
        assert_eq!(for_children(&caller, Some(&expand([])), Below::Delegates), rights(&[]));
    }

    #[test]
    fn build_13_build_14_sec_02_what_is_blocked_comes_back_through_no_set_and_no_caller() {
        let blocked = ["clarify", "memory", "send_message", "cronjob", "start_chat"];
        let mut caller = expand(["all"]);
        caller.tools.extend(blocked.map(str::to_owned));
        let ceiling = caller.clone();
        for ceiling in [None, Some(&ceiling)] {
            let given = for_children(&caller, ceiling, Below::Delegates);
            assert!(blocked.iter().all(|tool| !given.allow(tool)), "{given:?}");
            assert!(given.allow("read_file"), "only what is blocked goes: {given:?}");
            assert!(!for_children(&caller, ceiling, Below::Leaf).allow(DELEGATE_TASK));
        }
    }

    /// Proves SEC-3.
    #[test]
    fn build_15_who_may_delegate_can_unless_the_ceiling_says_otherwise() {
        let caller = expand(["all"]);
        assert!(for_children(&caller, None, Below::Delegates).allow(DELEGATE_TASK));
        assert!(
            for_children(&caller, Some(&expand(["file", "delegation"])), Below::Delegates)
                .allow(DELEGATE_TASK)
        );
        assert!(!for_children(&caller, Some(&expand(["file"])), Below::Delegates).allow(DELEGATE_TASK));
        for ceiling in [None, Some(&expand(["all"]))] {
            let given = for_children(&rights(&["read_file"]), ceiling, Below::Delegates);
            assert_eq!(given, rights(&["read_file"]), "never more than the caller has");
        }
    }
}
