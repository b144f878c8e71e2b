//! `cargo xtask`: the chores of this repository. It owns the command line of them and nothing of legwork itself.

mod crash;
mod tidy;
mod traceability;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy\n       cargo xtask traceability\n       cargo xtask crash --runs N\n\n  tidy          check the rules of STYLE.md that a machine can check\n  traceability  write docs/traceability.md\n  crash         kill the program N times and check what is left";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => run_tidy(),
        ["traceability"] => write_traceability(),
        ["crash", "--runs", runs] => run_crash(runs),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run_tidy() -> ExitCode {
    match tidy::inspect(repository()) {
        Ok(report) if report.is_clean() => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Ok(report) => {
            eprintln!("{report}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tidy: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_crash(runs: &str) -> ExitCode {
    let Ok(kills) = runs.parse() else {
        eprintln!("crash: --runs takes a number, found {runs:?}");
        return ExitCode::from(2);
    };
    match crash::run(repository(), kills) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crash: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn write_traceability() -> ExitCode {
    let root = repository();
    let written = match tidy::Tree::read(root).map(|tree| traceability::written(&tree)) {
        Ok(Ok(page)) => {
            std::fs::write(root.join(traceability::PAGE), page).map_err(|error| vec![error.to_string()])
        }
        Ok(Err(wrong)) => Err(wrong),
        Err(error) => Err(vec![format!("{error:#}")]),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            wrong.iter().for_each(|line| eprintln!("traceability: {line}"));
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository, known when xtask is built and so independent of the current folder.
fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the repository")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_is_tidy() {
        let report = tidy::inspect(repository()).expect("the repository can be read");
        assert!(report.is_clean(), "\n{report}");
    }
}
