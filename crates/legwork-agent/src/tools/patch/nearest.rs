//! What to tell a model whose text is not in a file: the lines that come closest, with their numbers and exactly as
//! they are, so that it can send them.

use std::fmt::Write;

/// Lines of a file that are compared by likeness; those behind are not looked at.
const COMPARED_MAX: usize = 20_000;
/// Comparisons of whole lines; a longer text is not looked for with other spaces.
const COMPARISONS_MAX: usize = 10_000_000;
/// Characters of a line that are compared.
const COMPARED_CHARS: usize = 200;
/// How alike two lines must be to be worth showing, from 0 to 1.
const LIKENESS_MIN: f64 = 0.5;
/// Lines that are shown, and characters of each.
const SHOWN_MAX: usize = 12;
const SHOWN_CHARS: usize = 300;

/// Where in `text` something like `wanted` is.
pub(super) fn hint(text: &str, wanted: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let parts: Vec<&str> = wanted.lines().map(str::trim).collect();
    let parts = trim_blank(&parts);
    if let Some(start) = same_but_spaces(&lines, parts) {
        return format!(
            "The same lines with other spaces are there; send them exactly as they are:\n{}",
            show(&lines, start, parts.len())
        );
    }
    match closest(&lines, parts) {
        Some(at) => format!(
            "The closest lines are these; send text exactly as it is:\n{}",
            show(&lines, at, parts.len().max(3))
        ),
        None => {
            format!("Nothing like it is in its {} lines; look with read_file or search_files", lines.len())
        }
    }
}

fn trim_blank<'a, 'b>(mut parts: &'b [&'a str]) -> &'b [&'a str] {
    while let [first, rest @ ..] = parts
        && first.is_empty()
    {
        parts = rest;
    }
    while let [rest @ .., last] = parts
        && last.is_empty()
    {
        parts = rest;
    }
    parts
}

fn same_but_spaces(lines: &[&str], parts: &[&str]) -> Option<usize> {
    let first = parts.first()?;
    if lines.len().saturating_mul(parts.len()) > COMPARISONS_MAX {
        return None;
    }
    let same = |start: usize| {
        lines[start..].len() >= parts.len()
            && lines[start..].iter().zip(parts).all(|(line, part)| line.trim() == *part)
    };
    (0..lines.len()).find(|start| lines[*start].trim() == *first && same(*start))
}

/// The line that a line of the wanted text is equal to, of several lines the longest; else the one that is most like
/// the first.
fn closest(lines: &[&str], parts: &[&str]) -> Option<usize> {
    let mut by_length: Vec<(usize, &str)> = parts.iter().copied().enumerate().take(SHOWN_MAX).collect();
    by_length.sort_by_key(|(_, part)| std::cmp::Reverse(part.len()));
    for (index, part) in by_length.iter().filter(|(_, part)| part.len() >= 4) {
        if let Some(at) = lines.iter().position(|line| line.trim() == *part) {
            return Some(at.saturating_sub(*index));
        }
    }
    let first = start_of(parts.first()?);
    let likeness = |line: &str| strsim::sorensen_dice(start_of(line.trim()), first);
    let compared = lines.iter().take(COMPARED_MAX).enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (likeness, at) = compared
        .map(|(at, line)| (likeness(line), at))
        .max_by(|(a, at_a), (b, at_b)| a.total_cmp(b).then(at_b.cmp(at_a)))?;
    (likeness >= LIKENESS_MIN).then_some(at)
}

fn start_of(line: &str) -> &str {
    line.char_indices().nth(COMPARED_CHARS).map_or(line, |(end, _)| &line[..end])
}

/// Lines with their numbers.
fn show(lines: &[&str], start: usize, count: usize) -> String {
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate().skip(start).take(count.min(SHOWN_MAX)) {
        let end = line.char_indices().nth(SHOWN_CHARS).map_or(line.len(), |(end, _)| end);
        let cut = if end < line.len() { " […]" } else { "" };
        // Writing to a String cannot fail.
        writeln!(text, "{:>5}: {}{cut}", at + 1, &line[..end]).ok();
    }
    if count > SHOWN_MAX {
        writeln!(text, "       (and {} more)", count - SHOWN_MAX).ok();
    }
    text.truncate(text.trim_end().len());
    text
}
