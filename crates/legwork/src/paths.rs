//! Where the program's files are: configuration, state and cache.
//!
//! Owns the places and the creation of private folders. What is in the files is not its business.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::failure::{CliError, Kind};
use crate::settings::variables::STATE_DIR;
use crate::settings::{Environment, UserFile};

const OURS: &str = "legwork";
const PRIVATE: u32 = 0o700;

/// Why a place cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// The working folder does not exist or cannot be entered.
    #[error("the working folder {} cannot be used: {cause}", path.display())]
    WorkingFolder { path: PathBuf, cause: io::Error },
    /// Its name cannot be stored with the work, nor told to a model.
    #[error("the name of the working folder {path:?} is not UTF-8; nothing was started")]
    NoText { path: PathBuf },
    /// Nothing says where the state belongs.
    #[error("the state folder is not known: neither HOME nor XDG_STATE_HOME is set")]
    NoState,
    /// Nothing says where the cache belongs.
    #[error("the cache folder is not known: neither HOME nor XDG_CACHE_HOME is set")]
    NoCache,
    /// Something else is where a folder belongs.
    #[error("{} is {what}, and a folder belongs there", path.display())]
    InTheWay { path: PathBuf, what: &'static str },
    /// A folder cannot be made, or cannot be written.
    #[error("the folder {} cannot be used: {cause}", path.display())]
    Unusable { path: PathBuf, cause: io::Error },
}

impl From<PathsError> for CliError {
    fn from(error: PathsError) -> CliError {
        let (kind, hint) = match &error {
            PathsError::WorkingFolder { .. } => (Kind::Usage, "name an existing folder with --cwd"),
            PathsError::NoText { .. } => (Kind::Usage, "rename it, or name another folder with --cwd"),
            PathsError::NoState => {
                (Kind::State, "set HOME, or name a folder with --state-dir or LEGWORK_STATE_DIR")
            }
            PathsError::NoCache => (Kind::State, "set HOME or XDG_CACHE_HOME"),
            PathsError::InTheWay { .. } => {
                (Kind::State, "move it away, or name another folder with --state-dir or LEGWORK_STATE_DIR")
            }
            PathsError::Unusable { .. } => {
                (Kind::State, "make it writable, or name another one with --state-dir or LEGWORK_STATE_DIR")
            }
        };
        CliError::new(kind, error.to_string()).with_hint(hint)
    }
}

/// Places named on the command line.
#[derive(Debug, Default)]
pub struct Named<'a> {
    /// `--cwd`.
    pub cwd: Option<&'a Path>,
    /// `--state-dir`.
    pub state_dir: Option<&'a Path>,
    /// `--config`.
    pub config: Option<&'a Path>,
}

/// Where everything is. All paths are absolute; nothing is created before it is asked for.
#[derive(Debug, Clone)]
pub struct Paths {
    working_folder: PathBuf,
    user_config: UserFile,
    state: Option<PathBuf>,
    cache: Option<PathBuf>,
}

