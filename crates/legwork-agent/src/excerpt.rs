//! Texts that are too long for where they go: a head and a tail, cut at line boundaries where there are some, with a
//! note between them that says how to get the rest.
//!
//! It does not keep the whole text; whoever cuts knows where that is.

/// Of what remains, the share that the head gets, in percent.
const HEAD_PERCENT: usize = 75;

/// `text` if it has at most `bytes_max` bytes, else its head and its tail with `note` between them. Without the note
/// the parts take at most `bytes_max` bytes together.
pub(crate) fn excerpt(text: &str, bytes_max: usize, note: impl FnOnce(usize) -> String) -> Option<String> {
    excerpt_with_place(text, bytes_max, |left_out, _| note(left_out))
}

/// As [`excerpt`]; the note is also told the byte at which the gap begins.
pub(crate) fn excerpt_with_place(
    text: &str,
    bytes_max: usize,
    note: impl FnOnce(usize, usize) -> String,
) -> Option<String> {
    if text.len() <= bytes_max {
        return None;
    }
    let head_max = bytes_max * HEAD_PERCENT / 100;
    let head = head_of(text, head_max);
    let tail = tail_of(text, bytes_max - head_max);
    let left_out = text.len() - head.len() - tail.len();
    Some(format!("{head}\n[… {} …]\n{tail}", note(left_out, head.len())))
}

/// The longest start of `text` of at most `bytes_max` bytes that ends with a line, or the longest at all when its last
/// line is longer than half of it.
pub(crate) fn head_of(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = &text[..end];
    if text[end..].is_empty() || text[end..].starts_with('\n') {
        return head;
    }
    match head.rfind('\n') {
        Some(line_end) if line_end >= end / 2 => &head[..line_end],
        Some(_) | None => head,
    }
}

pub(crate) fn tail_of(text: &str, bytes_max: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let tail = &text[start..];
    if text[..start].ends_with('\n') {
        return tail;
    }
    match tail.find('\n') {
        Some(line_end) if line_end <= tail.len() / 2 => &tail[line_end + 1..],
        Some(_) | None => tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fin_03_a_long_text_keeps_three_quarters_of_head_and_a_quarter_of_tail_at_line_boundaries() {
        let text: String = (0..100).map(|n| format!("line {n:03}\n")).collect();
        let cut =
            excerpt(&text, 180, |left_out| format!("{left_out} bytes left out")).expect("it is too long");
        let (head, rest) = cut.split_once("\n[… ").expect("there is a note");
        let (note, tail) = rest.split_once(" …]\n").expect("the note ends");
        assert!(head.starts_with("line 000\n") && head.ends_with("line 014"), "{head}");
        assert!(tail.starts_with("line 095\n") && tail.ends_with("line 099\n"), "{tail}");
        assert_eq!(note, format!("{} bytes left out", text.len() - head.len() - tail.len()));
    }

    #[test]
    fn k24_a_cut_never_falls_into_a_character() {
        let text = "👩‍👩‍👧‍👦🇩🇪é".repeat(50);
        for bytes_max in 0..200 {
            let cut = excerpt(&text, bytes_max, |_| "cut".to_owned()).expect("it is too long");
            let (head, _) = cut.split_once("\n[… cut …]\n").expect("there is a note");
            assert!(text.starts_with(head), "at {bytes_max}");
        }
    }

    #[test]
    fn a_text_that_fits_is_left_alone() {
        assert_eq!(excerpt("twelve bytes", 12, |_| unreachable!("nothing is cut")), None);
    }
}
