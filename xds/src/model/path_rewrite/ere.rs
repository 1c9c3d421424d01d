//! Extended regular expressions, as GEP-4359 defines them, translated to the syntax of `regex_syntax`.
//!
//! Every construct is named: what is not an extended regular expression is refused with its position, so that
//! nothing silently means something else than the same text does elsewhere. Beyond POSIX, `\d`, `\w`, `\W`,
//! `\s`, `\b`, `(?:)`, a leading `(?i)` and names of POSIX classes are accepted. A backslash keeps its meaning
//! inside brackets, and of several alternatives the first wins.

mod bracket;

use thiserror::Error;

/// Why a text is no expression: what stands where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{why}, at character {at}")]
pub struct InvalidEre {
    /// Counted from 1.
    at: usize,
    why: String,
}

/// An expression in the syntax of `regex_syntax`, without Unicode and with `.` for any byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) text: String,
    /// The number of its groups.
    pub(super) groups: usize,
}

/// Translates an expression.
pub(super) fn translate(pattern: &str) -> Result<Translated, InvalidEre> {
    let mut parser = Parser {
        rest: pattern.as_bytes(),
        length: pattern.len(),
        out: String::with_capacity(pattern.len() + 8),
        groups: 0,
        open: Vec::new(),
        before: Before::Start,
    };
    if let Some(rest) = parser.rest.strip_prefix(b"(?i)") {
        parser.rest = rest;
        parser.out.push_str("(?i)");
    }
    while let Some((&byte, rest)) = parser.rest.split_first() {
        let at = parser.at();
        parser.rest = rest;
        parser.item(byte, at)?;
    }
    match parser.open.last() {
        Some(at) => refuse(
            *at,
            "`(` has no `)`: add it, or write `\\(` for the character",
        ),
        None => Ok(Translated {
            text: parser.out,
            groups: parser.groups,
        }),
    }
}

/// What stands before an item, for repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing that could be repeated: the start, `(` or `|`.
    Start,
    /// `^`, `$` or `\b`.
    Anchor,
    /// A character, a class or a group.
    Atom,
    /// A repetition.
    Repetition,
}

struct Parser<'a> {
    rest: &'a [u8],
    length: usize,
    out: String,
    groups: usize,
    /// Where the groups begin that have not ended.
    open: Vec<usize>,
    before: Before,
}

