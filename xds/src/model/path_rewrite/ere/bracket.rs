//! Bracket expressions, `[a-z]`.

use std::fmt::Write as _;

use super::{InvalidEre, Parser, check_character, refuse, unknown_escape};

/// A member of a bracket expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    Byte(u8),
    /// A class of bytes, in the syntax of `regex_syntax` inside brackets.
    Class(&'static str),
}

impl Parser<'_> {
    /// The rest of a bracket expression that begins `at`, translated. What `regex_syntax` reads as an operator
    /// there (`&&`, `--`, `~~`, `[`) is literal here, so every byte is written as a number.
    pub(super) fn bracket(&mut self, at: usize) -> Result<String, InvalidEre> {
        let mut class = String::from("[");
        if let Some(rest) = self.rest.strip_prefix(b"^") {
            self.rest = rest;
            class.push('^');
        }
        let mut is_first = true;
        loop {
            let place = self.at();
            let Some(byte) = self.next() else {
                return refuse(
                    at,
                    "`[` has no `]`: add it, or write `\\[` for the character",
                );
            };
            if byte == b']' && !is_first {
                break;
            }
            is_first = false;
            let member = self.member(byte, place)?;
            if self.is_range() {
                self.range(member, place, &mut class)?;
            } else {
                push(member, &mut class);
            }
        }
        class.push(']');
        Ok(class)
    }

    /// Whether a range follows: `-` that is not the last.
    fn is_range(&self) -> bool {
        matches!(self.rest, [b'-', next, ..] if *next != b']')
    }

    /// The rest of a range that begins with this member.
    fn range(&mut self, first: Member, at: usize, class: &mut String) -> Result<(), InvalidEre> {
        self.next();
        let place = self.at();
        let last = self.next().unwrap_or_default();
        let last = self.member(last, place)?;
        let (Member::Byte(first), Member::Byte(last)) = (first, last) else {
            return refuse(
                at,
                "a range cannot begin or end with a class: write `-` first or last in the brackets",
            );
        };
        if first > last {
            let (first, last) = (char::from(first), char::from(last));
            return refuse(
                at,
                format!("the range `{first}-{last}` is empty: turn it round"),
            );
        }
        push(Member::Byte(first), class);
        class.push('-');
        push(Member::Byte(last), class);
        Ok(())
    }

    fn member(&mut self, byte: u8, at: usize) -> Result<Member, InvalidEre> {
        match (byte, self.rest.first()) {
            (b'\\', _) => self.escaped_member(at),
            (b'[', Some(b':')) => self.named_class(at),
            (b'[', Some(b'.')) => refuse(
                at,
                "a collating symbol `[.` is not supported: write the character itself, or `\\[` for `[`",
            ),
            (b'[', Some(b'=')) => refuse(
                at,
                "an equivalence class `[=` is not supported: write the character itself, or `\\[` for `[`",
            ),
            (byte, _) => {
                check_character(byte, at)?;
                Ok(Member::Byte(byte))
            }
        }
    }

    fn escaped_member(&mut self, at: usize) -> Result<Member, InvalidEre> {
        match self.next() {
            None => refuse(
                at,
                "the expression ends with `\\`: write `\\\\` for a backslash",
            ),
            Some(b'd') => Ok(Member::Class("0-9")),
            Some(b'w') => Ok(Member::Class("0-9A-Za-z_")),
            Some(b'W') => Ok(Member::Class("\\W")),
            Some(b's') => Ok(Member::Class("\\t ")),
            Some(b'b') => refuse(
                at,
                "`\\b` inside brackets is not supported: it has no character",
            ),
            Some(byte) if byte.is_ascii_punctuation() || byte == b' ' => Ok(Member::Byte(byte)),
            Some(byte) => refuse(at, unknown_escape(byte)),
        }
    }

    /// The rest of `[:name:]`.
    fn named_class(&mut self, at: usize) -> Result<Member, InvalidEre> {
        let inside = self.rest.get(1..).unwrap_or_default();
        let end = inside.windows(2).position(|two| two == b":]");
        let (name, rest) = end
            .and_then(|end| inside.split_at_checked(end))
            .unwrap_or((b"", b""));
        let class = CLASSES.iter().find(|(known, _)| known.as_bytes() == name);
        let Some((_, class)) = class else {
            let names: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
            let why = format!(
                "`[:` begins the name of a class: use one of {}",
                names.join(", ")
            );
            return refuse(at, why);
        };
        self.rest = rest.get(2..).unwrap_or_default();
        Ok(Member::Class(class))
    }
}

fn push(member: Member, class: &mut String) {
    match member {
        Member::Class(text) => class.push_str(text),
        Member::Byte(byte) => {
            // Writing to a String cannot fail.
            let _ = write!(class, "\\x{byte:02X}");
        }
    }
}

/// The classes of POSIX in its own locale.
const CLASSES: [(&str, &str); 12] = [
    ("alnum", "0-9A-Za-z"),
    ("alpha", "A-Za-z"),
    ("blank", "\\t "),
    ("cntrl", "\\x00-\\x1F\\x7F"),
    ("digit", "0-9"),
    ("graph", "!-~"),
    ("lower", "a-z"),
    ("print", " -~"),
    ("punct", "!-/:-@\\[-`{-~"),
    ("space", "\\t-\\r "),
    ("upper", "A-Z"),
    ("xdigit", "0-9A-Fa-f"),
];