impl Paths {
    /// Finds the places. Relative paths of the command line and of variables are taken from the folder the program was
    /// started in; a relative `XDG_…` variable is ignored, as its specification asks.
    ///
    /// # Errors
    /// When the working folder does not exist.
    pub fn find(named: &Named<'_>, environment: &Environment) -> Result<Paths, PathsError> {
        let started_in = started_in(named, environment)?;
        let absolute = |path: &Path| started_in.join(path);
        let xdg = |variable, fallback| xdg_folder(environment, variable, fallback);
        let state = named.state_dir.map(Path::to_owned).or_else(|| environment.path(STATE_DIR));
        let usual = xdg("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("config.toml"));
        let user_config = match named.config {
            Some(path) => UserFile::Named(absolute(path)),
            None => usual.map_or(UserFile::None, UserFile::Usual),
        };
        Ok(Paths {
            working_folder: working_folder(&started_in, named.cwd)?,
            user_config,
            state: state.map(|path| absolute(&path)).or_else(|| xdg("XDG_STATE_HOME", ".local/state")),
            cache: xdg("XDG_CACHE_HOME", ".cache"),
        })
    }

    /// The folder that agents work in.
    pub fn working_folder(&self) -> &Path {
        &self.working_folder
    }

    /// Makes sure that work can be begun in the working folder: its name is stored, and what goes on later must find it.
    ///
    /// # Errors
    /// When it is not text.
    pub fn work_can_begin(&self) -> Result<(), PathsError> {
        match self.working_folder.to_str() {
            Some(_) => Ok(()),
            None => Err(PathsError::NoText { path: self.working_folder.clone() }),
        }
    }

    /// The same as it is stored with what belongs to it.
    pub fn folder_text(&self) -> String {
        self.working_folder.display().to_string()
    }

    /// The user's configuration file.
    pub fn user_config(&self) -> &UserFile {
        &self.user_config
    }

    /// The project's configuration file; it may be missing.
    pub fn project_config(&self) -> PathBuf {
        self.working_folder.join(".legwork").join("config.toml")
    }

    /// The state folder. It may not exist yet: verbs that only look must not create it.
    ///
    /// # Errors
    /// When nothing says where it is.
    pub fn state(&self) -> Result<StateFolder, PathsError> {
        self.state.clone().map(|root| StateFolder { root }).ok_or(PathsError::NoState)
    }

    /// The folder for model files that can be fetched again.
    ///
    /// # Errors
    /// When nothing says where it is.
    pub fn models(&self) -> Result<PathBuf, PathsError> {
        self.cache.as_ref().map(|cache| cache.join("models")).ok_or(PathsError::NoCache)
    }
}

/// The folder that holds everything the program must not lose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFolder {
    root: PathBuf,
}

