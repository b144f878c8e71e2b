//! What is left to tell of a child whose end is not known: where it last stood, and the last lines of its transcript
//! (EVT-7). It is gathered from the stored pulse and the transcript's file, before the message is written and outside
//! of any write to the store; what cannot be read is left out.

use super::head::age;
use super::quoted::name;
use legwork_core::ids::ChildId;
use legwork_core::outcome::Outcome;
use legwork_core::pulse::Phase;
use legwork_core::record::{ChildRecord, DelegationRecord};
use legwork_core::time::Timestamp;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Lines of a transcript that are told, and bytes that are read for them: lines are short.
const TAIL_LINES: usize = 20;
const TAIL_BYTES_MAX: u64 = 16 * 1024;

/// What is left to tell of one child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remains {
    /// The child.
    pub(super) child: ChildId,
    /// Where it last stood, as a line of ours.
    pub(super) known: String,
    /// The last lines of its transcript, which others wrote.
    pub(super) tail: Option<String>,
    /// Where the repository stands that it worked in, in git's words; told once a message.
    pub(crate) git: Option<String>,
}

/// The remains of those children of a unit whose end is not known. It blocks on files.
pub(crate) fn gather(record: &DelegationRecord, unit: usize, now: Timestamp) -> Vec<Remains> {
    let indexes =
        record.accepted.units.get(unit).map(|unit| unit.task_indexes.as_slice()).unwrap_or_default();
    let lost = indexes.iter().filter_map(|index| Some((*index, record.children.get(*index)?)));
    let lost = lost.filter(|(_, child)| child.outcome() == Some(Outcome::Lost));
    lost.map(|(index, child)| Remains {
        child: child.id.clone(),
        known: known(child, now),
        tail: record.accepted.transcripts.get(index).and_then(|path| tail(path)),
        git: None,
    })
    .collect()
}

fn known(child: &ChildRecord, now: Timestamp) -> String {
    let Some((pulse, at)) = &child.pulse else {
        return "Last known, and no longer so: it had begun".to_owned();
    };
    let phase = match &pulse.phase {
        Phase::Starting => "being set up".to_owned(),
        Phase::Model => "waiting for the model".to_owned(),
        Phase::Tool(tool) => format!("running the tool {}", name(tool)),
        Phase::Children => "waiting for subagents of its own".to_owned(),
    };
    format!(
        "Last known, and no longer so: {phase}, model calls: {}, tool calls: {}, {} before this message",
        pulse.model_calls,
        pulse.tool_calls,
        age(now.since(*at)),
    )
}

fn tail(path: &str) -> Option<String> {
    if path.is_empty() {
        return None;
    }
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().inspect_err(|error| tracing::debug!(%error, path, "no tail of a transcript")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let last = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    (!last.trim().is_empty()).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::pulse::Pulse;
    use std::fs;

    #[test]
    fn of_a_long_transcript_the_last_lines_are_told_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("task-0.log");
        let path = path.to_str().expect("text");
        assert_eq!(tail(path), None, "what cannot be read is left out");
        let lines: Vec<String> =
            (0..5000).map(|number| format!("12:00:00 note     | line {number}")).collect();
        fs::write(path, format!("# head\n{}\n", lines.join("\n"))).expect("it is written");
        assert_eq!(tail(path), Some(lines[4980..].join("\n")));
        fs::write(path, "# head\n").expect("it is written");
        assert_eq!(tail(path), None);
    }

    #[test]
    fn the_last_known_place_says_that_it_is_old() {
        let mut child = ChildRecord::new(ChildId::from_bits(0, 7));
        assert!(known(&child, Timestamp(0)).contains("no longer so: it had begun"));
        let phase = Phase::Tool("terminal\nx".to_owned());
        child.pulse =
            Some((Pulse { phase, model_calls: 4, tool_calls: 3, ..Pulse::default() }, Timestamp(1000)));
        assert_eq!(
            known(&child, Timestamp(186_000)),
            "Last known, and no longer so: running the tool terminal?x, model calls: 4, tool calls: 3, 3m5s before this message"
        );
    }
}
