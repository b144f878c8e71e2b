//! Finding words and brackets in text: what the rules share. It knows no rule and no file.

/// Whether `c` can be part of a name.
pub fn in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The byte offsets at which `word` stands alone: no letter, digit or underscore touches it.
pub fn word_offsets<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(offset, _)| offset).filter(move |&offset| {
        let before = text[..offset].chars().next_back();
        let after = text[offset + word.len()..].chars().next();
        !before.is_some_and(in_name) && !after.is_some_and(in_name)
    })
}

pub fn has_word(text: &str, word: &str) -> bool {
    word_offsets(text, word).next().is_some()
}

/// The name at the start of `text`, blanks before it skipped; empty if there is none.
pub fn leading_name(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c| !in_name(c)).unwrap_or(text.len());
    &text[..end]
}

/// The offset just behind the bracket that closes the one at `open`; the text's end if none does.
pub fn behind_closing(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (offset, c) in code[open..].char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return open + offset + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// The offset of the first `{` or `;` at or after `from` that is not inside round or square brackets.
pub fn body_or_end(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, c) in code[from..].char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '{' | ';' if depth == 0 => return Some(from + offset),
            _ => {}
        }
    }
    None
}

/// The line, from 1, on which the byte at `offset` stands.
pub fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stands_alone() {
        assert_eq!(word_offsets("fn fnord(x: fn())", "fn").collect::<Vec<_>>(), [0, 12]);
        assert!(!has_word("legworker", "legwork"));
        assert_eq!(leading_name("  name_1(x)"), "name_1");
    }

    #[test]
    fn brackets_are_matched_and_bodies_found() {
        let code = "fn f(a: [u8; 4]) { if x { y } }\nfn g();";
        let open = body_or_end(code, 0).unwrap();
        assert_eq!(&code[open..behind_closing(code, open)], "{ if x { y } }");
        let second = code.find("fn g").unwrap();
        assert_eq!(&code[body_or_end(code, second).unwrap()..], ";");
        assert_eq!(line_of(code, second), 2);
    }
}
