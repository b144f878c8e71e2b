//! A machine of its own for each test: an empty home, an empty project, an empty environment, and what the program says of its
//! configuration there.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A machine of its own: an empty home, an empty project, no environment.
pub struct Machine {
    folder: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Machine {
    pub fn new() -> Machine {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["home/.config/legwork", "project/.legwork"] {
            fs::create_dir_all(folder.path().join(name)).expect("the folder is made");
        }
        Machine { folder, variables: Vec::new() }
    }

    pub fn user_file(&self) -> PathBuf {
        self.folder.path().join("home/.config/legwork/config.toml")
    }

    pub fn project_file(&self) -> PathBuf {
        self.folder.path().join("project/.legwork/config.toml")
    }

    pub fn with_user(self, text: impl AsRef<[u8]>) -> Machine {
        fs::write(self.user_file(), text).expect("the file is written");
        self
    }

    pub fn with_project(self, text: &str) -> Machine {
        fs::write(self.project_file(), text).expect("the file is written");
        self
    }

    pub fn with_variable(mut self, name: &'static str, value: &str) -> Machine {
        self.variables.push((name, value.to_owned()));
        self
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_legwork"));
        command.args(arguments).env_clear().current_dir(self.folder.path().join("project"));
        command.env("HOME", self.folder.path().join("home"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.output().expect("the program starts")
    }

    /// Runs with `--json`; the whole of stdout must be one document.
    pub fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let output = self.run(&[&["--json"], arguments].concat());
        let text = String::from_utf8(output.stdout).expect("stdout is text");
        let document = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text:?}"));
        (code(output.status), document)
    }

    pub fn shown(&self, key: &str) -> (Value, Value) {
        let (exit, mut document) = self.json(&["config", "show"]);
        assert_eq!(exit, 0, "{document}");
        (document[key]["value"].take(), document[key]["origin"].take())
    }

    /// `config check` must refuse: exit 2, and each of the words in the message.
    #[track_caller]
    pub fn refuses(&self, kind: &str, words: &[&str]) {
        let (exit, document) = self.json(&["config", "check"]);
        let error = &document["error"];
        assert_eq!((exit, error["kind"].as_str()), (2, Some(kind)), "{document}");
        let message = error["message"].as_str().expect("there is a message");
        for word in words {
            assert!(message.contains(word), "{word:?} is missing in {message:?}");
        }
        let human = self.run(&["config", "check"]);
        assert_eq!((code(human.status), human.stdout.len()), (2, 0));
        assert!(!human.stderr.is_empty());
    }
}

pub fn code(status: std::process::ExitStatus) -> i32 {
    status.code().expect("it was not killed")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A machine whose user has set one key.
pub fn with_line(key: &str, value: &str) -> Machine {
    let (section, name) = key.split_once('.').expect("a section");
    Machine::new().with_user(format!("[{section}]\n{name} = {value}\n"))
}
