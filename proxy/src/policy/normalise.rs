//! Normalises path and host for matching and forwarding.
//!
//! A route must not mean one thing to the gateway and another to the origin, so a target is
//! normalised once, before routing, and the result is also forwarded. The usual target is normal
//! already: one scan confirms it and nothing is copied.

// Peers cannot cause a panic: no indexing, no overflowing arithmetic.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use thiserror::Error;
use xds::model::{EscapedSlash, PathOptions};

use crate::failure::{Failure, FailureKind};
use crate::http::ascii;
use crate::http::authority::MAX_HOST_BYTES;

/// Why a target is rejected, always with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PathError {
    /// It starts neither with `/` nor, without a path, with `?`, and is not `*`.
    #[error("target is not a path")]
    Form,
    /// A control byte, a space, `#`, `\` or a byte beyond ASCII.
    #[error("unescaped byte in the request target")]
    Byte,
    /// `%` without two hexadecimal digits, or `%00`.
    #[error("invalid escape in the target")]
    Escape,
    /// `%2F`, if not allowed.
    #[error("escaped slash in the path")]
    EscapedSlash,
}

impl PathError {
    /// A stable name for logs and metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Form => "path_form",
            Self::Byte => "path_byte",
            Self::Escape => "path_escape",
            Self::EscapedSlash => "path_escaped_slash",
        }
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::because(FailureKind::BadPath, error.reason())
    }
}

/// A request target after normalisation, split into path and query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// Path and query as forwarded.
    pub text: &'a str,
    path: usize,
}

impl<'a> Target<'a> {
    /// The path: `/…`, or `*`.
    #[must_use]
    pub fn path(&self) -> &'a str {
        self.text.get(..self.path).unwrap_or(self.text)
    }

    /// The query without its `?`, as received.
    #[must_use]
    pub fn query(&self) -> Option<&'a str> {
        self.text.get(self.path.checked_add(1)?..)
    }
}

/// Normalises the target of a request: unescapes unreserved characters, upper-cases other escapes,
/// and removes dot segments (RFC 3986 section 6.2.2). The query is only checked.
///
/// Borrows from `target` if it is normal already, otherwise writes to `scratch`.
///
/// # Errors
///
/// The target is ambiguous or malformed; 400.
pub fn normalise_target<'a>(
    target: &'a [u8],
    options: PathOptions,
    scratch: &'a mut Vec<u8>,
) -> Result<Target<'a>, PathError> {
    let (normal, path) = match scan(target, options)? {
        Scan {
            path,
            is_normal: true,
        } => (target, path),
        Scan { path, .. } => {
            let path = rewrite(target, path, options, scratch);
            (scratch.as_slice(), path)
        }
    };
    // Never fails: the scan accepts only ASCII.
    let text = ascii::text(normal).ok_or(PathError::Byte)?;
    Ok(Target { text, path })
}

/// The result of scanning a target.
struct Scan {
    /// Where the path ends.
    path: usize,
    is_normal: bool,
}

fn scan(target: &[u8], options: PathOptions) -> Result<Scan, PathError> {
    // Escapes and dots may have to be changed; other bytes are checked by class.
    let mut is_normal = match target {
        [b'/', ..] | b"*" => true,
        [b'?', ..] => false,
        _ => return Err(PathError::Form),
    };
    let mut path = target.len();
    let mut previous = 0;
    for (at, &byte) in target.iter().enumerate() {
        match class(byte) {
            Class::Plain => {}
            Class::Refused => return Err(PathError::Byte),
            Class::Question => {
                path = at;
                break;
            }
            Class::Slash => is_normal &= previous != b'/' || !options.merge_slashes,
            Class::Dot => is_normal &= previous != b'/' || !starts_dot_segment(target, at),
            Class::Percent => is_normal &= is_normal_escape(target, at, options)?,
        }
        previous = byte;
    }
    check_query(target.get(path..).unwrap_or_default())?;
    Ok(Scan { path, is_normal })
}

fn check_query(query: &[u8]) -> Result<(), PathError> {
    // `\` is harmless in a query.
    let is_refused = |&byte: &u8| matches!(class(byte), Class::Refused) && byte != b'\\';
    if query.iter().any(is_refused) {
        return Err(PathError::Byte);
    }
    Ok(())
}

/// Whether the dot at `at`, first of its segment, begins `.` or `..`.
fn starts_dot_segment(target: &[u8], at: usize) -> bool {
    let rest = target.get(at..).unwrap_or_default();
    let rest = rest.strip_prefix(b".").unwrap_or(rest);
    let rest = rest.strip_prefix(b".").unwrap_or(rest);
    // `.%2e` is one as well; but a `%` already makes the target not normal.
    matches!(rest.first(), None | Some(b'/' | b'?'))
}