impl StateFolder {
    /// The state folder that is `root`.
    #[cfg(test)]
    pub fn at(root: &Path) -> StateFolder {
        StateFolder { root: root.to_owned() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.root.join("legwork.db")
    }

    /// Live transcripts, one folder a delegation.
    pub fn live(&self) -> PathBuf {
        self.root.join("live")
    }

    /// Full texts of what was cut for the conversation.
    pub fn spill(&self) -> PathBuf {
        self.root.join("spill")
    }

    /// What was known of subagents that stood still before they had asked their models.
    pub fn diagnostics(&self) -> PathBuf {
        self.root.join("diagnostics")
    }

    /// What was typed in conversations.
    pub fn history(&self) -> PathBuf {
        self.root.join("history")
    }

    /// Logs.
    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Makes the folder and those within it, each open to its owner only. A folder that is already there keeps its
    /// permissions: it may be one that the user shares on purpose.
    ///
    /// # Errors
    /// When a folder cannot be made, is not a folder, or cannot be written.
    pub fn prepare(&self) -> Result<(), PathsError> {
        self.folders().iter().try_for_each(|folder| make_private(folder))
    }

    /// The first thing that is where one of the folders belongs.
    pub fn obstacle(&self) -> Option<PathsError> {
        self.folders().iter().find_map(|folder| in_the_way(folder))
    }

    fn folders(&self) -> [PathBuf; 4] {
        [self.root.clone(), self.live(), self.spill(), self.log()]
    }
}

/// Makes a folder and its missing parents with mode 0700.
///
/// # Errors
/// When it cannot be made or is something else than a folder.
pub fn make_private(folder: &Path) -> Result<(), PathsError> {
    let made = DirBuilder::new().recursive(true).mode(PRIVATE).create(folder);
    made.map_err(|cause| {
        in_the_way(folder).unwrap_or(PathsError::Unusable { path: folder.to_owned(), cause })
    })
}

/// What is no folder where that folder or one above it belongs.
fn in_the_way(folder: &Path) -> Option<PathsError> {
    let found =
        folder.ancestors().find_map(|path| Some((path, fs::symlink_metadata(path).ok()?.file_type())));
    let (path, kind) = found.filter(|(path, _)| !path.is_dir())?;
    let what = match (kind.is_file(), kind.is_symlink()) {
        (true, _) => "a file",
        (false, true) => "a link that leads to no folder",
        (false, false) => "no folder",
    };
    Some(PathsError::InTheWay { path: path.to_owned(), what })
}

/// The folder that the program was started in. One that is gone is only missed where something is to be found from it.
fn started_in(named: &Named<'_>, environment: &Environment) -> Result<PathBuf, PathsError> {
    let cause = match std::env::current_dir() {
        Ok(folder) => return Ok(folder),
        Err(cause) => cause,
    };
    let state = environment.path(STATE_DIR);
    let others = [named.state_dir, named.config, state.as_deref()];
    let is_missed = others.into_iter().flatten().any(Path::is_relative);
    match named.cwd.filter(|cwd| cwd.is_absolute() && !is_missed) {
        Some(cwd) => Ok(cwd.to_owned()),
        None => Err(PathsError::WorkingFolder { path: left(), cause }),
    }
}

/// What the folder was called that this program is in and that is gone, as far as the system tells.
fn left() -> PathBuf {
    let link = fs::read_link("/proc/self/cwd").unwrap_or_else(|_| PathBuf::from("."));
    let name = link.to_str().and_then(|name| name.strip_suffix(" (deleted)")).map(PathBuf::from);
    name.unwrap_or(link)
}

fn working_folder(started_in: &Path, named: Option<&Path>) -> Result<PathBuf, PathsError> {
    let Some(named) = named else { return Ok(started_in.to_owned()) };
    let path = started_in.join(named);
    let unusable = |cause| PathsError::WorkingFolder { path: path.clone(), cause };
    let folder = fs::canonicalize(&path).map_err(unusable)?;
    fs::read_dir(&folder).map_err(unusable)?;
    Ok(folder)
}

fn xdg_folder(environment: &Environment, variable: &str, fallback: &str) -> Option<PathBuf> {
    let named = environment.path(variable).filter(|path| path.is_absolute());
    let home = || environment.path("HOME").filter(|home| home.is_absolute()).map(|home| home.join(fallback));
    named.or_else(home).map(|folder| folder.join(OURS))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn find(pairs: [(&str, &str); 2]) -> Paths {
        Paths::find(&Named::default(), &Environment::from(pairs)).expect("the working folder exists")
    }

    #[test]
    fn xdg_variables_win_over_home_and_relative_ones_are_ignored() {
        let paths = find([("HOME", "/h"), ("XDG_STATE_HOME", "/s")]);
        assert_eq!(paths.state().expect("known").database(), Path::new("/s/legwork/legwork.db"));
        assert_eq!(paths.user_config().path(), Some(Path::new("/h/.config/legwork/config.toml")));
        assert_eq!(paths.models().expect("known"), Path::new("/h/.cache/legwork/models"));
        let paths = find([("HOME", "/h"), ("XDG_STATE_HOME", "s")]);
        assert_eq!(paths.state().expect("known").root(), Path::new("/h/.local/state/legwork"));
    }

    #[test]
    fn the_option_wins_over_the_variable() {
        let environment = Environment::from([("LEGWORK_STATE_DIR", "/variable")]);
        let named = Named { state_dir: Some(Path::new("/option")), ..Named::default() };
        let state = |named: &Named<'_>| Paths::find(named, &environment).and_then(|paths| paths.state());
        assert_eq!(state(&named).expect("known").root(), Path::new("/option"));
        assert_eq!(state(&Named::default()).expect("known").root(), Path::new("/variable"));
    }

    #[test]
    fn without_a_home_the_state_is_asked_for() {
        let paths =
            Paths::find(&Named::default(), &Environment::default()).expect("the working folder exists");
        assert_eq!(*paths.user_config(), UserFile::None);
        assert!(matches!(paths.state(), Err(PathsError::NoState)));
    }

    #[test]
    fn sec_10_state_folders_are_private() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let state = StateFolder { root: folder.path().join("a/b") };
        state.prepare().expect("it can be made");
        state.prepare().expect("it may be there already");
        for made in
            [folder.path().join("a"), state.root().to_owned(), state.live(), state.spill(), state.log()]
        {
            let mode = fs::metadata(&made).expect("it was made").permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", made.display());
        }
    }

    #[test]
    fn a_file_in_the_place_of_the_state_folder_is_told() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().join("state");
        fs::write(&root, "").expect("the file is written");
        let below = StateFolder { root: root.join("below") };
        for state in [StateFolder { root: root.clone() }, below] {
            let error = state.prepare().expect_err("a file is no folder");
            assert_eq!(
                error.to_string(),
                format!("{} is a file, and a folder belongs there", root.display())
            );
            assert_eq!(CliError::from(error).exit().code(), 3);
        }
    }
}
