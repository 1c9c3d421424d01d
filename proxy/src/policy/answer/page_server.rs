//! Page servers: the request for the page of an error, and the page in the response.
//!
//! The header fields are those by which ingress-nginx asks its default backend, so that a server made for it
//! needs no change. Nothing else of a client's request is passed on: not its credentials either.

use http::header::{CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use xds::model::Target;

use crate::http::h1::encode::field;
use crate::names::causes;

causes! {
    /// The result of a request for a page.
    PageResult;
    /// The client gets the page.
    Received "received";
    /// The server could not be reached in time, or its response is no page: the client gets a text of the
    /// gateway.
    Failed "failed";
    /// The server was not asked, since too many requests for pages are in flight.
    TooMany "too_many";
    /// The server was not asked, or its page was dropped, since too much of the memory for buffers is in use.
    NoMemory "no_memory";
    /// The server was not asked, since the request is itself one for a page.
    Nested "nested";
}

/// A page server of a policy.
#[derive(Debug, PartialEq, Eq)]
pub struct PageServer {
    /// Its name in logs and traces.
    pub name: Box<str>,
    /// Its place among the page servers of the policy.
    pub place: usize,
}

impl PageServer {
    /// The server of a reference, at this place.
    #[must_use]
    pub fn new(target: &Target, place: usize) -> Self {
        Self {
            name: target.to_string().into(),
            place,
        }
    }
}

/// The request for the page of an error.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'r> {
    /// The status of the error.
    pub status: StatusCode,
    /// Path and query of the client's request, in their normal form.
    pub original: &'r [u8],
    /// `kind/namespace/name` of the route; `None` if no route matches.
    pub route: Option<&'r str>,
    /// `kind/namespace/name` of the backend of the request, of a Service with the port; `None` if none was chosen.
    pub backend: Option<&'r str>,
    /// The id of the client's request.
    pub id: &'r str,
}

impl PageRequest<'_> {
    /// Appends its header fields; `values` returns those of the client's request.
    pub fn write_lines<'v, V: Iterator<Item = &'v [u8]>>(
        &self,
        values: impl Fn(&'static [u8]) -> V,
        out: &mut Vec<u8>,
    ) {
        field(out, b"X-Code", self.status.as_str().as_bytes());
        // As one field, also where a client sends several.
        let format = values(b"accept").collect::<Vec<_>>().join(b", ".as_slice());
        if !format.is_empty() {
            field(out, b"X-Format", &format);
        }
        field(out, b"X-Original-URI", self.original);
        let mut route = self.route.unwrap_or_default().split('/').skip(1);
        let (service, port) = self.backend.map(service).unwrap_or_default();
        let facts = [
            (b"X-Namespace".as_slice(), route.next()),
            (b"X-Ingress-Name", route.next()),
            (b"X-Service-Name", service),
            (b"X-Service-Port", port),
            (b"X-Request-ID", Some(self.id)),
        ];
        for (name, value) in facts {
            if let Some(value) = value {
                field(out, name, value.as_bytes());
            }
        }
        for name in PASSED {
            for value in values(name) {
                field(out, name, value);
            }
        }
    }
}

/// Name and port in the key of a backend.
fn service(key: &str) -> (Option<&str>, Option<&str>) {
    let name = key.split('/').nth(2);
    match name.and_then(|name| name.split_once(':')) {
        Some((name, port)) => (Some(name), Some(port)),
        None => (name, None),
    }
}