impl Parser<'_> {
    /// The position of what comes next, from 1.
    fn at(&self) -> usize {
        self.length - self.rest.len() + 1
    }

    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn item(&mut self, byte: u8, at: usize) -> Result<(), InvalidEre> {
        match byte {
            b'(' => return self.open_group(at),
            b')' => return self.close_group(at),
            b'|' => self.add("|", Before::Start),
            b'*' | b'+' | b'?' | b'{' => return self.repetition(byte, at),
            b'^' | b'$' => self.add(as_text(&[byte]), Before::Anchor),
            b'.' => self.add(".", Before::Atom),
            b'[' => {
                let class = self.bracket(at)?;
                self.add(&class, Before::Atom);
            }
            b'\\' => return self.escape(at),
            byte => {
                check_character(byte, at)?;
                self.literal(byte);
            }
        }
        Ok(())
    }

    fn add(&mut self, text: &str, then: Before) {
        self.out.push_str(text);
        self.before = then;
    }

    fn literal(&mut self, byte: u8) {
        if byte.is_ascii_punctuation() {
            self.out.push('\\');
        }
        self.add(as_text(&[byte]), Before::Atom);
    }

    fn open_group(&mut self, at: usize) -> Result<(), InvalidEre> {
        self.open.push(at);
        if self.rest.first() != Some(&b'?') {
            self.groups += 1;
            self.add("(", Before::Start);
            return Ok(());
        }
        if let Some(rest) = self.rest.strip_prefix(b"?:") {
            self.rest = rest;
            self.add("(?:", Before::Start);
            return Ok(());
        }
        let named: [(&[u8], &str); 10] = [
            (b"?=", "look-ahead `(?=`"),
            (b"?!", "negative look-ahead `(?!`"),
            (b"?<=", "look-behind `(?<=`"),
            (b"?<!", "negative look-behind `(?<!`"),
            (b"?<", "a named group `(?<`"),
            (b"?P", "a named group `(?P`"),
            (b"?>", "an atomic group `(?>`"),
            (b"?#", "a comment `(?#`"),
            (b"?|", "a branch reset `(?|`"),
            (b"?i)", "`(?i)` anywhere but at the start"),
        ];
        let named = named.iter().find(|(start, _)| self.rest.starts_with(start));
        let what = named.map_or("a flag in `(?`", |(_, what)| what);
        let advice = match what {
            "a named group `(?<`" | "a named group `(?P`" => {
                "write `(` alone and count groups from 1"
            }
            "a flag in `(?`" | "`(?i)` anywhere but at the start" => {
                "only `(?i)` at the start of the expression is supported"
            }
            _ => "write the expression without it",
        };
        refuse(at, format!("{what} is not supported: {advice}"))
    }

    fn close_group(&mut self, at: usize) -> Result<(), InvalidEre> {
        if self.open.pop().is_none() {
            return refuse(
                at,
                "`)` has no `(`: add it, or write `\\)` for the character",
            );
        }
        self.add(")", Before::Atom);
        Ok(())
    }

    fn repetition(&mut self, byte: u8, at: usize) -> Result<(), InvalidEre> {
        let sign = char::from(byte);
        match self.before {
            Before::Atom => {}
            Before::Start => {
                let why =
                    format!("`{sign}` has nothing to repeat: write `\\{sign}` for the character");
                return refuse(at, why);
            }
            Before::Anchor => {
                let why =
                    format!("`{sign}` repeats `^`, `$` or `\\b`, which have no length: remove it");
                return refuse(at, why);
            }
            Before::Repetition => {
                let why = match byte {
                    b'?' => {
                        "a lazy repetition (`*?`, `+?`, `??`, `{}?`) is not supported: repetitions take as \
                             much as they can, so write what may not be in it, as in `[^/]*`"
                    }
                    b'+' => {
                        "a possessive repetition (`*+`, `++`, `?+`) is not supported: remove the second sign"
                    }
                    _ => "a repetition of a repetition is not supported: put the first into `(?:)`",
                };
                return refuse(at, why);
            }
        }
        if byte == b'{' {
            let interval = self.interval(at)?;
            self.add(&interval, Before::Repetition);
        } else {
            self.add(as_text(&[byte]), Before::Repetition);
        }
        Ok(())
    }

    /// The rest of `{n}`, `{n,}` or `{n,m}`.
    fn interval(&mut self, at: usize) -> Result<String, InvalidEre> {
        let malformed = "`{` begins a repetition `{n}`, `{n,}` or `{n,m}`, and this is none: correct it, or \
                         write `\\{` for the character";
        let end = self.rest.iter().position(|byte| *byte == b'}');
        let Some((inside, rest)) = end.and_then(|end| self.rest.split_at_checked(end)) else {
            return refuse(at, malformed);
        };
        self.rest = rest.get(1..).unwrap_or_default();
        let inside = as_text(inside);
        let (least, most) = match inside.split_once(',') {
            None => (inside, Some(inside)),
            Some((least, "")) => (least, None),
            Some((least, most)) => (least, Some(most)),
        };
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = is_number.then(|| text.parse::<u32>().unwrap_or(u32::MAX));
            number.ok_or(())
        };
        let (Ok(least), Ok(most)) = (number(least), most.map(number).transpose()) else {
            return refuse(at, malformed);
        };
        if least.max(most.unwrap_or_default()) > MOST_REPETITIONS {
            let why = format!("`{{{inside}}}` repeats too often: use {MOST_REPETITIONS} or less");
            return refuse(at, why);
        }
        if most.is_some_and(|most| most < least) {
            let why = format!("`{{{inside}}}` has its larger number first: turn it round");
            return refuse(at, why);
        }
        Ok(format!("{{{inside}}}"))
    }

    fn escape(&mut self, at: usize) -> Result<(), InvalidEre> {
        let Some(byte) = self.next() else {
            return refuse(
                at,
                "the expression ends with `\\`: write `\\\\` for a backslash",
            );
        };
        match byte {
            b'b' => self.add("\\b", Before::Anchor),
            b'd' | b'w' | b'W' => {
                self.out.push('\\');
                self.add(as_text(&[byte]), Before::Atom);
            }
            b's' => self.add("[\\t ]", Before::Atom),
            byte if byte.is_ascii_punctuation() || byte == b' ' => self.literal(byte),
            byte => return refuse(at, unknown_escape(byte)),
        }
        Ok(())
    }
}

/// Why a backslash before this character means nothing.
fn unknown_escape(byte: u8) -> String {
    let character = char::from(byte);
    match byte {
        b'1'..=b'9' => format!(
            "a back-reference `\\{character}` inside the pattern is not supported: only the substitution may \
             have one"
        ),
        b'D' => "`\\D` is not supported: write `[^0-9]`".to_owned(),
        b'S' => "`\\S` is not supported: paths have no spaces, so write `.`".to_owned(),
        b'B' => "`\\B` is not supported: write the expression without it".to_owned(),
        b'A' => "`\\A` is not supported: write `^`".to_owned(),
        b'z' | b'Z' => format!("`\\{character}` is not supported: write `$`"),
        _ if byte.is_ascii() => {
            format!(
                "`\\{character}` is no part of extended regular expressions: write the characters it stands for"
            )
        }
        _ => not_ascii(),
    }
}

fn check_character(byte: u8, at: usize) -> Result<(), InvalidEre> {
    if !byte.is_ascii() {
        return refuse(at, not_ascii());
    }
    if byte.is_ascii_control() {
        return refuse(at, "a control character is never in a path: remove it");
    }
    Ok(())
}

fn not_ascii() -> String {
    "a character beyond ASCII is never in a path as it is: write its percent-encoded bytes, as in `%C3%A9`".to_owned()
}

/// Bytes that are known to be ASCII, or were refused.
fn as_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn refuse<T>(at: usize, why: impl Into<String>) -> Result<T, InvalidEre> {
    let why = why.into();
    Err(InvalidEre { at, why })
}

/// `RE_DUP_MAX` of POSIX, which every implementation has.
const MOST_REPETITIONS: u32 = 255;

#[cfg(test)]
mod tests;
