//! HTML as text that reads like Markdown: headings, lists, links with whole addresses, code as it is.
//!
//! The tokens are a library's. There is no tree, so nothing here grows with the depth of a page, and the time it takes
//! grows with its length alone.

mod layout;

use super::super::off_thread::Abandoned;
use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, Token, Tokenizer};
use layout::{Gap, Layout};
use reqwest::Url;

/// Elements whose content nobody reads.
const SKIPPED: &[&str] = &["script", "style", "template", "noscript", "svg", "iframe", "noembed", "noframes"];
/// Bytes of an address that a link shows; a longer one is left out.
const LINK_BYTES_MAX: usize = 1024;
/// How deep lists are told apart.
const LISTS_MAX: usize = 32;

/// The text of a page that came from `url`. When the call is given up it ends early.
pub(super) fn text(html: &str, url: &Url, abandoned: &Abandoned) -> String {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut reader = Reader::new(url);
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        if abandoned.is_set() {
            break;
        }
        reader.take(&token);
    }
    reader.finish()
}

/// What has been read so far.
struct Reader {
    base: Url,
    layout: Layout,
    title: Title,
    /// The element that is skipped, and how often it is open.
    skipped: Option<(String, usize)>,
    /// The lists that are open: the number of the next item, or none where they have no numbers.
    lists: Vec<Option<u32>>,
    /// How many more lists are open than are told apart.
    lists_deeper: usize,
    /// Cells of the row so far.
    cells: usize,
    /// Where the link that is open leads.
    link: Option<String>,
}

/// The title of the page.
enum Title {
    Expected,
    Open(String),
    Read(String),
}

impl Reader {
    fn new(url: &Url) -> Self {
        Reader {
            base: url.clone(),
            layout: Layout::default(),
            title: Title::Expected,
            skipped: None,
            lists: Vec::new(),
            lists_deeper: 0,
            cells: 0,
            link: None,
        }
    }

    fn take(&mut self, token: &Token) {
        match token {
            Token::StartTag(tag) => {
                let name = String::from_utf8_lossy(&tag.name);
                if !self.skips(&name, tag.self_closing) {
                    self.start(&name, tag);
                }
            }
            Token::EndTag(tag) => {
                let name = String::from_utf8_lossy(&tag.name);
                if !self.skipped_to(&name) {
                    self.end(&name);
                }
            }
            Token::String(text) if self.skipped.is_none() => {
                let text = String::from_utf8_lossy(text);
                match &mut self.title {
                    Title::Open(title) => title.push_str(&text),
                    Title::Expected | Title::Read(_) => self.layout.text(&text),
                }
            }
            Token::String(_) | Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }

    /// Whether a start tag is within what is skipped, or begins it.
    fn skips(&mut self, name: &str, self_closing: bool) -> bool {
        match &mut self.skipped {
            Some((skipped, open)) => {
                *open += usize::from(skipped == name && !self_closing);
                true
            }
            None if SKIPPED.contains(&name) => {
                // Only in SVG does a tag close itself.
                if !(self_closing && name == "svg") {
                    self.skipped = Some((name.to_owned(), 1));
                }
                true
            }
            None => false,
        }
    }

    /// Whether an end tag is within what is skipped, or ends it.
    fn skipped_to(&mut self, name: &str) -> bool {
        let Some((skipped, open)) = &mut self.skipped else { return false };
        *open -= usize::from(skipped == name);
        if *open == 0 {
            self.skipped = None;
        }
        true
    }

    fn start(&mut self, name: &str, tag: &StartTag<()>) {
        match name {
            "title" if matches!(self.title, Title::Expected) => self.title = Title::Open(String::new()),
            "base" => self.base = self.address(tag).unwrap_or_else(|| self.base.clone()),
            "br" => self.layout.line_break(),
            "hr" => self.layout.rule(),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.layout.block(Gap::Blank);
                self.layout.lead(&format!("{} ", "#".repeat(level)));
            }
            "ul" | "ol" | "menu" => self.open_list((name == "ol").then_some(1)),
            "li" => self.item(),
            "tr" => {
                self.cells = 0;
                self.layout.block(Gap::Line);
            }
            "td" | "th" => self.cell(),
            "pre" | "listing" => self.layout.open_verbatim(),
            "code" => self.layout.tick(),
            "a" => self.open_link(tag),
            "img" => self.image(tag),
            _ => self.layout.block(self.gap(name)),
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "title" => {
                if let Title::Open(title) = &mut self.title {
                    self.title = Title::Read(std::mem::take(title));
                }
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.layout.drop_lead();
                self.layout.block(Gap::Blank);
            }
            "ul" | "ol" | "menu" => self.close_list(),
            "li" => {
                self.layout.drop_lead();
                self.layout.block(Gap::Line);
            }
            "pre" | "listing" => self.layout.close_verbatim(),
            "code" => self.layout.tick(),
            "a" => self.close_link(),
            _ => self.layout.block(self.gap(name)),
        }
    }

    /// What stands around an element; lists have no blank lines.
    fn gap(&self, name: &str) -> Gap {
        let gap = gap_of(name);
        if self.lists.is_empty() { gap } else { gap.min(Gap::Line) }
    }

    fn open_list(&mut self, first: Option<u32>) {
        self.layout.block(if self.lists.is_empty() { Gap::Blank } else { Gap::Line });
        if self.lists.len() < LISTS_MAX {
            self.lists.push(first);
        } else {
            self.lists_deeper += 1;
        }
    }

    fn close_list(&mut self) {
        if self.lists_deeper > 0 {
            self.lists_deeper -= 1;
        } else {
            self.lists.pop();
        }
        self.layout.block(if self.lists.is_empty() { Gap::Blank } else { Gap::Line });
    }

