//! Parameters can be read at the call: four at most, no boolean, and no tuple, which is only a way to have more than four. What
//! there is of these in the sources of the crates is counted, and each number only falls. Tests and closures do not count.

use crate::tidy::finding::Finding;
use crate::tidy::rust_file::RustFile;
use crate::tidy::scan::{behind_closing, leading_name, word_offsets};
use crate::tidy::tree::Tree;

const RULE: &str = "parameters";
const PARAMETERS_MAX: usize = 4;

/// What a function should not have, with how many of it there are. Lower a number when one goes; none is ever raised.
const BREACHES: [Breach; 3] = [
    Breach { what: "tuple parameters", known: 32, is_it: is_tuple },
    Breach { what: "boolean parameters", known: 16, is_it: is_bool },
    Breach { what: "parameters behind the fourth", known: 2, is_it: is_behind_the_fourth },
];

struct Breach {
    what: &'static str,
    known: usize,
    is_it: fn(usize, &str) -> bool,
}

pub fn check(tree: &Tree) -> Vec<Finding> {
    let all: Vec<Vec<&str>> =
        tree.rust().iter().filter(|file| is_source(file)).flat_map(parameters).collect();
    BREACHES.iter().filter_map(|breach| breach.exceeded(&all)).collect()
}

impl Breach {
    fn exceeded(&self, all: &[Vec<&str>]) -> Option<Finding> {
        let Breach { what, known, is_it } = self;
        let of_all = all.iter().flat_map(|parameters| parameters.iter().enumerate());
        let found = of_all.filter(|(index, parameter)| is_it(*index, parameter)).count();
        let message = format!(
            "{found} {what}, where {known} are known: make a struct or an enum of the new one (STYLE.md, 9), and never raise the \
             number in xtask/src/tidy/rules/parameters.rs"
        );
        (found > *known).then(|| Finding::of_file(RULE, "crates", message))
    }
}

fn is_tuple(_: usize, parameter: &str) -> bool {
    parameter.starts_with('(')
}

fn is_bool(_: usize, parameter: &str) -> bool {
    parameter.rsplit_once(':').is_some_and(|(_, kind)| kind.trim() == "bool")
}

fn is_behind_the_fourth(index: usize, _: &str) -> bool {
    index >= PARAMETERS_MAX
}

fn is_source(file: &RustFile) -> bool {
    let mut parts = file.path.split('/').skip(2);
    file.path.starts_with("crates/") && parts.next() == Some("src") && !file.is_test_file()
}

/// The parameters of each function, without `self`.
fn parameters(file: &RustFile) -> Vec<Vec<&str>> {
    let keywords = word_offsets(&file.code, "fn");
    let outside_tests = keywords.filter(|offset| !file.is_test_line(file.line_of(*offset)));
    outside_tests.filter_map(|offset| parameters_of(&file.code[offset + 2..])).collect()
}

/// What the brackets behind the name of a function hold. A function pointer has no name.
fn parameters_of(code: &str) -> Option<Vec<&str>> {
    let name = leading_name(code);
    if name.is_empty() {
        return None;
    }
    let behind = code.find(name)? + name.len();
    let open = behind + behind_generics(&code[behind..]);
    let list = code.get(open + 1..behind_closing(code, open).checked_sub(1)?)?;
    Some(at_commas(list).into_iter().filter(|parameter| !is_receiver(parameter)).collect())
}

/// The length of what stands in angle brackets at the start.
fn behind_generics(code: &str) -> usize {
    let mut depth = 0usize;
    for (offset, c) in code.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if code[..offset].ends_with(['-', '=']) => {}
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => return offset,
            _ => {}
        }
    }
    code.len()
}

/// The pieces between the commas that are in no brackets.
fn at_commas(list: &str) -> Vec<&str> {
    let (mut pieces, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (offset, c) in list.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if list[..offset].ends_with(['-', '=']) => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                pieces.push(list[start..offset].trim());
                start = offset + 1;
            }
            _ => {}
        }
    }
    pieces.push(list[start..].trim());
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn is_receiver(parameter: &str) -> bool {
    let name = parameter.split(':').next().unwrap_or_default();
    name.split([' ', '&']).next_back() == Some("self")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    const PATH: &str = "crates/x/src/a.rs";

    fn functions(parameters: &str, count: usize) -> String {
        (0..count).map(|number| format!("fn f{number}({parameters}) {{}}\n")).collect()
    }

    #[test]
    fn one_more_than_is_known_is_caught() {
        for (breach, parameters) in
            BREACHES.iter().zip(["(a, b): (u8, bool)", "&self, on: bool", "a: A, b: B, c: C, d: D, e: E"])
        {
            let found = format!("{} {}", breach.known + 1, breach.what);
            catches(check, &[(PATH, &functions(parameters, breach.known + 1))], &found);
            passes(check, &[(PATH, &functions(parameters, breach.known))]);
        }
    }

    #[test]
    fn receivers_generics_pointers_and_tests_do_not_count() {
        let check = |signature: &str, expected: &[&str]| {
            assert_eq!(parameters_of(signature), Some(expected.to_vec()), "{signature}");
        };
        check(" a(mut self, b: &str) {}", &["b: &str"]);
        check(" a(&'a self, b: Map<K, V>,\n) {}", &["b: Map<K, V>"]);
        check(" a<F: Fn(u8) -> bool>(self: Box<Self>, f: F, itself: u8)", &["f: F", "itself: u8"]);
        check(
            " a(f: impl Fn(u8, u8) -> bool, [a, b]: [u8; 2])",
            &["f: impl Fn(u8, u8) -> bool", "[a, b]: [u8; 2]"],
        );
        assert_eq!(parameters_of("(u8, bool)"), None);
        let many = functions("(a, b): (u8, u8)", 200);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{many}}}\n");
        passes(super::check, &[(PATH, &tests), ("crates/x/tests/a.rs", &many), ("xtask/src/a.rs", &many)]);
    }
}
