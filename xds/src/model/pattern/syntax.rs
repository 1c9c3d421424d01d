//! The syntax and meaning of expressions.
//!
//! Header values and decoded parameters are bytes, and paths are ASCII (RFC 9110 section 5.5, RFC
//! 3986), so `.` and `[^/]` match any byte, and `\w`, `\d`, `\s`, `\b` and `(?i)` mean ASCII, as in
//! RE2. `\w` for Unicode takes 56 KiB instead of 1. Who wants it writes `(?u:\w)`. An expression that
//! names other characters in a class (`\p{Greek}`, `[à-ü]`) cannot mean bytes: all of it has Unicode
//! classes.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{self, Hir, HirKind, Look};

use super::InvalidPattern;

/// Parses an expression, without anchors.
pub(super) fn parse(text: &str) -> Result<Hir, InvalidPattern> {
    let parser = |unicode| ParserBuilder::new().utf8(false).unicode(unicode).build();
    let parsed = match parser(false).parse(text) {
        Err(regex_syntax::Error::Translate(error))
            if *error.kind() == hir::ErrorKind::UnicodeNotAllowed =>
        {
            parser(true).parse(text)
        }
        parsed => parsed,
    };
    parsed.map_err(|error| refused(text, &error))
}

/// Anchors an expression at both ends. Done to what was parsed, not to its text: `a)|(?:b` must not
/// become valid.
pub(super) fn anchored(parsed: Hir) -> Hir {
    Hir::concat(vec![Hir::look(Look::Start), parsed, Hir::look(Look::End)])
}

/// The literal prefix of everything that an expression matches; empty if it begins with an
/// alternative.
pub(super) fn literal_prefix(parsed: &Hir) -> Vec<u8> {
    let parts = match parsed.kind() {
        HirKind::Concat(parts) => parts,
        _ => std::slice::from_ref(parsed),
    };
    let literals = parts.iter().map_while(|part| match part.kind() {
        HirKind::Literal(literal) => Some(&*literal.0),
        _ => None,
    });
    literals.flatten().copied().collect()
}

/// Keeps the last line of the parser's message: the others draw the expression with a caret.
fn refused(text: &str, error: &regex_syntax::Error) -> InvalidPattern {
    let message = error.to_string();
    let last = message.lines().last().unwrap_or_default();
    InvalidPattern::Syntax {
        pattern: text.into(),
        reason: last.strip_prefix("error: ").unwrap_or(last).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{literal_prefix, parse};

    #[test]
    fn the_literal_prefix_ends_at_the_first_alternative() {
        for (text, prefix) in [
            ("/items/[0-9]+", "/items/"),
            ("/items", "/items"),
            ("/items/(a|b)", "/items/"),
            ("/items?", "/item"),
            ("/it(ems)*", "/it"),
            ("/v1/a|/v2/b", ""),
            ("/a\\.b.*", "/a.b"),
            ("(?i)/items", "/"),
            (".*/items", ""),
            ("^/items", ""),
            ("", ""),
        ] {
            let parsed = parse(text).expect(text);
            assert_eq!(literal_prefix(&parsed), prefix.as_bytes(), "{text}");
        }
    }
}
