//! Cross-origin resource sharing (Fetch standard section 3.2; `HTTPCORSFilter` of Gateway API).
//!
//! The gateway responds to preflights, which never reach a backend. In responses of backends it
//! replaces all `access-control-*` headers.

use http::{HeaderName, StatusCode};
use xds::model::{self, Allow};

use crate::http::grammar;
use crate::http::head::Fields;
use crate::http::known::KnownHeader;

mod origin;

use origin::Origin;

/// A compiled CORS filter.
///
/// For `*` in the model, the response still repeats the requested names: browsers reject `*` with
/// credentials, and for `Authorization` even without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    origins: Box<[Origin]>,
    methods: PreflightValue,
    headers: PreflightValue,
    exposed: Exposed,
    /// `access-control-allow-credentials: true`, or nothing.
    credentials: &'static str,
    max_age: Box<str>,
}

/// The value of a header in a preflight response.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PreflightValue {
    /// Repeats the requested value.
    Echo,
    /// A prepared line; empty for none.
    Line(Box<str>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Exposed {
    /// A prepared line; empty for none.
    Line(Box<str>),
    /// All header names of the response: with credentials `*` is a literal name.
    EveryName,
}

/// A preflight request: the values of its three headers.
#[derive(Debug, Clone, Copy)]
pub struct Preflight<'a> {
    origin: &'a [u8],
    method: &'a [u8],
    headers: &'a [u8],
}

impl<'a> Preflight<'a> {
    /// Recognises a preflight: `OPTIONS` with `Origin` and `Access-Control-Request-Method`.
    #[must_use]
    pub fn of(method: &[u8], fields: &Fields, head: &'a [u8]) -> Option<Self> {
        if method != b"OPTIONS" {
            return None;
        }
        let value = |name: &str| {
            fields
                .iter()
                .find(|field| field.name.of(head).eq_ignore_ascii_case(name.as_bytes()))
                .map(|field| field.value.of(head))
        };
        Some(Self {
            origin: fields.value(KnownHeader::Origin, head)?,
            method: value("access-control-request-method")?,
            headers: value("access-control-request-headers").unwrap_or_default(),
        })
    }
}

impl Cors {
    /// Status of preflight responses: Gateway API allows 200 and 204, but some conformance tests
    /// expect 200.
    pub const PREFLIGHT_STATUS: StatusCode = StatusCode::OK;

    /// Compiles a CORS filter.
    #[must_use]
    pub fn compile(cors: &model::Cors) -> Self {
        let credentials = if cors.allow_credentials {
            "access-control-allow-credentials: true\r\n"
        } else {
            ""
        };
        let methods = match &cors.allow_methods {
            Allow::Any => PreflightValue::Echo,
            Allow::Listed(methods) => {
                let names = methods.iter().map(http::Method::as_str);
                PreflightValue::Line(line("access-control-allow-methods", names))
            }
        };
        let headers = match &cors.allow_headers {
            Allow::Any => PreflightValue::Echo,
            Allow::Listed(names) => {
                let names = names.iter().map(HeaderName::as_str);
                PreflightValue::Line(line("access-control-allow-headers", names))
            }
        };
        let exposed = match &cors.expose_headers {
            Allow::Any if cors.allow_credentials => Exposed::EveryName,
            Allow::Any => Exposed::Line(line(EXPOSE, ["*"].into_iter())),
            Allow::Listed(names) => {
                Exposed::Line(line(EXPOSE, names.iter().map(HeaderName::as_str)))
            }
        };
        let seconds = cors.max_age.as_secs();
        Self {
            origins: cors.allow_origins.iter().map(Origin::compile).collect(),
            methods,
            headers,
            exposed,
            credentials,
            max_age: format!("access-control-max-age: {seconds}\r\n").into(),
        }
    }

    /// Whether a header of a backend's response is dropped.
    #[must_use]
    pub fn drops(name: &[u8]) -> bool {
        name.split_at_checked(PREFIX.len())
            .is_some_and(|(start, _)| start.eq_ignore_ascii_case(PREFIX))
    }

