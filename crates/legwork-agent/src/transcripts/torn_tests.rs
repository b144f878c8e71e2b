//! Transcripts that a dead process left cut off or damaged at any byte: what is there is shown, what is wrong is said, and
//! whoever goes on writes whole lines (K43).

use super::child::HEAD_END;
use super::line::is_one;
use super::tests::{AT, heading, tool};
use super::{FileTranscripts, Follow, Source};
use legwork_core::outcome::Outcome;
use legwork_core::ports::{Heading, Transcripts};
use legwork_core::pulse::LineEvent;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// What only the second process says.
const LATER: &str = "ß and more: fertig";
/// What it begins with where it found a cut line.
const CUT: &str = "the line above was cut off; from here on another process runs it";

fn long_goal() -> Heading {
    Heading { goal: "läs filen\n".repeat(20), context: Some("über alles".to_owned()), ..heading(0) }
}

/// The bytes that a run leaves that has not ended, with characters of one to four bytes.
fn left() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let transcripts = FileTranscripts::new(folder.path().join("live")).expect("a thread");
    let paths = transcripts.create(&[long_goal()]).expect("a folder for it");
    let child = heading(0).child;
    transcripts.append(&child, AT, &LineEvent::ModelCalled);
    transcripts.append(&child, AT, &LineEvent::Text("Ich läse 日本 𝄞 now.".to_owned()));
    tool(&transcripts, &child, "größe 12\nno more");
    transcripts.append(&child, AT, &LineEvent::Thinking("so ö".to_owned()));
    drop(transcripts);
    // What was streamed and made no line yet goes with its process.
    fs::read(&paths[0]).expect("the transcript")
}

/// A state folder in which a dead process left these bytes.
struct Left {
    folder: TempDir,
    path: PathBuf,
}

impl Left {
    fn with(bytes: &[u8]) -> Left {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("live/deleg_00000abc/task-0.log");
        fs::create_dir_all(path.parent().expect("a folder")).expect("ours");
        fs::write(&path, bytes).expect("ours");
        Left { folder, path }
    }

    /// Another process goes on with the child to its end.
    fn go_on(&self) {
        let transcripts = FileTranscripts::new(self.folder.path().join("live")).expect("a thread");
        transcripts.reopen(&[long_goal()], &[], AT).expect("the folder is there");
        let child = heading(0).child;
        transcripts.append(&child, AT, &LineEvent::ModelCalled);
        tool(&transcripts, &child, LATER);
        transcripts.finish(&child, AT, Outcome::Succeeded, None);
        assert!(transcripts.close());
    }

    /// What a reader shows, and what of it is cut off at the end.
    fn shown(&self) -> (Vec<String>, Vec<String>, bool) {
        let mut follow = Follow::new(vec![Source { label: String::new(), path: self.path.clone() }]);
        let lines = follow.look().expect("a file");
        (lines, follow.cut_off(), follow.has_ended())
    }
}

/// The whole lines of these bytes, and what stands behind the last.
fn parts(bytes: &[u8]) -> (Vec<String>, &[u8]) {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    let whole = std::str::from_utf8(&bytes[..end]).expect("whole lines are text");
    (whole.lines().map(str::to_owned).collect(), &bytes[end..])
}

/// Proves LIVE-12.
#[test]
fn k43_a_transcript_cut_at_any_byte_is_shown_as_far_as_it_goes_and_gone_on_with() {
    let whole = left();
    assert!(whole.len() > 800, "{}", String::from_utf8_lossy(&whole));
    for length in 0..=whole.len() {
        let (lines, torn) = parts(&whole[..length]);
        let left = Left::with(&whole[..length]);
        let (shown, cut_off, _) = left.shown();
        assert_eq!(shown, lines, "{length}");
        assert_eq!(cut_off.len(), usize::from(!torn.is_empty()), "{length}");
        assert!(cut_off.iter().all(|line| line.ends_with("[cut off here]")), "{length}: {cut_off:?}");

        left.go_on();
        let bytes = fs::read(&left.path).expect("the transcript");
        assert_eq!(&bytes[..length], &whole[..length], "{length}: what was there stays as it was");
        let (shown, cut_off, has_ended) = left.shown();
        assert!(has_ended && cut_off.is_empty(), "{length}: {shown:?}");
        assert_eq!(shown[..lines.len()], lines, "{length}");
        let later = &shown[lines.len() + usize::from(!torn.is_empty())..];
        assert!(later.iter().all(|line| is_one(line) && !line.contains("[damaged")), "{length}: {later:?}");
        let notes: Vec<bool> = later
            .iter()
            .filter(|line| line.contains("from here on another process runs it"))
            .map(|line| line.contains(CUT))
            .collect();
        assert_eq!(notes, [!torn.is_empty()], "{length}: {later:?}");
        assert!(later.iter().any(|line| line.ends_with(LATER)), "{length}: {later:?}");
        let heads = shown.iter().filter(|line| line.as_str() == HEAD_END).count();
        assert_eq!(heads, 1, "{length}: there is one whole head: {shown:?}");
    }
}

