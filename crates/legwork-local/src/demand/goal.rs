//! Which calls a goal asks for.
//!
//! Owns the match between the words of a goal and the tools on offer. It does not know what the tools do.

use super::words::{self, Word};
use legwork_agent::models::ToolSpec;
use serde_json::Value;

/// Calls that one goal may demand; more results would not fit into the window.
pub(crate) const WISHES_MAX: usize = 6;

/// One call that the goal asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The place of the tool in the offer.
    pub(crate) tool: usize,
    /// The file or folder named for it.
    pub(crate) path: Option<String>,
}

/// Words that may stand between a verb and its object.
const FILLERS: [&str; 24] = [
    "the",
    "a",
    "an",
    "this",
    "that",
    "these",
    "those",
    "following",
    "whole",
    "entire",
    "each",
    "every",
    "both",
    "all",
    "of",
    "my",
    "our",
    "your",
    "two",
    "three",
    "four",
    "text",
    "contents",
    "content",
];
/// Words before the name of a tool that consists of one word, which could otherwise mean anything.
const USES: [&str; 8] = ["use", "using", "call", "with", "via", "through", "run", "in"];
/// What the argument for a file or folder is called.
const PATH_NAMES: [&str; 7] = ["path", "file", "file_path", "filename", "folder", "directory", "dir"];

/// The calls that a goal asks for, in its order: every tool that it names, once for every file named with it. A goal
/// that names files but no tool means a tool that needs a file and nothing else.
pub(crate) fn wishes(goal: &str, tools: &[ToolSpec]) -> Vec<Wish> {
    let words = words::split(goal);
    let paths = words::paths(&words);
    let mentions = mentions(&words, &paths, tools);
    let mut wishes = Vec::new();
    for (index, (start, tool)) in mentions.iter().enumerate() {
        let start = if index == 0 { 0 } else { *start };
        let end = mentions.get(index + 1).map_or(words.len(), |(next, _)| *next);
        let named = paths.iter().filter(|place| (start..end).contains(*place));
        let named: Vec<Wish> =
            named.map(|place| Wish { tool: *tool, path: Some(words[*place].text.to_owned()) }).collect();
        if path_argument(&tools[*tool]).is_none() || named.is_empty() {
            wishes.push(Wish { tool: *tool, path: None });
        } else {
            wishes.extend(named);
        }
    }
    let mut distinct: Vec<Wish> = Vec::new();
    for wish in wishes {
        if !distinct.contains(&wish) {
            distinct.push(wish);
        }
    }
    distinct.truncate(WISHES_MAX);
    distinct
}

/// The name of the argument that takes a file or folder, the required one first.
pub(crate) fn path_argument(tool: &ToolSpec) -> Option<&str> {
    let properties = tool.parameters["properties"].as_object()?;
    let mut candidates: Vec<&str> = properties
        .iter()
        .filter(|(name, schema)| is_path_name(name) && schema["type"] == "string")
        .map(|(name, _)| name.as_str())
        .collect();
    candidates.sort_by_key(|name| !required(tool).any(|required| required == *name));
    candidates.first().copied()
}