    /// Writes the headers of a preflight response; returns whether the origin is allowed. Otherwise
    /// nothing else is.
    pub fn write_preflight_lines(&self, preflight: Preflight<'_>, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(VARY_PREFLIGHT);
        if !self.write_origin(preflight.origin, out) {
            return false;
        }
        match &self.methods {
            PreflightValue::Line(line) => out.extend_from_slice(line.as_bytes()),
            PreflightValue::Echo if grammar::is_token(preflight.method) => {
                out.extend_from_slice(b"access-control-allow-methods: ");
                out.extend_from_slice(preflight.method);
                out.extend_from_slice(b"\r\n");
            }
            PreflightValue::Echo => {}
        }
        match &self.headers {
            PreflightValue::Line(line) => out.extend_from_slice(line.as_bytes()),
            PreflightValue::Echo if is_name_list(preflight.headers) => {
                out.extend_from_slice(b"access-control-allow-headers: ");
                out.extend_from_slice(preflight.headers);
                out.extend_from_slice(b"\r\n");
            }
            PreflightValue::Echo => {}
        }
        if let Exposed::Line(line) = &self.exposed {
            out.extend_from_slice(line.as_bytes());
        }
        out.extend_from_slice(self.max_age.as_bytes());
        true
    }

    /// Writes the headers of a response; returns whether the origin is allowed. `origin` is the
    /// request's, `response` the backend's fields with their head (`None` for a local response).
    pub fn write_lines(
        &self,
        origin: Option<&[u8]>,
        response: Option<(&Fields, &[u8])>,
        out: &mut Vec<u8>,
    ) -> bool {
        // Also without an origin: a cache must not reuse this response for a request with one.
        out.extend_from_slice(VARY);
        if !origin.is_some_and(|origin| self.write_origin(origin, out)) {
            return false;
        }
        match (&self.exposed, response) {
            (Exposed::Line(line), _) => out.extend_from_slice(line.as_bytes()),
            (Exposed::EveryName, Some((fields, head))) => write_names(fields, head, out),
            (Exposed::EveryName, None) => {}
        }
        true
    }

    /// Writes origin and credentials if the origin is allowed; returns whether it is.
    fn write_origin(&self, origin: &[u8], out: &mut Vec<u8>) -> bool {
        let allowed = origin::is_serialised(origin)
            && self.origins.iter().any(|allowed| allowed.matches(origin));
        if allowed {
            out.extend_from_slice(b"access-control-allow-origin: ");
            out.extend_from_slice(origin);
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(self.credentials.as_bytes());
        }
        allowed
    }
}

/// A header line with a list; empty for an empty list.
fn line<'a>(name: &str, values: impl Iterator<Item = &'a str>) -> Box<str> {
    let values: Vec<&str> = values.collect();
    if values.is_empty() {
        Box::default()
    } else {
        format!("{name}: {}\r\n", values.join(", ")).into()
    }
}

fn write_names(fields: &Fields, head: &[u8], out: &mut Vec<u8>) {
    let names = fields.iter().map(|field| field.name.of(head));
    for (at, name) in names.filter(|name| !Cors::drops(name)).enumerate() {
        let before: &[u8] = if at == 0 {
            b"access-control-expose-headers: "
        } else {
            b", "
        };
        out.extend_from_slice(before);
        out.extend_from_slice(name);
    }
    if fields.iter().any(|field| !Cors::drops(field.name.of(head))) {
        out.extend_from_slice(b"\r\n");
    }
}

/// Whether a text is a comma-separated list of at least one name.
fn is_name_list(text: &[u8]) -> bool {
    let mut names = grammar::list(text)
        .filter(|name| !name.is_empty())
        .peekable();
    names.peek().is_some() && names.all(grammar::is_token)
}

const PREFIX: &[u8] = b"access-control-";
const EXPOSE: &str = "access-control-expose-headers";
const VARY: &[u8] = b"vary: Origin\r\n";
const VARY_PREFLIGHT: &[u8] =
    b"vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n";

#[cfg(test)]
mod tests;
