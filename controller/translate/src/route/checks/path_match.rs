//! Paths that routes match.

use crate::files::check::Check;
use crate::files::finding::Reason;
use crate::files::syntax;
use crate::route::api::{HttpPathMatch, PathMatchType};

/// A path match. The status of the rule reports invalid regular expressions.
pub(crate) fn path(check: &mut Check, path: &HttpPathMatch) {
    if path.kind == PathMatchType::Unknown {
        let allowed = ["Exact", "PathPrefix", "RegularExpression"];
        check.field("type", |check| check.refuse_all_but(&allowed));
        return;
    }
    check.field("value", |check| {
        if let Err(why) = syntax::length(&path.value, 0, MAX_PATH) {
            check.refuse_for(Reason::TooMany, why);
        } else if path.kind != PathMatchType::RegularExpression {
            check.fits(&path.value, literal);
        }
    });
}

/// A literal path, which has to be in normal form.
fn literal(text: &str) -> syntax::Verdict {
    if !text.starts_with('/') {
        return Err(format!(
            "`{text}` does not start with `/`: paths are absolute"
        ));
    }
    for (part, way_out) in [
        ("//", "write one slash"),
        ("/./", "leave the dot segment out"),
        ("/../", "use the path that it resolves to"),
        ("#", "a fragment never reaches a server, remove it"),
        ("?", "use queryParams for the query"),
    ] {
        if text.contains(part) {
            return Err(format!("`{text}` contains `{part}`: {way_out}"));
        }
    }
    if text.to_ascii_lowercase().contains("%2f") {
        return Err(format!(
            "`{text}` contains `%2F`: an escaped slash cannot be matched"
        ));
    }
    if text.ends_with("/..") || text.ends_with("/.") {
        return Err(format!("`{text}` ends with a dot segment: leave it out"));
    }
    if let Some(bad) = first_illegal(text) {
        return Err(format!(
            "`{text}` contains `{bad}`, which is not allowed in a path: escape it as %XX"
        ));
    }
    Ok(())
}

/// The first character that RFC 3986 does not allow in a path.
fn first_illegal(text: &str) -> Option<char> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/".contains(c);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let mut escaped = || {
            let hex = |c: Option<char>| c.is_some_and(|c| c.is_ascii_hexdigit());
            c == '%' && hex(rest.next()) && hex(rest.next())
        };
        if !legal(c) && !escaped() {
            return Some(c);
        }
    }
    None
}

const MAX_PATH: usize = 1024;

#[cfg(test)]
mod tests {
    use super::literal;

    #[test]
    fn only_normalised_paths_are_accepted() {
        for text in [
            "/",
            "/a",
            "/a/",
            "/a/.b",
            "/a..b",
            "/a%20b",
            "/~a:@!$&'()*+,;=",
        ] {
            assert_eq!(literal(text), Ok(()), "{text}");
        }
        for text in [
            "a", "", "//", "/a//b", "/a/./b", "/a/../b", "/a/..", "/.", "/a#b", "/a?b", "/a%2fb",
            "/a%2Fb", "/a b", "/ä", "/a%", "/a%2", "/a%zz", "/a\\b", "/a{b}",
        ] {
            assert!(literal(text).is_err(), "{text}");
        }
    }
}
