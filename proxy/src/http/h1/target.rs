//! The forms of a request target (RFC 9112 section 3.2).

use super::error::RequestError;
use crate::http::authority::Authority;

/// A request target, split into its parts.
pub(super) struct Target<'a> {
    /// The authority of an absolute form, in the normal form without the colon of an empty port.
    pub(super) authority: Option<&'a [u8]>,
    /// The origin form, as far as present.
    pub(super) origin_form: &'a [u8],
}

impl<'a> Target<'a> {
    pub(super) fn parse(text: &'a [u8], method: &[u8]) -> Result<Self, RequestError> {
        match text {
            [b'/', ..] => Ok(Self {
                authority: None,
                origin_form: text,
            }),
            b"*" if method == b"OPTIONS" => Ok(Self {
                authority: None,
                origin_form: text,
            }),
            _ => Self::absolute(text).ok_or(RequestError::Target),
        }
    }

    /// `http://authority/path?query`, with optional path and query.
    fn absolute(text: &'a [u8]) -> Option<Self> {
        let end = text.iter().position(|&byte| byte == b':')?.checked_add(3)?;
        let (scheme, rest) = text.split_at_checked(end)?;
        if !scheme.eq_ignore_ascii_case(b"http://") && !scheme.eq_ignore_ascii_case(b"https://") {
            return None;
        }
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?' | b'#'));
        let (authority, origin_form) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        Authority::parse(authority)?;
        Some(Self {
            authority: Some(authority.strip_suffix(b":").unwrap_or(authority)),
            // An empty path means `/`; the scheme's last byte is one.
            origin_form: if origin_form.is_empty() {
                scheme.get(scheme.len().checked_sub(1)?..)?
            } else {
                origin_form
            },
        })
    }
}
