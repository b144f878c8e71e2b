//! Letters that do more than to be seen. Whoever shows or quotes a text of others asks here which of them a reader must not be
//! given; what comes in their place is the business of whoever shows it. Control characters are not among them.

/// Whether `letter` reorders the letters around it or hides something from whoever reads them: marks of direction that
/// hold beyond their own word, blanks and marks without a width, tags, and separators that some readers take for the
/// end of a line. What joins or keeps apart the parts of one word or picture, and marks of direction within a word, is
/// none of them: texts in Persian or Hebrew and pictures of families are torn without. The flags of England, Scotland
/// and Wales are made of tags and lose them.
pub fn reorders_or_hides(letter: char) -> bool {
    matches!(
        letter,
        '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{200b}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Whether `letter` is one of those that some readers take for the end of a line.
pub fn separates_lines(letter: char) -> bool {
    matches!(letter, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k30_what_reorders_or_hides_is_told_from_what_a_script_needs() {
        for letter in
            "\u{202e}\u{2066}\u{2069}\u{200b}\u{2060}\u{feff}\u{2028}\u{fff9}\u{e0041}\u{e007f}".chars()
        {
            assert!(reorders_or_hides(letter), "{letter:?}");
        }
        let needed = "👩\u{200d}💻 می\u{200c}خواهم \u{5d0}\u{200f}! \u{61c} 漢 e\u{301} ❤\u{fe0f} \u{180e}";
        for letter in needed.chars() {
            assert!(!reorders_or_hides(letter), "{letter:?}");
        }
    }
}
