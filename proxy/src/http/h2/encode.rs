//! Encodes heads for HTTP/2, from the same input as the HTTP/1 encoder.

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};

use super::request::WEBSOCKET;
use super::trailers::push_lines;
use crate::http::h1::RequestKind;
use crate::http::h1::encode::{DownstreamResponse, LocalResponse, UpstreamRequest, takes_trailers};
use crate::http::head::{Fields, Framing};
use crate::http::hop_by_hop;
use crate::http::known::KnownHeader;
use crate::http::websocket;

/// How an upgrade is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// By an extended CONNECT, if the client requests one (RFC 8441).
    Tunnel,
    /// Not at all: servers may ignore upgrades (RFC 9110 section 7.8), and this one does not
    /// support them.
    Ignored,
}

/// A request head, without the fields that `drop` selects. `None` if HTTP/2 cannot express it.
pub fn request(
    request: &UpstreamRequest<'_>,
    scheme: &Scheme,
    switch: Switch,
    drop: impl Fn(KnownHeader, &[u8]) -> bool,
) -> Option<Request<()>> {
    let UpstreamRequest { head, bytes, .. } = *request;
    let tunnel = switch == Switch::Tunnel && asks_for_websocket(request);
    let mut made = Request::new(());
    *made.method_mut() = if tunnel {
        made.extensions_mut()
            .insert(h2::ext::Protocol::from_static(WEBSOCKET));
        Method::CONNECT
    } else {
        Method::from_bytes(head.method.of(bytes)).ok()?
    };
    *made.uri_mut() = uri(request, scheme)?;
    *made.version_mut() = if made.uri().authority().is_some() {
        http::Version::HTTP_2
    } else {
        // Makes the `h2` crate send no authority.
        http::Version::HTTP_11
    };
    let fields = made.headers_mut();
    copy(fields, &head.fields, bytes, |known, name| {
        // RFC 8441 section 5.1: HTTP/2 does not use the key.
        let replaced = tunnel && name.eq_ignore_ascii_case(websocket::KEY);
        known == KnownHeader::Expect || replaced || drop(known, name)
    });
    if let Framing::Length(length) = request.framing.stated_for(head.method.of(bytes)) {
        fields.insert(http::header::CONTENT_LENGTH, length.into());
    }
    if takes_trailers(&head.fields, bytes) {
        fields.insert(http::header::TE, HeaderValue::from_static("trailers"));
    }
    push_lines(fields, request.append);
    if tunnel {
        fields.remove(http::header::SEC_WEBSOCKET_KEY);
    }
    Some(made)
}

/// Whether the client requests an upgrade to WebSocket, the only one supported over HTTP/2.
#[must_use]
pub fn asks_for_websocket(request: &UpstreamRequest<'_>) -> bool {
    let protocol = request
        .head
        .upgrade
        .map(|protocol| protocol.of(request.bytes));
    protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case(WEBSOCKET.as_bytes()))
}

fn uri(request: &UpstreamRequest<'_>, scheme: &Scheme) -> Option<Uri> {
    let mut parts = http::uri::Parts::default();
    let target = PathAndQuery::try_from(request.target).ok();
    parts.path_and_query = Some(match target {
        Some(target) => target,
        None => PathAndQuery::try_from(escaped(request.target)).ok()?,
    });
    if !request.host.is_empty() {
        parts.authority = Some(Authority::try_from(request.host).ok()?);
        parts.scheme = Some(scheme.clone());
    }
    Uri::from_parts(parts).ok()
}

/// A target in which bytes not allowed in a URI (RFC 3986 section 2) are escaped.
fn escaped(target: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(target.len());
    for &byte in target {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            out.push(byte);
        } else {
            let digit = |nibble: u8| b"0123456789ABCDEF".get(usize::from(nibble)).copied();
            out.push(b'%');
            out.extend(digit(byte >> 4));
            out.extend(digit(byte & 0xf));
        }
    }
    out
}

/// A response head, without the fields that `drop` selects.
pub fn response(
    response: &DownstreamResponse<'_>,
    drop: impl Fn(KnownHeader, &[u8]) -> bool,
) -> Response<()> {
    let DownstreamResponse { head, bytes, .. } = *response;
    let switched = head.status == StatusCode::SWITCHING_PROTOCOLS.as_u16();
    let mut made = Response::new(());
    *made.status_mut() = if switched {
        // RFC 8441 section 5: 200 opens the tunnel.
        StatusCode::OK
    } else {
        StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY)
    };
    let fields = made.headers_mut();
    copy(fields, &head.fields, bytes, |known, name| {
        let replaced = switched && name.eq_ignore_ascii_case(websocket::ACCEPT);
        replaced || drop(known, name)
    });
    if let Some(length) = head.content_length {
        fields.insert(http::header::CONTENT_LENGTH, length.into());
    }
    push_lines(fields, response.append);
    made
}

/// The fields of the interim response `100 Continue`.
#[must_use]
pub fn continue_response() -> Response<()> {
    let mut made = Response::new(());
    *made.status_mut() = StatusCode::CONTINUE;
    made
}

/// The head and body of a local response.
#[must_use]
pub fn local_response<'a>(response: &LocalResponse<'a>) -> (Response<()>, &'a [u8]) {
    let mut made = Response::new(());
    *made.status_mut() = response.status;
    let fields = made.headers_mut();
    let has_body = response.has_body() && !response.body.is_empty();
    if has_body {
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        if !response.names_content_type() {
            fields.insert(http::header::CONTENT_TYPE, text);
        }
        fields.insert(http::header::CONTENT_LENGTH, response.body.len().into());
    }
    push_lines(fields, response.append);
    let body = if has_body && response.request_kind != RequestKind::Head {
        response.body
    } else {
        b""
    };
    (made, body)
}

/// Copies the allowed fields, except those that `drop` selects.
fn copy(
    map: &mut HeaderMap,
    fields: &Fields,
    bytes: &[u8],
    drop: impl Fn(KnownHeader, &[u8]) -> bool,
) {
    for field in fields {
        let name = field.name.of(bytes);
        if !hop_by_hop::passes(fields, bytes, name, field.known) || drop(field.known, name) {
            continue;
        }
        let value = HeaderValue::from_bytes(field.value.of(bytes));
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), value) {
            map.append(name, value);
        }
    }
}

#[cfg(test)]
mod tests;
