//! Detects signed tokens by their form (RFC 7515 section 7.1).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// Whether a value contains a signed token, or a base64url encoding of one, as Kubernetes clients
/// send it.
pub(super) fn holds_token(value: &str) -> bool {
    words(value).any(|word| is_token(word) || word.split('.').any(is_encoded_token))
}

/// The characters of base64url, its padding, and dots.
fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.=".contains(c)))
}

/// Whether three consecutive parts begin with a JOSE header; other names may precede them.
fn is_token(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    let mut tokens = parts.windows(TOKEN_PARTS);
    tokens.any(|parts| parts.first().is_some_and(|part| ends_in_header(part)))
}

fn is_encoded_token(part: &str) -> bool {
    let text = decoded(part);
    let text = std::str::from_utf8(&text).unwrap_or_default();
    words(text).any(is_token)
}

/// Whether a part is a header, or has one behind what a client has put in front of it.
fn ends_in_header(part: &str) -> bool {
    let part = part.trim_end_matches('=');
    let part = part.rsplit_once('=').map_or(part, |(_, part)| part);
    let is_object =
        |part: &str| serde_json::from_slice::<Map<String, Value>>(&decoded(part)).is_ok();
    begins_object(part)
        || part
            .match_indices(HEADER_START)
            .take(MAX_SCAN_STARTS)
            .any(|(at, _)| part.get(at..).is_some_and(is_object))
}

/// Whether the base64url text decodes to `{"…`, with white space wherever JSON allows it.
fn begins_object(part: &str) -> bool {
    let json = decoded(part);
    let json = json.trim_ascii_start().strip_prefix(b"{");
    json.is_some_and(|members| members.trim_ascii_start().starts_with(b"\""))
}

/// Decodes base64url; of an incomplete last group, as much as there is.
fn decoded(part: &str) -> Vec<u8> {
    let part = part.trim_end_matches('=');
    let whole = part.get(..part.len() / 4 * 4).unwrap_or_default();
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
    decode(part).or_else(|| decode(whole)).unwrap_or_default()
}

/// Header, payload, signature; an encrypted token has five parts.
const TOKEN_PARTS: usize = 3;

/// `{"` and a letter.
const HEADER_START: &str = "eyJ";

/// Places in a part where a header is looked for. Each takes as long as the part.
const MAX_SCAN_STARTS: usize = 8;
