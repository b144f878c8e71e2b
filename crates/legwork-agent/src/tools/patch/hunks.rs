//! Finds the places of hunks in a file and gives the file's new text.
//!
//! A hunk must fit one place only: after the hunk before it, and below the lines it names. Blanks at the ends of lines
//! and line ends are not compared; what stays is taken from the file, so it keeps them.

use super::nearest;
use super::original::{Original, list};
use super::parse::{Hunk, Line};
use std::collections::HashMap;

/// The new text of a file.
///
/// # Errors
/// A sentence for the model, without the file's name.
pub(super) fn apply(before: &Original, hunks: &[Hunk]) -> Result<String, String> {
    let text = before.body();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let finder = Finder::new(text, &lines);
    let mut after = After { text: before.mark().to_owned(), line_end: before.line_end() };
    let mut at = 0;
    for hunk in hunks {
        let place = finder.place(hunk, at)?;
        lines[at..place].iter().for_each(|line| after.push(line));
        at = place;
        for line in &hunk.lines {
            match line {
                Line::Keep(_) => after.push(lines[at]),
                Line::Add(line) => after.push_new(line),
                Line::Remove(_) => {}
            }
            at += usize::from(!matches!(line, Line::Add(_)));
        }
    }
    lines[at..].iter().for_each(|line| after.push(line));
    Ok(after.finish(text))
}

/// The text that comes about.
struct After {
    text: String,
    line_end: &'static str,
}

impl After {
    fn push(&mut self, line: &str) {
        if !self.text.is_empty() && !self.text.ends_with(['\n', '\u{feff}']) {
            self.text.push_str(self.line_end);
        }
        self.text.push_str(line);
    }

    fn push_new(&mut self, line: &str) {
        self.push(line);
        self.text.push_str(self.line_end);
    }

    /// A file whose last line had no end gets none.
    fn finish(mut self, before: &str) -> String {
        if !before.is_empty() && !before.ends_with('\n') && self.text.ends_with('\n') {
            let end = self.text.len() - if self.text.ends_with("\r\n") { 2 } else { 1 };
            self.text.truncate(end);
        }
        self.text
    }
}

/// Lines as numbers, so that many of them are compared quickly.
struct Finder<'a> {
    text: &'a str,
    lines: &'a [&'a str],
    numbers: HashMap<&'a str, u32>,
    numbered: Vec<u32>,
}

impl<'a> Finder<'a> {
    fn new(text: &'a str, lines: &'a [&'a str]) -> Self {
        let mut numbers = HashMap::new();
        let mut number = |line: &'a str| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(line.trim_end()).or_insert(next)
        };
        let numbered = lines.iter().map(|line| number(line)).collect();
        Finder { text, lines, numbers, numbered }
    }

    /// The index of the line at which a hunk begins.
    fn place(&self, hunk: &Hunk, from: usize) -> Result<usize, String> {
        let old: Vec<&str> = hunk.lines.iter().filter_map(old_line).collect();
        if old.is_empty() {
            return self.gap(hunk, from);
        }
        let starts = self.matches(&old);
        self.choose(hunk, from, &old, &starts)
    }

    /// Where these lines stand.
    fn matches(&self, old: &[&str]) -> Vec<usize> {
        let wanted: Option<Vec<u32>> =
            old.iter().map(|line| self.numbers.get(line.trim_end()).copied()).collect();
        let Some(wanted) = wanted else { return Vec::new() };
        let windows = self.numbered.windows(wanted.len()).enumerate();
        windows.filter(|(_, window)| *window == wanted.as_slice()).map(|(start, _)| start).collect()
    }

