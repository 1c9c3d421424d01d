//! Path edits of redirects and rewrites.
//!
//! The output is always valid in a request line or a `Location`, whatever the model or the request
//! contains.

use xds::model;

/// The normalised path and query of a request, with the length of the rule's match.
#[derive(Debug, Clone, Copy)]
pub struct RequestPath<'a> {
    path: &'a [u8],
    /// Including its `?`; empty without a query.
    query: &'a [u8],
    matched_prefix: usize,
}

impl<'a> RequestPath<'a> {
    /// Splits a target in origin form. `matched_prefix` is the length of the rule's prefix without
    /// trailing slash, as in [`model::PathMatch::Prefix`].
    #[must_use]
    pub fn new(target: &'a [u8], matched_prefix: usize) -> Self {
        let at = target.iter().position(|&byte| byte == b'?');
        let (path, query) = target.split_at(at.unwrap_or(target.len()));
        Self {
            path,
            query,
            matched_prefix,
        }
    }

    /// Writes path and query, with `edit` applied to the path.
    pub fn write(&self, edit: Option<&PathEdit>, out: &mut Vec<u8>) {
        match edit {
            Some(PathEdit::Full(path)) => out.extend_from_slice(path),
            Some(PathEdit::Prefix(prefix)) => self.write_replaced(prefix, out),
            None => write_encoded(self.path, b"", out),
        }
        write_encoded(self.query, b"", out);
    }

    fn write_replaced(&self, prefix: &[u8], out: &mut Vec<u8>) {
        let rest = self.path.get(self.matched_prefix..).unwrap_or_default();
        if prefix.is_empty() {
            // Only the rest: never empty, and never `//host`, which could be read as an authority.
            out.push(b'/');
            write_encoded(without_leading_slashes(rest), b"", out);
        } else {
            out.extend_from_slice(prefix);
            write_encoded(rest, b"", out);
        }
    }
}

/// A [`model::PathEdit`] that is ready to apply without allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathEdit {
    /// The whole new path.
    Full(Box<[u8]>),
    /// The replacement of the matched prefix, without trailing slashes: what follows starts with
    /// one, or is empty.
    Prefix(Box<[u8]>),
}

impl PathEdit {
    /// Compiles an edit. Bytes not allowed in a path are percent-encoded, including `?` and `#`.
    #[must_use]
    pub fn compile(edit: &model::PathEdit) -> Self {
        match edit {
            model::PathEdit::Full(path) => Self::Full(encoded(path).into()),
            model::PathEdit::PrefixMatch(prefix) => {
                Self::Prefix(encoded(prefix.trim_end_matches('/')).into())
            }
        }
    }
}

fn encoded(path: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    if !path.starts_with('/') && !path.is_empty() {
        out.push(b'/');
    }
    write_encoded(path.as_bytes(), b"?#", &mut out);
    out
}

pub(super) fn without_leading_slashes(path: &[u8]) -> &[u8] {
    let slashes = path.iter().take_while(|&&byte| byte == b'/').count();
    path.get(slashes..).unwrap_or_default()
}

/// Copies bytes; spaces, control characters, non-ASCII bytes and `also` are percent-encoded.
pub(super) fn write_encoded(bytes: &[u8], also: &[u8], out: &mut Vec<u8>) {
    let clean = |byte: &u8| byte.is_ascii_graphic() && !also.contains(byte);
    for run in bytes.chunk_by(|a, b| clean(a) && clean(b)) {
        match run {
            [byte] if !clean(byte) => {
                out.extend_from_slice(&[b'%', hex(byte >> 4), hex(byte & 15)]);
            }
            run => out.extend_from_slice(run),
        }
    }
}

fn hex(nibble: u8) -> u8 {
    let digit = HEX.get(usize::from(nibble));
    digit.copied().unwrap_or(b'0')
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

#[cfg(test)]
mod tests {
    use xds::model;

    use super::{PathEdit, RequestPath};
    use crate::policy::sample::written;

    fn prefix_replaced(target: &str, prefix: &str, replacement: &str) -> String {
        let edit = PathEdit::compile(&model::PathEdit::PrefixMatch(replacement.to_owned()));
        let matched = prefix.trim_end_matches('/').len();
        let path = RequestPath::new(target.as_bytes(), matched);
        written(|out| path.write(Some(&edit), out))
    }

    /// Follows the table of `HTTPPathModifier` in Gateway API, including what it leaves
    /// unspecified.
    #[test]
    fn prefix_replacement_makes_no_double_slash_and_no_empty_path() {
        for (target, prefix, replacement, expected) in [
            ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz/", "/xyz/bar"),
            ("/foo", "/foo", "/xyz", "/xyz"),
            ("/foo/", "/foo", "/xyz", "/xyz/"),
            ("/foo/bar", "/foo", "", "/bar"),
            ("/foo/", "/foo", "", "/"),
            ("/foo", "/foo", "", "/"),
            ("/foo/", "/foo", "/", "/"),
            ("/foo", "/foo", "/", "/"),
            ("/strip-prefix", "/strip-prefix", "/", "/"),
            ("/strip-prefix/three", "/strip-prefix", "/", "/three"),
            ("/foo/bar", "/", "/xyz", "/xyz/foo/bar"),
            ("/", "/", "/xyz", "/xyz/"),
            ("/foo//evil.example", "/foo", "/", "/evil.example"),
            ("/foo//bar", "/foo", "/xyz", "/xyz//bar"),
            ("/foo/bar?a=/foo&b", "/foo", "/xyz", "/xyz/bar?a=/foo&b"),
            ("/foo?", "/foo", "/", "/?"),
        ] {
            let case = format!("{target} {prefix} -> {replacement}");
            assert_eq!(
                prefix_replaced(target, prefix, replacement),
                expected,
                "{case}"
            );
        }
    }

    #[test]
    fn full_replacement_keeps_the_query() {
        for (replacement, expected) in [
            ("/one", "/one?a=1"),
            ("one", "/one?a=1"),
            ("/a?b#c", "/a%3Fb%23c?a=1"),
            ("/a\r\nb: c", "/a%0D%0Ab:%20c?a=1"),
            ("/é", "/%C3%A9?a=1"),
        ] {
            let edit = PathEdit::compile(&model::PathEdit::Full(replacement.to_owned()));
            let path = RequestPath::new(b"/full/one/two?a=1", 5);
            assert_eq!(written(|out| path.write(Some(&edit), out)), expected);
        }
    }

    #[test]
    fn without_an_edit_the_target_is_unchanged() {
        for target in ["/a//b/%2F?x=\"y\"|{z}", "/", "*", ""] {
            let path = RequestPath::new(target.as_bytes(), 99);
            assert_eq!(written(|out| path.write(None, out)), target);
        }
    }
}
