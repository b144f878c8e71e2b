//! Splits a stream of bytes into the events of `text/event-stream`, lossily where the bytes or the JSON in them are
//! not valid Unicode (invariant 22). It knows nothing of what an event means.

use super::unicode::without_lone_surrogates;

/// An incremental reader of server-sent events.
///
/// An event that is not closed by a blank line is not given out, as the format wants it: its end may be missing.
#[derive(Debug, Default)]
pub(super) struct Frames {
    line: Vec<u8>,
    data: String,
    has_data: bool,
    after_return: bool,
}

impl Frames {
    /// Reads the next bytes and puts the data of every event they complete into `out`. Events without data are left
    /// out.
    pub fn read(&mut self, mut bytes: &[u8], out: &mut Vec<String>) {
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, rest) = bytes.split_at(end);
            // The second half of a carriage return and line feed ends nothing.
            let half = self.after_return && line.is_empty() && self.line.is_empty() && rest[0] == b'\n';
            self.after_return = rest[0] == b'\r';
            bytes = &rest[1..];
            if !half {
                self.line.extend_from_slice(line);
                self.end_line(out);
            }
        }
        if !bytes.is_empty() {
            self.after_return = false;
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, out: &mut Vec<String>) {
        if self.line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                let data = std::mem::take(&mut self.data);
                out.push(without_lone_surrogates(data));
            }
            return;
        }
        if let Some(value) = data_of(&self.line) {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push('\n');
            }
            self.data.push_str(&String::from_utf8_lossy(value));
        }
        self.line.clear();
    }
}

/// The value of a `data` line; none for any other field and for comments.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let rest = line.strip_prefix(b"data")?;
    let Some(value) = rest.strip_prefix(b":") else {
        return rest.is_empty().then_some(rest);
    };
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[&[u8]], expected: &[&str]) {
        let mut frames = Frames::default();
        let mut out = Vec::new();
        for chunk in chunks {
            frames.read(chunk, &mut out);
        }
        assert_eq!(out, expected);
    }

    #[test]
    fn events_are_split_at_blank_lines_whatever_the_line_ends() {
        check(&[b"data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n"], &["a", "b", "c", "d"]);
    }

    #[test]
    fn an_event_may_be_cut_at_any_byte() {
        let text = ": hi\r\nevent: x\r\ndata: \u{e4}b\r\ndata:c\r\n\r\ndata\n\n".as_bytes();
        for cut in 0..text.len() {
            check(&[&text[..cut], &text[cut..]], &["\u{e4}b\nc", ""]);
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        check(&bytes, &["\u{e4}b\nc", ""]);
    }

    #[test]
    fn an_event_that_is_not_closed_is_not_given_out() {
        check(&[b"data: a\n\ndata: b\n"], &["a"]);
    }

    #[test]
    fn comments_and_a_byte_order_mark_are_skipped() {
        check(&[b"\xef\xbb\xbfdata: a\n\n: keep-alive\n\n\n"], &["a"]);
    }

    #[test]
    fn k24_invalid_bytes_become_replacement_characters() {
        check(&[b"data: a\xffb\n\n"], &["a\u{fffd}b"]);
    }
}