fn is_normal_escape(target: &[u8], at: usize, options: PathOptions) -> Result<bool, PathError> {
    let digits = target.get(at..).unwrap_or_default();
    let [b'%', high, low, ..] = digits else {
        return Err(PathError::Escape);
    };
    match unescape(*high, *low) {
        None | Some(0) => Err(PathError::Escape),
        Some(b'/') if options.escaped_slash == EscapedSlash::Reject => Err(PathError::EscapedSlash),
        Some(byte) => {
            let is_upper = !high.is_ascii_lowercase() && !low.is_ascii_lowercase();
            Ok(is_upper && !is_unreserved(byte))
        }
    }
}

/// Writes the normal form of a scanned target; returns where its path ends.
fn rewrite(target: &[u8], path: usize, options: PathOptions, out: &mut Vec<u8>) -> usize {
    out.clear();
    let (path, query) = target.split_at_checked(path).unwrap_or((target, b""));
    if path.first() != Some(&b'/') {
        out.push(b'/');
    }
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'/', _) => slash(out, options),
            (b'%', [high, low, after @ ..]) => {
                rest = after;
                escape(out, *high, *low);
            }
            _ => out.push(byte),
        }
    }
    remove_dot_segment(out);
    let length = out.len();
    out.extend_from_slice(query);
    length
}

fn slash(out: &mut Vec<u8>, options: PathOptions) {
    let removed = remove_dot_segment(out);
    let merged = options.merge_slashes && out.last() == Some(&b'/');
    if !removed && !merged {
        out.push(b'/');
    }
}

/// Removes a dot segment from the end, with the previous segment for `..`, and keeps the slash
/// before it (RFC 3986 section 5.2.4). At the root there is nothing to remove.
fn remove_dot_segment(out: &mut Vec<u8>) -> bool {
    if let Some(before) = out.strip_suffix(b"/..") {
        let parent = before.iter().rposition(|&byte| byte == b'/');
        out.truncate(parent.unwrap_or(0));
        out.push(b'/');
        true
    } else if out.ends_with(b"/.") {
        out.pop();
        true
    } else {
        false
    }
}

fn escape(out: &mut Vec<u8>, high: u8, low: u8) {
    match unescape(high, low) {
        Some(byte) if is_unreserved(byte) => out.push(byte),
        _ => out.extend([b'%', high.to_ascii_uppercase(), low.to_ascii_uppercase()]),
    }
}

fn unescape(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    Some((digit(high)? << 4) | digit(low)?)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Buffer for a host in lower case.
pub type HostBuffer = [u8; MAX_HOST_BYTES];

/// The normalised host of a valid authority: lower case, without port and trailing dot; an IPv6
/// address keeps its brackets. Empty for an empty authority.
#[must_use]
pub fn normalise_host<'a>(authority: &'a [u8], buffer: &'a mut HostBuffer) -> &'a str {
    let end = match authority.first() {
        Some(b'[') => authority
            .iter()
            .position(|&byte| byte == b']')
            .map(|at| at.saturating_add(1)),
        _ => authority.iter().position(|&byte| byte == b':'),
    };
    let host = authority
        .get(..end.unwrap_or(authority.len()))
        .unwrap_or_default();
    let host = host.strip_suffix(b".").unwrap_or(host);
    let normal = match buffer.get_mut(..host.len()) {
        Some(lower) if host.iter().any(u8::is_ascii_uppercase) => {
            lower.copy_from_slice(host);
            lower.make_ascii_lowercase();
            lower
        }
        _ => host,
    };
    ascii::text(normal).unwrap_or_default()
}

/// Classes of bytes in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    Slash,
    Dot,
    Percent,
    Question,
    Refused,
}

fn class(byte: u8) -> Class {
    CLASSES
        .get(usize::from(byte))
        .copied()
        .unwrap_or(Class::Refused)
}

static CLASSES: [Class; 256] = classes();

#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "run by the compiler, which would fail"
)]
const fn classes() -> [Class; 256] {
    let mut classes = [Class::Refused; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        classes[byte as usize] = match byte {
            b'/' => Class::Slash,
            b'.' => Class::Dot,
            b'%' => Class::Percent,
            b'?' => Class::Question,
            b'#' | b'\\' => Class::Refused,
            _ => Class::Plain,
        };
        byte += 1;
    }
    classes
}

#[cfg(test)]
mod tests;
