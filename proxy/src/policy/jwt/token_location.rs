//! Finds a request's token, and removes it before forwarding.

use http::HeaderName;
use xds::model::JwtSource;

use super::Refusal;
use crate::http::grammar::trim;
use crate::http::head::{Field, Fields};
use crate::http::known::KnownHeader;
use crate::route::query;

/// A place where a token may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::policy) enum TokenLocation {
    Header {
        name: HeaderName,
        known: KnownHeader,
        prefix: Prefix,
    },
    Query(Box<[u8]>),
    Cookie(Box<[u8]>),
}

/// The text before a token in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::policy) enum Prefix {
    /// A scheme and white space (RFC 9110 section 11.4).
    Scheme(Box<[u8]>),
    /// Literal text, possibly empty.
    Text(Box<[u8]>),
}

/// The parts of a request that may carry a token.
#[derive(Debug, Clone, Copy)]
pub struct TokenSources<'a> {
    /// Header fields of the request.
    pub fields: &'a Fields,
    /// The bytes that the fields point into.
    pub bytes: &'a [u8],
    /// Its query, without `?`.
    pub query: Option<&'a str>,
}

impl TokenLocation {
    pub(in crate::policy) fn compile(source: &JwtSource) -> Self {
        match source {
            JwtSource::Header { name, prefix } => Self::Header {
                known: KnownHeader::of(name.as_str().as_bytes()),
                name: name.clone(),
                prefix: Prefix::compile(prefix),
            },
            JwtSource::Query(name) => Self::Query(name.as_bytes().into()),
            JwtSource::Cookie(name) => Self::Cookie(name.as_bytes().into()),
        }
    }

    /// `Authorization: Bearer`, the default place.
    pub(in crate::policy) fn bearer() -> Self {
        Self::of_scheme("Bearer")
    }

    /// `Authorization: Basic`.
    pub(in crate::policy) fn basic() -> Self {
        Self::of_scheme("Basic")
    }

    fn of_scheme(scheme: &str) -> Self {
        Self::Header {
            name: http::header::AUTHORIZATION,
            known: KnownHeader::Authorization,
            prefix: Prefix::Scheme(scheme.as_bytes().into()),
        }
    }

    /// The token in this place. A malformed one is an error, rather than absent.
    pub(in crate::policy) fn find<'a>(
        &self,
        sources: TokenSources<'a>,
    ) -> Result<Option<&'a [u8]>, Refusal> {
        match self {
            Self::Header { prefix, .. } => {
                let values = sources
                    .fields
                    .iter()
                    .filter(|field| self.is(field, sources));
                let values = values.map(|field| field.value.of(sources.bytes));
                match only(values)? {
                    Some(value) => prefix.strip(value),
                    None => Ok(None),
                }
            }
            Self::Query(name) => {
                let query = sources.query.unwrap_or_default().as_bytes();
                only(pairs(query, b'&').filter_map(|pair| parameter(pair, name)))
            }
            Self::Cookie(name) => only(cookies(sources).filter_map(|pair| named(pair, name))),
        }
    }

    /// Whether the field is this place.
    fn is(&self, field: &Field, sources: TokenSources<'_>) -> bool {
        self.is_field(field.known, field.name.of(sources.bytes))
    }

    /// Whether a field is dropped or rewritten to remove the token.
    pub(in crate::policy) fn is_field(&self, known: KnownHeader, field: &[u8]) -> bool {
        match self {
            Self::Header {
                name, known: own, ..
            } => known == *own && field.eq_ignore_ascii_case(name.as_str().as_bytes()),
            Self::Query(_) => false,
            Self::Cookie(_) => known == KnownHeader::Cookie,
        }
    }

    /// Removes the token from a target in origin form, wherever it is: before authentication, there may be several.
    pub(in crate::policy) fn edit_target(&self, target: &mut Vec<u8>) {
        let Self::Query(name) = self else {
            return;
        };
        let Some(at) = memchr::memchr(b'?', target) else {
            return;
        };
        let query = target.split_off(at);
        let mut separator = b'?';
        for pair in query
            .get(1..)
            .unwrap_or_default()
            .split(|&byte| byte == b'&')
        {
            if parameter(pair, name).is_none() {
                target.push(separator);
                target.extend_from_slice(pair);
                separator = b'&';
            }
        }
    }

    /// Whether it is in the request target.
    pub(in crate::policy) fn is_in_target(&self) -> bool {
        matches!(self, Self::Query(_))
    }
}

