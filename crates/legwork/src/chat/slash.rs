//! Lines that are for legwork and not for the agent: what they mean, and what is said of wrong ones.

use crate::settings::nearest;
use crate::wording;

/// How much of a wrong line is repeated.
const TYPED_COLUMNS: usize = 40;

/// What `/help` says: each command and what it does.
pub const HELP: [(&str, &str); 9] = [
    ("/agents [AGENT]", "all subagents; with one, the end of its transcript"),
    ("/steer AGENT TEXT", "tell a running subagent something; it reads it at its next step"),
    ("/stop AGENT|all", "stop a subagent and everything below it, or all"),
    ("/open NUMBER", "a tool call, or results that came back, in full"),
    ("/model [PROVIDER/NAME]", "which model answers; with a name, another one does from the next turn on"),
    ("/sessions", "the conversations of this folder, and how to go on with one"),
    ("/help", "this"),
    ("/quit", "leave"),
    ("//TEXT", "say TEXT to the agent with a slash at its beginning"),
];

/// The keys that are worth knowing, for `/help`.
pub const KEYS: [(&str, &str); 6] = [
    ("Enter", "send; what is sent during a turn waits for its end"),
    ("Alt-Enter, Ctrl-J", "a new line; so does Enter behind a backslash"),
    ("Ctrl-C", "stop the turn, but no subagent; then clear the line; then leave"),
    ("Ctrl-D", "leave, on an empty line"),
    ("↑ ↓, Ctrl-R", "what was typed before; search in it"),
    ("Ctrl-A E K U W Y", "move, cut and put back as in a shell"),
];

/// What a typed line means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// It is for the agent.
    Say(String),
    /// It is for legwork.
    Do(Command),
    /// It was meant for legwork but is wrong; this says how.
    Wrong(String),
}

/// What legwork is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Explain the commands.
    Help,
    /// List the subagents.
    Agents,
    /// Show the end of a subagent's transcript.
    Agent(String),
    /// Tell a subagent something.
    Steer {
        /// Whom.
        agent: String,
        /// What.
        text: String,
    },
    /// Stop a subagent.
    Stop(String),
    /// Stop all of them.
    StopAll,
    /// Say which model answers.
    Model,
    /// Choose another one.
    UseModel(String),
    /// List the conversations.
    Sessions,
    /// Show something in full.
    Open(usize),
    /// Leave.
    Quit,
}

/// The names of all commands, as they are completed.
pub const NAMES: [&str; 8] = ["/agents", "/help", "/model", "/open", "/quit", "/sessions", "/steer", "/stop"];

/// Other names that people try first.
const ALSO: [(&str, &str); 6] = [
    ("/show", "/open"),
    ("/exit", "/quit"),
    ("/q", "/quit"),
    ("/?", "/help"),
    ("/models", "/model"),
    ("/ps", "/agents"),
];

/// What `line` means. A first word with a second slash in it is a path and not a command.
pub fn meaning(line: &str) -> Meaning {
    let line = line.trim();
    if let Some(literal) = line.strip_prefix("//") {
        return Meaning::Say(format!("/{literal}"));
    }
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if !name.starts_with('/') || name[1..].contains('/') {
        return Meaning::Say(line.to_owned());
    }
    let name = ALSO.iter().find(|(also, _)| *also == name).map_or(name, |(_, name)| name);
    command(name, rest.trim()).map_or_else(Meaning::Wrong, Meaning::Do)
}

/// What the beginning of a command's name can be completed to.
pub fn completed(typed: &str) -> Option<String> {
    let mut fitting = NAMES.iter().filter(|name| name.starts_with(typed) && typed.len() > 1);
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Some(format!("{only} ")),
        _ => None,
    }
}

fn command(name: &str, rest: &str) -> Result<Command, String> {
    match (name, rest) {
        ("/help", _) => Ok(Command::Help),
        ("/agents", "") => Ok(Command::Agents),
        ("/agents", agent) => Ok(Command::Agent(agent.to_owned())),
        ("/steer", rest) => match rest.split_once(char::is_whitespace) {
            Some((agent, text)) => {
                Ok(Command::Steer { agent: agent.to_owned(), text: text.trim().to_owned() })
            }
            None => Err("say which subagent and what: /steer 2 look into src only".to_owned()),
        },
        ("/stop", "") => Err("say which subagent, or all: /stop 2".to_owned()),
        ("/stop", "all") => Ok(Command::StopAll),
        ("/stop", agent) => Ok(Command::Stop(agent.to_owned())),
        ("/model", "") => Ok(Command::Model),
        ("/model", name) => Ok(Command::UseModel(name.to_owned())),
        ("/sessions", _) => Ok(Command::Sessions),
        ("/open", number) => match number.trim_start_matches('#').parse() {
            Ok(number) => Ok(Command::Open(number)),
            Err(_) => Err("say the number that stands behind it: /open 3".to_owned()),
        },
        ("/quit", _) => Ok(Command::Quit),
        (unknown, _) => Err(stranger(unknown)),
    }
}

fn stranger(name: &str) -> String {
    let shown = wording::one_line_of_columns(name, TYPED_COLUMNS);
    match nearest(name, NAMES.into_iter()) {
        Some(near) => format!("{shown} is no command; did you mean {near}?"),
        None => format!("{shown} is no command; /help lists them, and //… says it to the agent"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(line: &str, word: &str) {
        let Meaning::Wrong(said) = meaning(line) else { panic!("{line} is right") };
        assert!(said.contains(word), "{said}");
    }

    #[test]
    fn lines_for_the_agent() {
        for (line, said) in [
            ("hello /help", "hello /help"),
            ("//etc is a folder", "/etc is a folder"),
            ("/etc/passwd is a file", "/etc/passwd is a file"),
            ("  two\nlines ", "two\nlines"),
        ] {
            assert_eq!(meaning(line), Meaning::Say(said.to_owned()));
        }
    }

    #[test]
    fn lines_for_legwork() {
        let steer = Command::Steer { agent: "@2".to_owned(), text: "look\nagain".to_owned() };
        for (line, command) in [
            ("/agents", Command::Agents),
            ("/agents 2", Command::Agent("2".to_owned())),
            ("/steer @2  look\nagain", steer),
            ("/stop all", Command::StopAll),
            ("/stop sa-0-12", Command::Stop("sa-0-12".to_owned())),
            ("/model openai/x", Command::UseModel("openai/x".to_owned())),
            ("/open #12", Command::Open(12)),
            ("/show 12", Command::Open(12)),
            ("/exit", Command::Quit),
        ] {
            assert_eq!(meaning(line), Meaning::Do(command), "{line}");
        }
    }

    #[test]
    fn wrong_lines_say_what_would_be_right() {
        wrong("/agent", "/agents");
        wrong("/hlep", "/help");
        wrong("/frobnicate", "/help lists them");
        wrong("/steer 2", "/steer 2 look");
        wrong("/stop", "/stop 2");
        wrong("/open it", "/open 3");
    }

    #[test]
    fn every_command_is_explained_and_a_beginning_is_completed() {
        for name in NAMES {
            assert!(HELP.iter().any(|(usage, _)| usage.split(' ').next() == Some(name)), "{name}");
        }
        assert_eq!(completed("/mo").as_deref(), Some("/model "));
        assert_eq!(completed("/s"), None);
        assert_eq!(completed("/"), None);
    }
}
