//! Words into lines: where blanks, line ends and blank lines go. It knows no HTML.

/// What stands between what was written and what comes next; of several the largest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Gap {
    #[default]
    None,
    Space,
    Line,
    Blank,
}

/// The text so far.
#[derive(Debug, Default)]
pub(super) struct Layout {
    out: String,
    gap: Gap,
    /// What goes before the next word, such as the sign of a list item.
    lead: String,
    /// How many blocks are open in which blanks count.
    verbatim: usize,
    /// Where the text of the open link begins.
    link: Option<usize>,
}

impl Layout {
    /// Text, whose blanks count only in verbatim blocks.
    pub(super) fn text(&mut self, text: &str) {
        if self.verbatim > 0 {
            // The line end right behind the start of a block is not part of it.
            let text =
                if self.out.ends_with("```\n") { text.strip_prefix('\n').unwrap_or(text) } else { text };
            self.write(text);
            return;
        }
        if text.starts_with(is_blank) {
            self.want(Gap::Space);
        }
        for word in text.split(is_blank).filter(|word| !word.is_empty()) {
            self.write(word);
            self.want(Gap::Space);
        }
        if !text.ends_with(is_blank) && self.gap == Gap::Space {
            self.gap = Gap::None;
        }
    }

    /// An element begins or ends.
    pub(super) fn block(&mut self, gap: Gap) {
        self.want(gap);
    }

    pub(super) fn line_break(&mut self) {
        if self.verbatim > 0 { self.write("\n") } else { self.want(Gap::Line) }
    }

    pub(super) fn rule(&mut self) {
        self.want(Gap::Blank);
        self.write("---");
        self.want(Gap::Blank);
    }

    /// Puts `lead` before the next word.
    pub(super) fn lead(&mut self, lead: &str) {
        self.lead.push_str(lead);
    }

    /// Nothing came that a lead could stand before.
    pub(super) fn drop_lead(&mut self) {
        self.lead.clear();
    }

    pub(super) fn tick(&mut self) {
        if self.verbatim == 0 {
            self.write("`");
        }
    }

    pub(super) fn open_verbatim(&mut self) {
        self.verbatim += 1;
        if self.verbatim == 1 {
            self.want(Gap::Blank);
            self.write("```\n");
        }
    }

    pub(super) fn close_verbatim(&mut self) {
        if self.verbatim == 0 {
            return;
        }
        self.verbatim -= 1;
        if self.verbatim == 0 {
            self.want(Gap::Line);
            self.write("```");
            self.want(Gap::Blank);
        }
    }

    pub(super) fn open_link(&mut self) {
        self.write("[");
        self.link = Some(self.out.len());
    }

    /// Ends the open link; one without text vanishes.
    pub(super) fn close_link(&mut self, address: &str) {
        let Some(start) = self.link.take() else { return };
        if self.out[start..].trim().is_empty() {
            self.out.truncate(start - 1);
            return;
        }
        self.out.push_str("](");
        self.out.push_str(address);
        self.out.push(')');
    }

    pub(super) fn finish(mut self) -> String {
        if self.verbatim > 0 {
            self.verbatim = 1;
            self.close_verbatim();
        }
        self.out.truncate(self.out.trim_end().len());
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }

    /// Within a verbatim block the text brings its own.
    fn want(&mut self, gap: Gap) {
        if self.verbatim == 0 || self.out.is_empty() {
            self.gap = self.gap.max(gap);
        }
    }

    fn write(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let end = match std::mem::take(&mut self.gap) {
            _ if self.out.is_empty() => "",
            Gap::None => "",
            Gap::Space if self.out.ends_with([' ', '\n', '[']) => "",
            Gap::Space => " ",
            Gap::Line if self.out.ends_with('\n') => "",
            Gap::Line => "\n",
            Gap::Blank if self.out.ends_with("\n\n") => "",
            Gap::Blank if self.out.ends_with('\n') => "\n",
            Gap::Blank => "\n\n",
        };
        self.out.push_str(end);
        self.out.push_str(&std::mem::take(&mut self.lead));
        self.out.push_str(text);
    }
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace()
}