impl Prefix {
    fn compile(prefix: &str) -> Self {
        let text = trim(prefix.as_bytes());
        if text.is_empty() || !prefix.ends_with([' ', '\t']) {
            Self::Text(text.into())
        } else {
            Self::Scheme(text.into())
        }
    }

    /// The text after the prefix. Credentials of other schemes are ignored.
    fn strip<'a>(&self, value: &'a [u8]) -> Result<Option<&'a [u8]>, Refusal> {
        let (own, end) = match self {
            Self::Text(text) => (text, Some(text.len())),
            Self::Scheme(scheme) => {
                let space = value.iter().position(|&byte| matches!(byte, b' ' | b'\t'));
                (scheme, space)
            }
        };
        let (before, behind) = end
            .and_then(|end| value.split_at_checked(end))
            .ok_or(Refusal::Malformed)?;
        let token = trim(behind);
        match (self, before.eq_ignore_ascii_case(own)) {
            (_, _) if token.is_empty() => Err(Refusal::Malformed),
            (_, true) => Ok(Some(token)),
            (Self::Scheme(_), false) => Ok(None),
            (Self::Text(_), false) => Err(Refusal::Malformed),
        }
    }
}

/// Appends the cookies that are in none of the places where tokens are removed.
pub(in crate::policy) fn write_rest<'l, L: Iterator<Item = &'l TokenLocation>>(
    stripped: impl Fn() -> L,
    sources: TokenSources<'_>,
    lines: &mut Vec<u8>,
) {
    let names = || {
        stripped().filter_map(|location| match location {
            TokenLocation::Cookie(name) => Some(&**name),
            TokenLocation::Header { .. } | TokenLocation::Query(_) => None,
        })
    };
    if names().next().is_none() {
        return;
    }
    let mut separator: &[u8] = b"Cookie: ";
    let is_kept = |pair: &&[u8]| names().all(|name| named(pair, name).is_none());
    for pair in cookies(sources).filter(is_kept) {
        lines.extend_from_slice(separator);
        lines.extend_from_slice(pair);
        separator = b"; ";
    }
    if separator == b"; " {
        lines.extend_from_slice(b"\r\n");
    }
}

/// The only value. Of two, backends may read the other one.
fn only<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Result<Option<&'a [u8]>, Refusal> {
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(Refusal::Ambiguous),
        (value, None) => Ok(value),
    }
}

fn cookies(sources: TokenSources<'_>) -> impl Iterator<Item = &[u8]> {
    let TokenSources { fields, bytes, .. } = sources;
    let lines = fields
        .iter()
        .filter(|field| field.known == KnownHeader::Cookie);
    lines.flat_map(move |field| pairs(field.value.of(bytes), b';'))
}

fn pairs(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let pairs = text.split(move |&byte| byte == separator).map(trim);
    pairs.filter(|pair| !pair.is_empty())
}

/// The value of a query parameter of this name, in any form that a backend may decode.
fn parameter<'a>(pair: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let end = memchr::memchr(b'=', pair).unwrap_or(pair.len());
    let (own, value) = pair.split_at_checked(end)?;
    query::equals(own, name).then(|| value.get(1..).unwrap_or_default())
}

/// The value of a cookie of this name.
fn named<'a>(pair: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    pair.strip_prefix(name)?.strip_prefix(b"=")
}

#[cfg(test)]
mod tests;
