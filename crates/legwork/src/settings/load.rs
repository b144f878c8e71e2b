//! The layers, laid over each other.
//!
//! Owns the order: built-in defaults, user file, project file, environment, command line. Every problem of every layer
//! is collected, so that one run tells all of them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::built;
use super::environment::Environment;
use super::field::{Field, Right};
use super::file::{self, Entry, Presence};
use super::keys::{self, KEYS, Key};
use super::nearest::nearest;
use super::origin::{Assigned, Layer, Origin};
use super::problem::{Place, Problem, SettingsError};
use super::raw::{Raw, truth};
use super::values::Settings;
use super::variables::{self, IGNORE_FILES};

/// More children at once than this cost enough to be worth a word.
const MANY_CHILDREN: usize = 10;

/// The key that may hold a secret in a file.
const SECRET: &str = "delegation.api_key";

/// Where the user's own file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserFile {
    /// At its usual place, where it may be missing.
    Usual(PathBuf),
    /// Where `--config` says; it must exist.
    Named(PathBuf),
    /// Nowhere: neither `HOME` nor `XDG_CONFIG_HOME` is set.
    None,
}

impl UserFile {
    /// The path, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            UserFile::Usual(path) | UserFile::Named(path) => Some(path),
            UserFile::None => None,
        }
    }
}

/// What the configuration is read from.
#[derive(Debug)]
pub struct Sources<'a> {
    /// The user's file.
    pub user: &'a UserFile,
    /// The project's file; it may be missing.
    pub project: &'a Path,
    /// The environment.
    pub environment: &'a Environment,
    /// Options of the command line that set a key: the key and the text.
    pub options: &'a [(&'static str, &'a str)],
}

/// Reads and merges all layers.
///
/// # Errors
/// Lists everything that is wrong, each with its place; nothing wrong is replaced by a default.
pub fn load(sources: &Sources<'_>) -> Result<Settings, SettingsError> {
    let mut merge = Merge { settings: Settings::default(), problems: Vec::new() };
    merge.defaults();
    merge.files(sources);
    merge.environment(sources.environment);
    merge.options(sources.options);
    if !merge.problems.is_empty() {
        return Err(SettingsError { problems: merge.problems });
    }
    merge.advise();
    Ok(merge.settings)
}

struct Merge {
    settings: Settings,
    problems: Vec<Problem>,
}

/// A value on its way into the settings.
struct Candidate<'a> {
    raw: &'a Raw,
    right: Right,
    place: Place,
    origin: Origin,
}

impl Merge {
    fn defaults(&mut self) {
        for key in KEYS {
            let shown = key.field.reset(&mut self.settings);
            self.settings.trail.insert(key.name, vec![Assigned { shown, origin: Origin::Default }]);
        }
    }

    fn files(&mut self, sources: &Sources<'_>) {
        let ignored = self.ignores_files(sources.environment);
        match sources.user {
            UserFile::Named(path) => self.user_file(path, Presence::Required),
            UserFile::Usual(path) if !ignored => self.user_file(path, Presence::Optional),
            UserFile::Usual(_) | UserFile::None => {}
        }
        if !ignored {
            self.project_file(sources);
        }
    }

    fn ignores_files(&mut self, environment: &Environment) -> bool {
        let Some(word) = self.variable(environment, IGNORE_FILES) else { return false };
        truth(&word).unwrap_or_else(|| {
            let complaint = Raw::Word(word).is_not("true or false");
            self.problems.push(Problem::Refused {
                place: Place::Variable(IGNORE_FILES.to_owned()),
                key: IGNORE_FILES,
                complaint,
            });
            false
        })
    }

    fn user_file(&mut self, path: &Path, presence: Presence) {
        for (key, entry) in self.entries(path, presence) {
            let origin = Origin::File { layer: Layer::User, path: path.to_owned(), line: entry.line };
            self.set(key, Candidate { raw: &entry.raw, right: Right::Any, place: entry.value_at, origin });
        }
    }

    fn project_file(&mut self, sources: &Sources<'_>) {
        let path = sources.project;
        let usual = "$XDG_CONFIG_HOME/legwork/config.toml".to_owned();
        for (key, entry) in self.entries(path, Presence::Optional) {
            let Some(right) = key.project else {
                let user_file = sources.user.path().map_or(usual.clone(), |path| path.display().to_string());
                self.problems.push(Problem::NotForProject { place: entry.name_at, key: key.name, user_file });
                continue;
            };
            let origin = Origin::File { layer: Layer::Project, path: path.to_owned(), line: entry.line };
            self.set(key, Candidate { raw: &entry.raw, right, place: entry.value_at, origin });
        }
    }

    /// The entries of a file whose names are known; the others are problems.
    fn entries(&mut self, path: &Path, presence: Presence) -> Vec<(&'static Key, Entry)> {
        let entries = match file::read(path, presence) {
            Ok(entries) => entries,
            Err(problem) => {
                self.problems.push(problem);
                return Vec::new();
            }
        };
        let mut known = Vec::new();
        for entry in entries {
            match keys::find(&entry.name) {
                Some(key) => known.push((key, entry)),
                None => self.problems.push(unknown(entry)),
            }
        }
        known
    }

