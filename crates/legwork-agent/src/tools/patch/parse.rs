//! Reads a patch text into its sections. It knows the form and no file.

/// Files that one patch may name.
const FILES_MAX: usize = 100;

/// What is to be done with one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Section {
    Add { path: String, text: String },
    Delete { path: String },
    Update { path: String, move_to: Option<String>, hunks: Vec<Hunk> },
}

/// Lines that stand together in a file, and what becomes of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// The line of the patch it begins at, from 1.
    pub(super) number: usize,
    /// Lines above it, outermost first.
    pub(super) anchors: Vec<String>,
    pub(super) lines: Vec<Line>,
    /// Whether it is at the end of the file.
    pub(super) at_end: bool,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Keep(String),
    Remove(String),
    Add(String),
}

/// Reads all sections.
///
/// # Errors
/// A sentence for the model, with the line of the patch.
pub(super) fn sections(text: &str) -> Result<Vec<Section>, String> {
    let mut lines = body(text)?.into_iter().peekable();
    let mut sections = Vec::new();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        let mut own = Vec::new();
        while let Some(next) = lines.next_if(|(_, line)| !is_header(line)) {
            own.push(next);
        }
        sections.push(section(number, line, &own)?);
        if sections.len() > FILES_MAX {
            return Err(format!("the patch names more than {FILES_MAX} files; send several patches"));
        }
    }
    if sections.is_empty() {
        return Err(
            "the patch is empty: it needs *** Update File, *** Add File or *** Delete File lines".to_owned()
        );
    }
    Ok(sections)
}

/// The numbered lines between begin and end. A patch without its end was cut off on its way.
fn body(text: &str) -> Result<Vec<(usize, &str)>, String> {
    let mut lines: Vec<(usize, &str)> = text.lines().enumerate().map(|(at, line)| (at + 1, line)).collect();
    let is_fence = |line: &str| line.trim().is_empty() || line.trim_start().starts_with("```");
    let begin = lines.iter().position(|(_, line)| !is_fence(line)).unwrap_or(lines.len());
    lines.drain(..begin);
    while lines.last().is_some_and(|(_, line)| is_fence(line)) {
        lines.pop();
    }
    if lines.first().is_none_or(|(_, line)| line.trim() != "*** Begin Patch") {
        return Err(
            "the patch must begin with the line *** Begin Patch, and each file with *** Update File: PATH, \
                    *** Add File: PATH or *** Delete File: PATH"
                .to_owned(),
        );
    }
    if lines.last().is_none_or(|(_, line)| line.trim() != "*** End Patch") {
        return Err(
            "the patch does not end with the line *** End Patch, so a part of it may be missing".to_owned()
        );
    }
    lines.remove(0);
    lines.pop();
    Ok(lines)
}

fn is_header(line: &str) -> bool {
    ["*** Update File:", "*** Add File:", "*** Delete File:"].iter().any(|header| line.starts_with(header))
}

fn section(number: usize, header: &str, lines: &[(usize, &str)]) -> Result<Section, String> {
    let named = |rest: &str| match rest.trim() {
        "" => Err(format!("line {number} of the patch names no file")),
        path => Ok(path.to_owned()),
    };
    if let Some(rest) = header.strip_prefix("*** Update File:") {
        return update(named(rest)?, lines);
    }
    if let Some(rest) = header.strip_prefix("*** Add File:") {
        return Ok(Section::Add { path: named(rest)?, text: added(lines)? });
    }
    if let Some(rest) = header.strip_prefix("*** Delete File:") {
        return match lines.iter().find(|(_, line)| !line.trim().is_empty()) {
            Some((number, _)) => Err(format!(
                "line {number} of the patch stands below a *** Delete File line, which takes no lines"
            )),
            None => Ok(Section::Delete { path: named(rest)? }),
        };
    }
    Err(format!(
        "line {number} of the patch belongs to no file: write *** Update File: PATH, *** Add File: PATH or *** Delete File: PATH above it"
    ))
}

