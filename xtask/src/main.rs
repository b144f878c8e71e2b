//! `cargo xtask`: the chores of this repository. It owns the command line of them and nothing of legwork itself.

mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str =
    "usage: cargo xtask tidy\n\n  tidy   check the rules of STYLE.md that a machine can check";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => run_tidy(),
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
