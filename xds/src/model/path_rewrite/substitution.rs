//! What a match is replaced by: literal text and groups, and optionally a query.

use std::fmt;

use serde::{Serialize, Serializer};
use thiserror::Error;

use super::PathRewriteRule;

/// A substitution. Equal if its text is.
#[derive(Clone, PartialEq, Eq)]
pub struct Substitution {
    text: Box<str>,
    path: Box<[SubstitutionPart]>,
    query: Option<Box<[SubstitutionPart]>>,
}

/// A part of a substitution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubstitutionPart {
    /// Bytes that are legal in a path, or in a query.
    Literal(Box<[u8]>),
    /// The text of a group; 0 is the whole match.
    Group(u8),
}

/// Why a text is no substitution.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidSubstitution {
    /// Longer than [`PathRewriteRule::MAX_BYTES`].
    #[error("it is {0} bytes long: use {max} or less", max = PathRewriteRule::MAX_BYTES)]
    TooLong(usize),
    /// A backslash before something that has no meaning there.
    #[error(
        "`\\{1}` at character {0} means nothing: write `\\1` to `\\9` for the text of a group, `\\0` for all \
         that matched, and `\\\\` for a backslash"
    )]
    Escape(usize, char),
    /// A backslash at the end.
    #[error("it ends with `\\`: write `\\\\` for a backslash")]
    LastBackslash,
    /// `%` without two hexadecimal digits.
    #[error(
        "`%` at character {0} is not followed by two hexadecimal digits: write `%25` for the character"
    )]
    Percent(usize),
    /// `%00`, which no path may have.
    #[error("`%00` at character {0} is refused in every path: remove it")]
    Nul(usize),
}

impl Substitution {
    /// Parses a text.
    ///
    /// # Errors
    /// It is too long, or has an escape that means nothing.
    pub fn parse(text: &str) -> Result<Self, InvalidSubstitution> {
        if text.len() > PathRewriteRule::MAX_BYTES {
            return Err(InvalidSubstitution::TooLong(text.len()));
        }
        let mut parts = Parts::default();
        let (mut path, mut in_query) = (None, false);
        let mut rest = text.chars().zip(1_usize..).peekable();
        while let Some((character, at)) = rest.next() {
            match character {
                '\\' => match rest.next() {
                    None => return Err(InvalidSubstitution::LastBackslash),
                    Some(('\\', _)) => parts.encode('\\'),
                    Some((digit @ '0'..='9', _)) => parts.group(digit),
                    Some((other, _)) => return Err(InvalidSubstitution::Escape(at, other)),
                },
                '%' => {
                    let mut digit = || rest.next().and_then(|(it, _)| it.to_digit(16).map(|_| it));
                    let (Some(high), Some(low)) = (digit(), digit()) else {
                        return Err(InvalidSubstitution::Percent(at));
                    };
                    if (high, low) == ('0', '0') {
                        return Err(InvalidSubstitution::Nul(at));
                    }
                    parts.literal.extend([b'%', high as u8, low as u8]);
                }
                '?' if !in_query => {
                    in_query = true;
                    path = Some(parts.take());
                }
                other => parts.encode(other),
            }
        }
        let last = parts.take();
        let (path, query) = match path {
            Some(path) => (path, Some(last)),
            None => (last, None),
        };
        let text = text.into();
        Ok(Self { text, path, query })
    }

    /// The text as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What takes the place of each match in the path.
    #[must_use]
    pub fn path(&self) -> &[SubstitutionPart] {
        &self.path
    }

    /// What is put before the client's query; `None` without a `?`.
    #[must_use]
    pub fn query(&self) -> Option<&[SubstitutionPart]> {
        self.query.as_deref()
    }

    /// Whether it needs the text of a group, other than the whole match.
    #[must_use]
    pub fn has_groups(&self) -> bool {
        let parts = self.path.iter().chain(self.query.iter().flatten());
        parts
            .into_iter()
            .any(|part| matches!(part, SubstitutionPart::Group(1..)))
    }

    /// A reference in the form of other programs, `$1` or `${1}`, which is literal text here: with what to write
    /// instead.
    #[must_use]
    pub fn foreign_reference(&self) -> Option<(&str, String)> {
        let (start, rest) = { self.text.match_indices('$') }.find_map(|(start, _)| {
            let rest = &self.text[start + 1..];
            let name = rest.strip_prefix('{').unwrap_or(rest);
            name.starts_with(|first: char| first.is_ascii_digit())
                .then_some((start, rest))
        })?;
        let is_braced = rest.starts_with('{');
        let digits = rest.trim_start_matches('{');
        let digits = digits.len()
            - digits
                .trim_start_matches(|it: char| it.is_ascii_digit())
                .len();
        let number = &rest[usize::from(is_braced)..][..digits];
        let is_closed = is_braced && rest[1 + digits..].starts_with('}');
        let end = start + 1 + usize::from(is_braced) + digits + usize::from(is_closed);
        Some((&self.text[start..end], format!("\\{number}")))
    }
}

impl fmt::Debug for Substitution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Substitution").field(&self.text).finish()
    }
}

impl Serialize for Substitution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// What is printable, and legal neither in a path nor in a query.
const ILLEGAL: &[u8] = b"\"#<>[\\]^`{|}";

