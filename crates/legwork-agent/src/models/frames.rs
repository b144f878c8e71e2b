//! Splits a stream of bytes into frames: the events of `text/event-stream`, or lines of JSON. Lossily where the bytes or
//! the JSON in them are not valid Unicode (invariant 22). It knows nothing of what a frame means.

use super::unicode::without_lone_surrogates;

/// An incremental reader of frames.
#[derive(Debug)]
pub(super) enum Frames {
    /// Of server-sent events. One that is not closed by a blank line is not given out, as the format wants it: its end
    /// may be missing.
    Events(Events),
    /// Of lines, each of which is a frame. The last one may end without a line feed.
    Lines(Vec<u8>),
}

impl Frames {
    /// A reader of server-sent events.
    pub fn events() -> Self {
        Frames::Events(Events::default())
    }

    /// A reader of lines.
    pub fn lines() -> Self {
        Frames::Lines(Vec::new())
    }

    /// Reads the next bytes and puts the data of every frame they complete into `out`. Frames without data are left
    /// out.
    pub fn read(&mut self, bytes: &[u8], out: &mut Vec<String>) {
        match self {
            Frames::Events(events) => events.read(bytes, out),
            Frames::Lines(line) => read_lines(line, bytes, out),
        }
    }

    /// The frame that the end of the stream completes, if there is one. To be asked once, at the end.
    pub fn rest(&mut self) -> Option<String> {
        match self {
            Frames::Events(_) => None,
            Frames::Lines(line) => frame_of(&std::mem::take(line)),
        }
    }
}

fn read_lines(line: &mut Vec<u8>, mut bytes: &[u8], out: &mut Vec<String>) {
    while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        line.extend_from_slice(&bytes[..end]);
        out.extend(frame_of(line));
        line.clear();
        bytes = &bytes[end + 1..];
    }
    line.extend_from_slice(bytes);
}

fn frame_of(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    (!text.is_empty()).then(|| without_lone_surrogates(text.to_owned()))
}

/// An incremental reader of server-sent events.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    data: String,
    has_data: bool,
    after_return: bool,
}

impl Events {
    fn read(&mut self, mut bytes: &[u8], out: &mut Vec<String>) {
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
        check_frames(Frames::events(), chunks, expected);
    }

    fn check_frames(mut frames: Frames, chunks: &[&[u8]], expected: &[&str]) {
        let mut out = Vec::new();
        for chunk in chunks {
            frames.read(chunk, &mut out);
        }
        out.extend(frames.rest());
        assert_eq!(out, expected);
    }

    #[test]
    fn lines_may_be_cut_at_any_byte_and_the_last_one_needs_no_end() {
        let text = "{\"a\":\"\u{e4}\"}\r\n\n{\"b\":1}\n{\"c\":2}".as_bytes();
        let expected = ["{\"a\":\"\u{e4}\"}", "{\"b\":1}", "{\"c\":2}"];
        for cut in 0..text.len() {
            check_frames(Frames::lines(), &[&text[..cut], &text[cut..]], &expected);
        }
        check_frames(Frames::lines(), &[b"{}\n"], &["{}"]);
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