#[test]
fn k43_zero_bytes_at_the_end_are_counted_and_the_next_line_is_whole() {
    let whole = left();
    for (kept, zeros) in
        [(whole.len(), 500), (whole.len() - 7, 500), (whole.len() - 7, 1), (0, 500), (40, 4096)]
    {
        let bytes = [&whole[..kept], &vec![0; zeros]].concat();
        let left = Left::with(&bytes);
        let damage = format!("[damaged: {zeros} bytes here are no text]");
        let (lines, _) = parts(&whole[..kept]);
        let (shown, cut_off, _) = left.shown();
        assert_eq!(shown, lines);
        assert!(cut_off.len() == 1 && cut_off[0].contains(&damage), "{cut_off:?}");
        left.go_on();
        let (shown, cut_off, has_ended) = left.shown();
        assert!(has_ended && cut_off.is_empty(), "{shown:?}");
        assert_eq!(shown[..lines.len()], lines);
        assert!(shown[lines.len()].contains(&damage), "{shown:?}");
        assert!(shown[lines.len() + 1..].iter().all(|line| is_one(line) && !line.contains("[damaged")));
        assert!(shown.iter().all(|line| !line.contains(char::is_control)), "{shown:?}");
    }
}

/// Every line that is whole is shown as it is, and every one that is not says so.
#[test]
fn k43_damage_in_the_middle_is_told_where_it_is() {
    let whole = left();
    let text = String::from_utf8(whole.clone()).expect("text");
    let starts: Vec<usize> = text.match_indices('\n').map(|(place, _)| place + 1).collect();
    let middle = starts[starts.len() / 2];
    let spliced = b"12:00:0112:00:01 result   | read_file ok 0.1s other\n".as_slice();
    let half = b"e and no beginning\n".as_slice();
    let no_time = b"4294967295:99:99 tool     | x\n".as_slice();
    let escape = b"12:00:01 tool     | \x1b[2J\xff\xfe read\n".as_slice();
    for (inserted, told) in [
        (vec![0; 500], "[damaged: 500 bytes here are no text]"),
        (spliced.to_vec(), "[damaged: this is not a whole line]"),
        (half.to_vec(), "[damaged: this is not a whole line]"),
        (no_time.to_vec(), "[damaged: this is not a whole line]"),
        (escape.to_vec(), "[damaged: 3 bytes here are no text]"),
    ] {
        let bytes = [&whole[..middle], &inserted, &whole[middle..]].concat();
        let (shown, cut_off, _) = Left::with(&bytes).shown();
        let damaged: Vec<&String> = shown.iter().filter(|line| line.contains("[damaged")).collect();
        assert!(damaged.len() == 1 && damaged[0].contains(told), "{damaged:?}");
        assert!(cut_off.is_empty() && shown.iter().all(|line| !line.contains(char::is_control)));
        let whole_lines = shown.iter().filter(|line| !line.contains("[damaged"));
        let expected: Vec<&str> = text.lines().collect();
        assert!(whole_lines.clone().all(|line| expected.contains(&line.as_str())));
        // Zeros without a line of their own take the line behind them with them; nothing else is lost.
        let lost = usize::from(!inserted.ends_with(b"\n"));
        assert_eq!(whole_lines.count(), expected.len() - lost);
    }
}

/// Bytes that are no transcript at all.
#[test]
fn k43_no_bytes_keep_a_reader_from_the_others() {
    for seed in 1..200u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut noise = Vec::new();
        for _ in 0..seed * 7 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Many digits, colons and ends of lines among them.
            noise.push(b"0123456789:: \n|finaltol\0\xc3\xa9"[usize::try_from(state % 26).expect("small")]);
        }
        let left = Left::with(&noise);
        let (shown, ..) = left.shown();
        assert!(shown.iter().all(|line| line.contains("[damaged") || is_one(line)), "{shown:?}");
        left.go_on();
        let (shown, cut_off, has_ended) = left.shown();
        assert!(has_ended && cut_off.is_empty());
        assert!(shown.iter().any(|line| line.ends_with(LATER)), "{shown:?}");
    }
}
