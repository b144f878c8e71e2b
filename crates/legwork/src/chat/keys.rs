//! What the terminal says of keys, translated into what they do.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::typing::Key;
use super::view::Size;

/// What comes from the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A key, or pasted text.
    Key(Key),
    /// It has another size.
    Resized(Size),
}

/// What an event of the terminal means; nothing for those that mean nothing here.
pub fn input(event: Event) -> Option<Input> {
    match event {
        Event::Key(event) => key(&event).map(Input::Key),
        Event::Paste(text) => Some(Input::Key(Key::Paste(text))),
        Event::Resize(columns, rows) => {
            Some(Input::Resized(Size { columns: columns.into(), rows: rows.into() }))
        }
        Event::FocusGained | Event::FocusLost | Event::Mouse(_) => None,
    }
}

fn key(event: &KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    let alt = event.modifiers.contains(KeyModifiers::ALT);
    let shift = event.modifiers.contains(KeyModifiers::SHIFT);
    match event.code {
        KeyCode::Char(character) if control => controlled(character),
        KeyCode::Char(character) if alt => alternative(character),
        KeyCode::Char(character) => Some(Key::Text(character.to_string())),
        KeyCode::Enter if alt || shift || control => Some(Key::NewLine),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Left if control || alt => Some(Key::WordLeft),
        KeyCode::Right if control || alt => Some(Key::WordRight),
        KeyCode::Left => Some(Key::Left),
        KeyCode::Right => Some(Key::Right),
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::Home => Some(Key::Home),
        KeyCode::End => Some(Key::End),
        KeyCode::Backspace if control || alt => Some(Key::KillWordLeft),
        KeyCode::Delete if control || alt => Some(Key::KillWordRight),
        KeyCode::Backspace => Some(Key::Backspace),
        KeyCode::Delete => Some(Key::Delete),
        KeyCode::Tab => Some(Key::Complete),
        KeyCode::Esc => Some(Key::Cancel),
        // The others are those of a library, and new ones may come.
        _ => None,
    }
}

fn controlled(character: char) -> Option<Key> {
    match character.to_ascii_lowercase() {
        'a' => Some(Key::Home),
        'b' => Some(Key::Left),
        'c' => Some(Key::Interrupt),
        'd' => Some(Key::EndOfInput),
        'e' => Some(Key::End),
        'f' => Some(Key::Right),
        'g' => Some(Key::Cancel),
        'h' => Some(Key::Backspace),
        'j' => Some(Key::NewLine),
        'k' => Some(Key::KillToEnd),
        'l' => Some(Key::Redraw),
        'm' => Some(Key::Enter),
        'n' => Some(Key::Down),
        'p' => Some(Key::Up),
        'r' => Some(Key::Search),
        'u' => Some(Key::KillToStart),
        'w' => Some(Key::KillToSpace),
        'y' => Some(Key::Yank),
        _ => None,
    }
}

fn alternative(character: char) -> Option<Key> {
    match character {
        'b' => Some(Key::WordLeft),
        'f' => Some(Key::WordRight),
        'd' => Some(Key::KillWordRight),
        '\r' | '\n' => Some(Key::NewLine),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: KeyCode, modifiers: KeyModifiers, expected: Option<Key>) {
        let event = Event::Key(KeyEvent::new(code, modifiers));
        assert_eq!(input(event), expected.map(Input::Key), "{code:?} with {modifiers:?}");
    }

    #[test]
    fn keys_do_what_they_do_in_a_shell() {
        let (none, control, alt) = (KeyModifiers::NONE, KeyModifiers::CONTROL, KeyModifiers::ALT);
        check(KeyCode::Char('é'), none, Some(Key::Text("é".to_owned())));
        check(KeyCode::Char('A'), KeyModifiers::SHIFT, Some(Key::Text("A".to_owned())));
        check(KeyCode::Char('c'), control, Some(Key::Interrupt));
        check(KeyCode::Char('z'), control, None);
        check(KeyCode::Char('b'), alt, Some(Key::WordLeft));
        check(KeyCode::Enter, none, Some(Key::Enter));
        check(KeyCode::Enter, alt, Some(Key::NewLine));
        check(KeyCode::Char('j'), control, Some(Key::NewLine));
        check(KeyCode::Backspace, alt, Some(Key::KillWordLeft));
        check(KeyCode::F(1), none, None);
    }
}
