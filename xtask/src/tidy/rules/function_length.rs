//! Functions stay short enough to be seen whole. Counted from the line of `fn` to the line of its closing brace.

use crate::tidy::finding::Finding;
use crate::tidy::rust_file::RustFile;
use crate::tidy::scan::{behind_closing, body_or_end, leading_name, word_offsets};
use crate::tidy::tree::Tree;

const RULE: &str = "function-length";
const LINES_MAX: usize = 70;

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().iter().flat_map(long_functions).collect()
}

fn long_functions(file: &RustFile) -> Vec<Finding> {
    let keywords = word_offsets(&file.code, "fn");
    keywords.filter_map(|offset| too_long(file, offset)).collect()
}

fn too_long(file: &RustFile, keyword: usize) -> Option<Finding> {
    let name = leading_name(&file.code[keyword + 2..]);
    let body = body_or_end(&file.code, keyword)?;
    // A function pointer has no name; a declaration in a trait has no body.
    if name.is_empty() || file.code[body..].starts_with(';') {
        return None;
    }
    let first = file.line_of(keyword);
    let last = file.line_of(behind_closing(&file.code, body).saturating_sub(1));
    let lines = last + 1 - first;
    let message =
        format!("`{name}` has {lines} lines, the limit is {LINES_MAX}: let it decide and others compute");
    (lines > LINES_MAX).then(|| Finding::at(RULE, file.place(first), message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    fn function(lines: usize) -> String {
        format!(
            "type F = fn(u8);\ntrait T {{\n    fn short(x: [u8; 2]);\n}}\nfn long() {{\n{}}}\n",
            "    a();\n".repeat(lines)
        )
    }

    #[test]
    fn a_long_function_is_caught_at_its_line() {
        catches(check, &[("a.rs", &function(69))], "a.rs:5: function-length: `long` has 71 lines");
    }

    #[test]
    fn seventy_lines_and_bodiless_functions_pass() {
        passes(check, &[("a.rs", &function(68))]);
    }

    #[test]
    fn braces_in_text_do_not_count() {
        let code = format!("fn a() {{\n    b(\"{{\");\n}}\n{}", "// }\n".repeat(80));
        passes(check, &[("a.rs", &code)]);
    }
}