/// The content of a new file. Blank lines between sections do not belong to it.
fn added(lines: &[(usize, &str)]) -> Result<String, String> {
    let end = lines.iter().rposition(|(_, line)| !line.trim().is_empty()).map_or(0, |last| last + 1);
    let mut text = String::new();
    for (number, line) in &lines[..end] {
        let content = match line.strip_prefix('+') {
            Some(content) => content,
            None if line.trim().is_empty() => "",
            None => {
                return Err(format!(
                    "line {number} of the patch must begin with +, as every line of a new file does"
                ));
            }
        };
        text.push_str(content);
        text.push('\n');
    }
    Ok(text)
}

fn update(path: String, lines: &[(usize, &str)]) -> Result<Section, String> {
    let moved = lines.first().and_then(|(_, line)| line.strip_prefix("*** Move to:"));
    let move_to = moved.map(|path| path.trim().to_owned()).filter(|path| !path.is_empty());
    let lines = without_gaps(&lines[usize::from(moved.is_some())..]);
    let mut hunks: Vec<Hunk> = Vec::new();
    for (number, line) in lines {
        if let Some(anchor) = line.strip_prefix("@@") {
            anchor_line(&mut hunks, number, anchor);
        } else if line.trim() == "*** End of File" {
            if let Some(hunk) = hunks.last_mut() {
                hunk.at_end = true;
            }
        } else if !line.starts_with("\\ No newline") {
            let line = hunk_line(number, line)?;
            match hunks.last_mut() {
                Some(hunk) if !hunk.at_end => hunk.lines.push(line),
                // A blank line alone is a gap and begins nothing.
                Some(_) | None if line == Line::Keep(String::new()) => {}
                Some(_) | None => hunks.push(Hunk { number, lines: vec![line], ..Hunk::default() }),
            }
        }
    }
    hunks.retain(|hunk| !hunk.lines.is_empty());
    if hunks.is_empty() && move_to.is_none() {
        return Err(format!("the patch changes nothing in {path}: give lines that begin with - or +"));
    }
    Ok(Section::Update { path, move_to, hunks })
}

/// The lines without the empty ones that only stand between two parts; a blank line of the file begins with a blank.
fn without_gaps<'a>(lines: &[(usize, &'a str)]) -> Vec<(usize, &'a str)> {
    let mut is_gap = true;
    let mut kept = Vec::new();
    for (number, line) in lines.iter().rev() {
        is_gap = if line.is_empty() { is_gap } else { line.starts_with("@@") || line.starts_with("***") };
        if !(line.is_empty() && is_gap) {
            kept.push((*number, *line));
        }
    }
    kept.reverse();
    kept
}

/// A line that begins a hunk, or names a further line above the one that has just begun.
fn anchor_line(hunks: &mut Vec<Hunk>, number: usize, anchor: &str) {
    let anchor = anchor_text(anchor);
    let names = |hunk: &Hunk| hunk.lines.is_empty() && !hunk.at_end;
    if !hunks.last().is_some_and(names) {
        hunks.push(Hunk { number, ..Hunk::default() });
    }
    if let Some(hunk) = hunks.last_mut() {
        hunk.anchors.extend(anchor.map(str::to_owned));
    }
}

/// The line that is named, if there is one. Line numbers as in `@@ -1,4 +1,5 @@` are often wrong and say nothing here.
fn anchor_text(anchor: &str) -> Option<&str> {
    let text = anchor.trim();
    let text = match text.strip_prefix('-').and_then(|rest| rest.split_once("@@")) {
        Some((numbers, rest)) if numbers.chars().all(|c| c.is_ascii_digit() || " ,+-".contains(c)) => {
            rest.trim()
        }
        Some(_) | None => text.strip_suffix("@@").unwrap_or(text).trim(),
    };
    (!text.is_empty()).then_some(text)
}

fn hunk_line(number: usize, line: &str) -> Result<Line, String> {
    let mut characters = line.chars();
    let sign = characters.next();
    let content = || characters.as_str().to_owned();
    match sign {
        None => Ok(Line::Keep(String::new())),
        Some(' ') => Ok(Line::Keep(content())),
        Some('-') => Ok(Line::Remove(content())),
        Some('+') => Ok(Line::Add(content())),
        Some(_) => Err(format!(
            "line {number} of the patch begins with none of: a blank for a line that stays, - for one that goes, + for one that comes, @@, ***"
        )),
    }
}