/// Whether a request is itself one for a page, of a gateway or of ingress-nginx: its errors have no page of a server,
/// which could ask for the page of its own error forever.
pub fn is_page_request<'v, V: Iterator<Item = &'v [u8]>>(
    values: impl Fn(&'static [u8]) -> V,
) -> bool {
    let has = |name| values(name).next().is_some();
    has(b"x-code") && has(b"x-original-uri")
}

/// The lines of a page's fields: those of the response of a page server about an error of status `code`.
///
/// # Errors
///
/// The response is no page.
pub fn page_lines(
    code: StatusCode,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Vec<u8>, &'static str> {
    let is_whole = status.is_success() && status != StatusCode::PARTIAL_CONTENT;
    if !is_whole && status != code {
        return Err("its status is neither one of success nor that of the error");
    }
    let mut lines = Vec::new();
    for name in [CONTENT_TYPE, CONTENT_LANGUAGE, CONTENT_ENCODING] {
        for value in headers.get_all(&name) {
            field(&mut lines, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    // What the server may have chosen by.
    field(&mut lines, b"Vary", b"Accept, Accept-Language");
    Ok(lines)
}

/// Fields of a client that a page server gets: what its page depends on, and those of traces (W3C Trace Context).
const PASSED: [&[u8]; 4] = [b"accept", b"accept-language", b"traceparent", b"tracestate"];

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(request: PageRequest<'_>, sent: &[(&'static str, &'static str)]) -> String {
        let mut out = Vec::new();
        let values = |name: &'static [u8]| {
            let of_name = sent.iter().filter(move |(it, _)| it.as_bytes() == name);
            of_name.map(|(_, value)| value.as_bytes())
        };
        request.write_lines(values, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_page_server_gets_the_facts_of_the_error_and_nothing_else_of_the_client() {
        let request = PageRequest {
            status: StatusCode::SERVICE_UNAVAILABLE,
            original: b"/a?b=c",
            route: Some("HTTPRoute/shop/cart"),
            backend: Some("Service/shop/cart-v2:8080"),
            id: "id-1",
        };
        let sent = [
            ("accept", "text/html"),
            ("accept", "*/*;q=0.1"),
            ("accept-language", "de"),
            ("traceparent", "00-a-b-01"),
            ("cookie", "secret"),
            ("authorization", "secret"),
        ];
        assert_eq!(
            lines(request, &sent),
            "X-Code: 503\r\nX-Format: text/html, */*;q=0.1\r\nX-Original-URI: /a?b=c\r\n\
             X-Namespace: shop\r\nX-Ingress-Name: cart\r\nX-Service-Name: cart-v2\r\n\
             X-Service-Port: 8080\r\nX-Request-ID: id-1\r\naccept: text/html\r\n\
             accept: */*;q=0.1\r\naccept-language: de\r\ntraceparent: 00-a-b-01\r\n"
        );
        let of_nobody = PageRequest {
            status: StatusCode::NOT_FOUND,
            original: b"/",
            route: None,
            backend: None,
            id: "id-2",
        };
        assert_eq!(
            lines(of_nobody, &[]),
            "X-Code: 404\r\nX-Original-URI: /\r\nX-Request-ID: id-2\r\n"
        );
        let backend = PageRequest {
            backend: Some("Backend/shop/legacy"),
            ..of_nobody
        };
        let text = lines(backend, &[]);
        assert!(text.contains("X-Service-Name: legacy\r\n"), "{text}");
        assert!(!text.contains("X-Service-Port"), "{text}");
    }

    #[test]
    fn a_page_has_a_status_of_success_or_that_of_the_error() {
        let code = StatusCode::NOT_FOUND;
        let page = |status: u16| {
            let status = StatusCode::from_u16(status).expect("a status");
            page_lines(code, status, &HeaderMap::new())
        };
        for status in [200, 203, 204, 404] {
            assert!(page(status).is_ok(), "{status}");
        }
        for status in [101, 206, 301, 304, 403, 500, 503] {
            assert!(page(status).is_err(), "{status}");
        }
    }

    #[test]
    fn only_what_describes_the_content_is_taken_of_a_page_servers_fields() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "text/html"),
            ("content-encoding", "gzip"),
            ("content-language", "de"),
            ("content-security-policy", "default-src 'none'"),
            ("set-cookie", "a=b"),
            ("cache-control", "max-age=60"),
        ] {
            headers.insert(name, value.parse().expect("a value"));
        }
        let lines = page_lines(StatusCode::GONE, StatusCode::OK, &headers);
        let lines = lines.map(|lines| String::from_utf8(lines).expect("text"));
        assert_eq!(
            lines.as_deref(),
            Ok(
                "content-type: text/html\r\ncontent-language: de\r\ncontent-encoding: gzip\r\n\
                Vary: Accept, Accept-Language\r\n"
            )
        );
    }
}