    fn item(&mut self) {
        let indent = "  ".repeat(self.lists.len().saturating_sub(1));
        let sign = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number = number.saturating_add(1);
                format!("{}.", *number - 1)
            }
            Some(None) | None => "-".to_owned(),
        };
        self.layout.block(Gap::Line);
        self.layout.drop_lead();
        self.layout.lead(&format!("{indent}{sign} "));
    }

    fn cell(&mut self) {
        if self.cells > 0 {
            self.layout.text(" | ");
        }
        self.cells += 1;
    }

    fn open_link(&mut self, tag: &StartTag<()>) {
        self.close_link();
        let Some(address) = self.address(tag) else { return };
        if matches!(address.scheme(), "http" | "https") && address.as_str().len() <= LINK_BYTES_MAX {
            self.link = Some(address.into());
            self.layout.open_link();
        }
    }

    fn close_link(&mut self) {
        if let Some(address) = self.link.take() {
            self.layout.close_link(&address);
        }
    }

    fn image(&mut self, tag: &StartTag<()>) {
        let words = attribute(tag, "alt").unwrap_or_default();
        if !words.trim().is_empty() {
            self.layout.text(&format!("![{}]", words.trim()));
        }
    }

    /// Where a tag leads, as a whole address; none for a place on the same page.
    fn address(&self, tag: &StartTag<()>) -> Option<Url> {
        let written = attribute(tag, "href")?;
        let written = written.trim();
        if written.starts_with('#') { None } else { self.base.join(written).ok() }
    }

    fn finish(mut self) -> String {
        self.close_link();
        let text = self.layout.finish();
        match self.title {
            Title::Read(title) | Title::Open(title) if !title.trim().is_empty() => {
                let words: Vec<&str> = title.split_whitespace().collect();
                format!("Title: {}\n\n{text}", words.join(" "))
            }
            Title::Read(_) | Title::Open(_) | Title::Expected => text,
        }
    }
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    let value = tag.attributes.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// What stands before and after an element.
fn gap_of(name: &str) -> Gap {
    match name {
        "p" | "blockquote" | "table" | "dl" | "article" | "section" | "figure" => Gap::Blank,
        "div" | "header" | "footer" | "main" | "nav" | "aside" | "address" | "dt" | "dd" | "form"
        | "fieldset" | "figcaption" | "caption" | "details" | "summary" | "legend" | "option" | "thead"
        | "tbody" | "tr" | "body" | "html" | "head" => Gap::Line,
        "button" | "label" | "select" | "input" | "textarea" => Gap::Space,
        _ => Gap::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(html: &str, expected: &str) {
        let url = Url::parse("https://example.org/a/b.html").expect("an address");
        assert_eq!(text(html, &url, &Abandoned::default()), expected, "{html}");
    }

    #[test]
    fn a_page_reads_like_markdown() {
        check(
            "<!DOCTYPE html><html><head><title>A &amp;\n page</title><style>p{}</style><script>if (a < b) {}</script></head>\
             <body><h1>Head <em>ing</em></h1><p>One  two\nthree<br>four &lt;b&gt;.</p><!-- no --><ul><li>a</li><li><p>b</p>\
             <ol><li>c<li>d</ol></li></ul><hr><pre>\n  x = 1\n    y</pre><p>After <code>f( )</code>.</body></html>",
            "Title: A & page\n\n# Head ing\n\nOne two three\nfour <b>.\n\n- a\n- b\n  1. c\n  2. d\n\n---\n\n\
             ```\n  x = 1\n    y\n```\n\nAfter `f( )`.\n",
        );
    }

    #[test]
    fn links_have_whole_addresses() {
        check(
            "<p><a href=c.html>c</a>, <a href='/d?x=1&amp;y'>d <b>e</b></a>, <a href=#f>f</a>, <a href=javascript:g()>g</a>, \
             <a href=h> </a><a href='//i.org'>i<a href=j>j</a>.",
            "[c](https://example.org/a/c.html), [d e](https://example.org/d?x=1&y), f, g, \
             [i](https://i.org/)[j](https://example.org/a/j).\n",
        );
        check("<base href='https://other.org/x/'><a href=y>y</a>", "[y](https://other.org/x/y)\n");
    }

    #[test]
    fn tables_have_a_row_a_line_and_images_their_words() {
        check(
            "<table><tr><th>A<th>B</tr><tr><td>1</td><td><img src=x alt='a cat'><img src=y></td></tr></table>end",
            "A | B\n1 | ![a cat]\n\nend\n",
        );
    }

    #[test]
    fn what_nobody_reads_is_left_out() {
        check(
            "a<svg><title>no</title><text>no</text><svg/></svg>b<noscript>no</noscript><template><p>no</template>c",
            "abc\n",
        );
        check("<script>'</script>'x", "'x\n");
        check("", "");
    }

    #[test]
    fn k24_deep_nesting_costs_neither_the_stack_nor_the_time() {
        let deep = |tag: &str| {
            format!("{}x{}", format!("<{tag}>").repeat(100_000), format!("</{tag}>").repeat(100_000))
        };
        for (tag, expected) in
            [("div", "x\n"), ("blockquote", "x\n"), ("b", "x\n"), ("table", "x\n"), ("svg", "")]
        {
            check(&deep(tag), expected);
        }
        let url = Url::parse("https://example.org/").expect("an address");
        let listed = text(&"<ul><li>a".repeat(100_000), &url, &Abandoned::default());
        assert!(listed.len() < 100_000 * 80, "{}", listed.len());
    }
}