/// Parts under construction.
#[derive(Default)]
struct Parts {
    literal: Vec<u8>,
    done: Vec<SubstitutionPart>,
}

impl Parts {
    /// Adds a character; one that is not legal in paths and queries (RFC 3986 sections 3.3 and 3.4) is
    /// percent-encoded.
    fn encode(&mut self, character: char) {
        let mut bytes = [0; 4];
        for byte in character.encode_utf8(&mut bytes).bytes() {
            if byte.is_ascii_graphic() && !ILLEGAL.contains(&byte) {
                self.literal.push(byte);
            } else {
                self.literal.extend(format!("%{byte:02X}").bytes());
            }
        }
    }

    fn group(&mut self, digit: char) {
        self.end_literal();
        let number = digit.to_digit(10).and_then(|it| u8::try_from(it).ok());
        let group = SubstitutionPart::Group(number.unwrap_or_default());
        self.done.push(group);
    }

    fn end_literal(&mut self) {
        if !self.literal.is_empty() {
            let literal = std::mem::take(&mut self.literal);
            self.done.push(SubstitutionPart::Literal(literal.into()));
        }
    }

    fn take(&mut self) -> Box<[SubstitutionPart]> {
        self.end_literal();
        std::mem::take(&mut self.done).into()
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidSubstitution, Substitution, SubstitutionPart};

    fn parse(text: &str) -> Substitution {
        Substitution::parse(text).expect(text)
    }

    fn literal(text: &str) -> SubstitutionPart {
        SubstitutionPart::Literal(text.as_bytes().into())
    }

    #[test]
    fn groups_and_literal_text_alternate() {
        let group = SubstitutionPart::Group;
        for (text, parts) in [
            ("", vec![]),
            ("/a", vec![literal("/a")]),
            (
                r"/a\1b\2",
                vec![literal("/a"), group(1), literal("b"), group(2)],
            ),
            (r"\0", vec![group(0)]),
            // One digit: a longer number would be a group that cannot be named otherwise.
            (r"\12", vec![group(1), literal("2")]),
            (r"\\1", vec![literal("%5C1")]),
            (r"$1", vec![literal("$1")]),
        ] {
            let parsed = parse(text);
            assert_eq!((parsed.path(), parsed.query()), (&*parts, None), "{text}");
            assert_eq!(parsed.as_str(), text);
        }
        assert!(parse(r"\1").has_groups() && !parse(r"\0").has_groups());
        assert!(parse(r"/?a=\9").has_groups());
    }

    #[test]
    fn literal_text_becomes_legal_in_a_path() {
        for (text, written) in [
            ("/a b#c", "/a%20b%23c"),
            ("/é", "/%C3%A9"),
            ("/\u{7}", "/%07"),
            ("/%2f%41", "/%2f%41"),
            ("/a;b=c&d+e", "/a;b=c&d+e"),
            ("/\"<>^`{|}[]", "/%22%3C%3E%5E%60%7B%7C%7D%5B%5D"),
            // All that RFC 3986 allows: unreserved, sub-delims, `:`, `@` and `/`.
            ("/aZ09-._~!$&'()*+,;=:@", "/aZ09-._~!$&'()*+,;=:@"),
        ] {
            assert_eq!(parse(text).path(), [literal(written)], "{text}");
        }
        let written = literal("/?%7B%7D%5B%5D");
        assert_eq!(parse("/?/?{}[]").query(), Some(&[written][..]));
    }

    #[test]
    fn text_after_the_first_question_mark_is_a_query() {
        let parsed = parse(r"/\2?brand=\1?x y");
        assert_eq!(parsed.path(), [literal("/"), SubstitutionPart::Group(2)]);
        let query = [
            literal("brand="),
            SubstitutionPart::Group(1),
            literal("?x%20y"),
        ];
        assert_eq!(parsed.query(), Some(&query[..]));
        assert_eq!(parse("/a?").query(), Some(&[][..]));
    }

    #[test]
    fn what_means_nothing_is_refused_with_its_place() {
        for (text, error) in [
            (r"/\n", InvalidSubstitution::Escape(2, 'n')),
            ("/a\\", InvalidSubstitution::LastBackslash),
            ("/%", InvalidSubstitution::Percent(2)),
            ("/%4", InvalidSubstitution::Percent(2)),
            ("/a%4g", InvalidSubstitution::Percent(3)),
            ("/%00", InvalidSubstitution::Nul(2)),
            (&"a".repeat(1025), InvalidSubstitution::TooLong(1025)),
        ] {
            assert_eq!(Substitution::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn references_of_other_programs_are_found() {
        let foreign = |text: &str| {
            let parsed = parse(text);
            let found = parsed.foreign_reference();
            found.map(|(found, instead)| format!("{found} {instead}"))
        };
        for (text, found) in [
            ("/a/$1", Some(r"$1 \1")),
            ("/$a/${12}x", Some(r"${12} \12")),
            ("/${1", Some(r"${1 \1")),
            ("/$a$", None),
            (r"/\1", None),
        ] {
            assert_eq!(foreign(text).as_deref(), found, "{text}");
        }
    }
}