    /// The one place of several that the hunk can mean.
    fn choose(&self, hunk: &Hunk, from: usize, old: &[&str], starts: &[usize]) -> Result<usize, String> {
        let below: Vec<usize> = starts.iter().copied().filter(|start| *start >= from).collect();
        let fitting = if hunk.at_end {
            below.iter().copied().filter(|start| start + old.len() == self.lines.len()).collect()
        } else if hunk.anchors.is_empty() {
            below
        } else {
            self.below_anchors(hunk, from, &below)?
        };
        let numbered = |starts: &[usize]| list(&starts.iter().map(|start| start + 1).collect::<Vec<_>>());
        let number = hunk.number;
        match (fitting.as_slice(), starts) {
            ([start], _) => Ok(*start),
            ([], []) => Err(format!(
                "the lines below line {number} of the patch are not in it. {}",
                nearest::hint(self.text, &old.join("\n"))
            )),
            ([], _) => Err(format!(
                "the lines below line {number} of the patch are in it, but only at line {}, and not behind the part before or below the line that @@ names, or not at the end of the file: put the parts in the order of the file and check the @@ line",
                numbered(starts)
            )),
            (several, _) => Err(format!(
                "the lines below line {number} of the patch are there {} times, at lines {}: give more of the lines around the ones you mean, or name a line above them after @@",
                several.len(),
                numbered(several)
            )),
        }
    }

    /// The first of these places below each spot that the hunk's named lines can mean.
    fn below_anchors(&self, hunk: &Hunk, from: usize, starts: &[usize]) -> Result<Vec<usize>, String> {
        let spots = self.spots(hunk, from)?;
        let first = |spot: &usize| starts.get(starts.partition_point(|start| start < spot)).copied();
        let mut found: Vec<usize> = spots.iter().filter_map(first).collect();
        found.dedup();
        Ok(found)
    }

    /// Where the lines begin that are below the named ones.
    fn spots(&self, hunk: &Hunk, from: usize) -> Result<Vec<usize>, String> {
        let (outermost, inner) = hunk.anchors.split_first().ok_or("BUG: no line is named")?;
        let mut spots: Vec<usize> = self.anchors(outermost, from)?.iter().map(|at| at + 1).collect();
        for anchor in inner {
            let places = self.anchors(anchor, from)?;
            let first = |spot: &usize| places.get(places.partition_point(|at| at < spot)).map(|at| at + 1);
            spots = spots.iter().filter_map(first).collect();
            spots.dedup();
        }
        Ok(spots)
    }

    /// The lines that a name after `@@` can mean: equal ones, or else those that hold it.
    fn anchors(&self, anchor: &str, from: usize) -> Result<Vec<usize>, String> {
        // The line may be the last one of the part before.
        let lines = || self.lines.iter().enumerate().skip(from.saturating_sub(1));
        let equal: Vec<usize> = lines().filter(|(_, line)| line.trim() == anchor).map(|(at, _)| at).collect();
        if !equal.is_empty() {
            return Ok(equal);
        }
        let holding: Vec<usize> =
            lines().filter(|(_, line)| line.contains(anchor)).map(|(at, _)| at).collect();
        if holding.is_empty() {
            let hint = nearest::hint(self.text, anchor);
            return Err(format!(
                "the line `{anchor}`, which @@ names, is not in it or only above the part before. {hint}"
            ));
        }
        Ok(holding)
    }

    /// Where lines go that have none around them.
    fn gap(&self, hunk: &Hunk, from: usize) -> Result<usize, String> {
        if hunk.at_end || self.lines.is_empty() {
            return Ok(self.lines.len());
        }
        let nowhere = "only adds lines and does not say where: give a line that stays above or below them, or *** End of File behind them";
        if hunk.anchors.is_empty() {
            return Err(format!("the part at line {} of the patch {nowhere}", hunk.number));
        }
        let spots: Vec<usize> = self.spots(hunk, from)?.into_iter().filter(|spot| *spot >= from).collect();
        match spots.as_slice() {
            [spot] => Ok(*spot),
            [] => Err(format!("the part at line {} of the patch {nowhere}", hunk.number)),
            several => Err(format!(
                "the line that @@ names at line {} of the patch is there {} times, at lines {}: give a line that stays above or below the new ones",
                hunk.number,
                several.len(),
                list(several)
            )),
        }
    }
}

fn old_line(line: &Line) -> Option<&str> {
    match line {
        Line::Keep(line) | Line::Remove(line) => Some(line),
        Line::Add(_) => None,
    }
}