    fn environment(&mut self, environment: &Environment) {
        for key in KEYS {
            let mut found: Option<(String, String)> = None;
            for name in key.variables() {
                let Some(word) = self.variable(environment, &name) else { continue };
                match &found {
                    Some((first, other)) if *other != word => {
                        self.problems.push(Problem::SetTwice {
                            key: key.name,
                            first: first.clone(),
                            second: name,
                        });
                    }
                    Some(_) => {}
                    None => found = Some((name, word)),
                }
            }
            if let Some((name, word)) = found {
                let place = Place::Variable(name.clone());
                let origin = Origin::Env(name);
                self.set(key, Candidate { raw: &Raw::Word(word), right: Right::Any, place, origin });
            }
        }
        self.problems.extend(variables::unknown(environment, &self.settings));
    }

    fn variable(&mut self, environment: &Environment, name: &str) -> Option<String> {
        match environment.text(name) {
            Ok(text) => text.map(str::to_owned),
            Err(error) => {
                self.problems.push(error.into());
                None
            }
        }
    }

    fn options(&mut self, options: &[(&'static str, &str)]) {
        for key in KEYS {
            let Some(flag) = key.flag else { continue };
            let Some((_, text)) = options.iter().find(|(name, _)| *name == key.name) else { continue };
            let raw = Raw::Word((*text).to_owned());
            let candidate = Candidate {
                raw: &raw,
                right: Right::Any,
                place: Place::Flag(flag),
                origin: Origin::Flag(flag),
            };
            self.set(key, candidate);
        }
    }

    fn set(&mut self, key: &'static Key, candidate: Candidate<'_>) {
        let trail = self.settings.trail.get(key.name).map(Vec::as_slice).unwrap_or_default();
        let default = trail.first().map(|assigned| assigned.shown.clone());
        let accepted = key.field.accept(candidate.raw, candidate.right, &mut self.settings);
        let shown = accepted.and_then(|shown| match (&shown, &default) {
            (Some(value), Some(default)) => built::check(key.name, value, default).map(|()| shown),
            (Some(_) | None, _) => Ok(shown),
        });
        match shown {
            Err(complaint) => {
                self.problems.push(Problem::refused(candidate.place, key.name, complaint));
            }
            Ok(None) => self.settings.warnings.push(format!(
                "{}: a project may only tighten `{}`; {} is kept",
                candidate.place,
                key.name,
                self.in_force(key)
            )),
            Ok(Some(shown)) => {
                let assigned = Assigned { shown, origin: candidate.origin };
                self.settings.trail.entry(key.name).or_default().push(assigned);
            }
        }
    }

    fn in_force(&self, key: &Key) -> String {
        self.settings.trail(key.name).last().map(|assigned| assigned.shown.to_string()).unwrap_or_default()
    }

    fn advise(&mut self) {
        let children = self.settings.delegation.max_concurrent_children;
        if children > MANY_CHILDREN {
            self.settings.warnings.push(format!(
                "`delegation.max_concurrent_children` is {children}: every child makes model calls of its own, and they are paid for"
            ));
        }
        if let Origin::File { path, .. } = self.settings.origin(SECRET)
            && is_open_to_others(path)
        {
            let warning =
                format!("{} holds a key and others may read it; run `chmod 600` on it", path.display());
            self.settings.warnings.push(warning);
        }
        for key in KEYS {
            if let (Field::Retired { instead }, [_, .., last]) = (key.field, self.settings.trail(key.name)) {
                let warning =
                    format!("{}: `{}` has no effect any more; use `{instead}`", last.origin, key.name);
                self.settings.warnings.push(warning);
            }
        }
    }
}

/// A file whose permissions cannot be read is not complained about: it was read a moment ago, so it is just gone.
fn is_open_to_others(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

fn unknown(entry: Entry) -> Problem {
    let Entry { name, name_at: place, .. } = entry;
    let Some((section, leaf)) = name.split_once('.') else {
        return unknown_top(place, name);
    };
    let siblings = KEYS.iter().filter(|key| key.section() == section).map(Key::leaf);
    let found = nearest(leaf, siblings).map(|leaf| format!("{section}.{leaf}"));
    Problem::Unknown { place, what: "key", nearest: found, name }
}

/// A name outside of every section: a key without its section, or a section with a slip.
fn unknown_top(place: Place, name: String) -> Problem {
    if let Some(key) = KEYS.iter().find(|key| key.section() == name) {
        return Problem::SectionAsKey { place, name, example: key.name };
    }
    let homeless = KEYS.iter().find(|key| key.leaf() == name).map(|key| key.name.to_owned());
    let sections = keys::sections();
    let found = homeless.or_else(|| nearest(&name, sections.into_iter()).map(str::to_owned));
    Problem::Unknown { place, what: "section or key", nearest: found, name }
}