/// The names of the arguments that must be there.
pub(crate) fn required(tool: &ToolSpec) -> impl Iterator<Item = &str> {
    tool.parameters["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn is_path_name(name: &str) -> bool {
    PATH_NAMES.contains(&name) || name.ends_with("_path")
}

/// Where the goal speaks of which tool, in its order.
fn mentions(words: &[Word<'_>], paths: &[usize], tools: &[ToolSpec]) -> Vec<(usize, usize)> {
    let mut mentions: Vec<(usize, usize)> = (0..tools.len())
        .filter_map(|tool| mention(words, paths, &tools[tool]).map(|place| (place, tool)))
        .collect();
    if mentions.is_empty() && !paths.is_empty() {
        let reader = tools.iter().position(|tool| {
            let path = path_argument(tool);
            path.is_some() && required(tool).count() == 1 && required(tool).next() == path
        });
        mentions.extend(reader.map(|tool| (0, tool)));
    }
    mentions.sort_unstable();
    mentions
}

/// The place where the goal names the tool: by its name, or in the words that its name consists of.
fn mention(words: &[Word<'_>], paths: &[usize], tool: &ToolSpec) -> Option<usize> {
    let parts: Vec<&str> = tool.name.split('_').collect();
    if parts.len() > 1
        && let Some(place) = words.iter().position(|word| word.text.eq_ignore_ascii_case(&tool.name))
    {
        return Some(place);
    }
    (0..words.len()).find(|place| match parts.as_slice() {
        [name] => words[*place].text.eq_ignore_ascii_case(name) && is_used(words, *place),
        _ => speaks_of(words, *place, &parts, path_argument(tool).map(|_| paths)),
    })
}

/// Whether the words before a place say that what stands there is used.
fn is_used(words: &[Word<'_>], place: usize) -> bool {
    let before = words[..place].iter().rev().map(|word| word.text.to_lowercase());
    let mut before = before.skip_while(|word| FILLERS.contains(&word.as_str()));
    before.next().is_some_and(|word| USES.contains(&word.as_str()))
}

/// Whether the parts of a tool's name stand in the goal from `place` on, with nothing but fillers between them. For
/// a tool that takes a path, a path stands for the last part.
fn speaks_of(words: &[Word<'_>], place: usize, parts: &[&str], paths: Option<&[usize]>) -> bool {
    let mut rest = parts.iter();
    if !rest.next().is_some_and(|verb| is_form_of(words[place].text, verb)) {
        return false;
    }
    let mut part = rest.next();
    for (place, word) in words.iter().enumerate().skip(place + 1) {
        let Some(wanted) = part else { return true };
        let is_last = rest.len() == 0;
        if is_form_of(word.text, wanted) {
            part = rest.next();
        } else if is_last && paths.is_some_and(|paths| paths.contains(&place)) {
            return true;
        } else if !FILLERS.contains(&word.text.to_lowercase().as_str()) {
            return false;
        }
    }
    part.is_none()
}

/// Whether a word is the English base form, its plural, or its -s, -ed or -ing form.
fn is_form_of(word: &str, base: &str) -> bool {
    let word = word.to_lowercase();
    let base = base.to_lowercase();
    let stem = base.strip_suffix(['e', 's']).unwrap_or(&base);
    word == base || ["", "e", "s", "es", "ed", "ing"].iter().any(|ending| word == format!("{stem}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(name: &str, properties: &[&str], required: &[&str]) -> ToolSpec {
        let properties: serde_json::Map<String, Value> =
            properties.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": properties, "required": required}),
        }
    }

    fn check(goal: &str, expected: &[(&str, Option<&str>)]) {
        let tools = [
            tool("list_files", &["path"], &[]),
            tool("read_file", &["path"], &["path"]),
            tool("write_file", &["path", "content"], &["path", "content"]),
            tool("search_files", &["pattern", "path"], &["pattern"]),
            tool("terminal", &["command", "workdir"], &["command"]),
            tool("delegate_task", &["goal"], &[]),
        ];
        let wishes = wishes(goal, &tools);
        let found: Vec<_> =
            wishes.iter().map(|wish| (tools[wish.tool].name.as_str(), wish.path.as_deref())).collect();
        assert_eq!(found, expected, "in: {goal}");
    }

    #[test]
    fn a_tool_is_named_by_its_name_or_its_words() {
        check("Use read_file on a.md and answer.", &[("read_file", Some("a.md"))]);
        check("Read the file a.md and say what it is about.", &[("read_file", Some("a.md"))]);
        check(
            "reading all the files a.md and b.md",
            &[("read_file", Some("a.md")), ("read_file", Some("b.md"))],
        );
        check("Read a.md", &[("read_file", Some("a.md"))]);
        check("List the files in src/", &[("list_files", Some("src/"))]);
        check("Search the files for TODO", &[("search_files", None)]);
        check("Delegate a task to somebody", &[("delegate_task", None)]);
    }

    #[test]
    fn each_tool_gets_the_files_named_after_it() {
        check(
            "Read a.md and b.md, then write the file c.md.",
            &[("read_file", Some("a.md")), ("read_file", Some("b.md")), ("write_file", Some("c.md"))],
        );
        check("In a.md, read the file.", &[("read_file", Some("a.md"))]);
    }

    #[test]
    fn files_without_a_tool_mean_the_tool_that_needs_only_a_file() {
        check("Summarise a.md in one sentence.", &[("read_file", Some("a.md"))]);
    }

    #[test]
    fn talk_about_files_does_not_change_them() {
        check("Read a.md and write a summary of the file.", &[("read_file", Some("a.md"))]);
        check("Read a.md. The terminal capture in it is old.", &[("read_file", Some("a.md"))]);
    }

    #[test]
    fn a_tool_of_one_word_must_be_used() {
        check("Use the terminal to count the lines.", &[("terminal", None)]);
        check("Say what a terminal is.", &[]);
    }

    #[test]
    fn a_goal_without_tools_and_files_demands_nothing() {
        check("Say hello.", &[]);
    }

    #[test]
    fn a_goal_demands_a_bounded_number_of_calls() {
        let goal: String = (0..50).map(|number| format!("read_file f{number}.md, ")).collect();
        let tools = [tool("read_file", &["path"], &["path"])];
        assert_eq!(wishes(&goal, &tools).len(), WISHES_MAX);
    }
}
