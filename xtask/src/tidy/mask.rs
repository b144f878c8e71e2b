//! Rust text with its comments and literals blanked, so that rules which look for code do not find prose. It is a small
//! lexer, not a parser: it keeps every newline and every character of code in place and understands nothing else.

/// The text with each comment, string and character literal replaced by blanks, newlines kept.
pub fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        match prose_end(&chars, at) {
            Some(end) => {
                code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
                at = end;
            }
            None => {
                code.push(chars[at]);
                at += 1;
            }
        }
    }
    code
}

/// Where the comment or literal that begins at `at` ends, or nothing if code is there.
fn prose_end(chars: &[char], at: usize) -> Option<usize> {
    match (chars[at], chars.get(at + 1).copied()) {
        ('/', Some('/')) => Some(find(chars, at, |c| c == '\n')),
        ('/', Some('*')) => Some(block_comment_end(chars, at)),
        ('"', _) => Some(quoted_end(chars, at)),
        ('\'', Some('\\')) => Some(quoted_end(chars, at)),
        ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => Some(at + 3),
        ('r', Some('"' | '#')) => raw_string_end(chars, at),
        _ => None,
    }
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    chars[from..].iter().position(|&c| wanted(c)).map_or(chars.len(), |offset| from + offset)
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let mut depth = 0usize;
    let mut at = start;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1).copied()) {
            ('/', Some('*')) => {
                depth += 1;
                at += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    chars.len()
}

fn quoted_end(chars: &[char], start: usize) -> usize {
    let quote = chars[start];
    let mut at = start + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], start: usize) -> Option<usize> {
    // `br"…"` and `cr"…"` are raw too; any other letter before the `r` makes it the end of a name.
    let before = start.checked_sub(1).map(|index| chars[index]);
    let in_name =
        before.is_some_and(|c| c.is_alphanumeric() || c == '_') && !matches!(before, Some('b' | 'c'));
    let quote = find(chars, start + 1, |c| c != '#');
    if in_name || chars.get(quote) != Some(&'"') {
        return None;
    }
    let hashes = quote - start - 1;
    let mut at = quote + 1;
    while at < chars.len() {
        let closes = chars[at] == '"' && chars[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes;
        if closes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(chars.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &str) {
        assert_eq!(code_only(text), code, "for {text:?}");
    }

    #[test]
    fn comments_and_literals_become_blanks() {
        check("a // b\nc", "a     \nc");
        check("a /* b /* c */ d */ e", "a                   e");
        check(r#"f("x\"y") + 1"#, "f(      ) + 1");
        check("r#\"a\"b\"# x", "         x");
        check("br\"{\" x", "b     x");
        check("('{', '\\'', b'}')", "(   ,     , b   )");
        check("\"open", "     ");
    }

    #[test]
    fn lifetimes_and_raw_names_stay_code() {
        check("fn a<'a>(x: &'a str)", "fn a<'a>(x: &'a str)");
        check("r#type for_r(\"x\")", "r#type for_r(   )");
    }
}
