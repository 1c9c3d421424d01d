//! Redirects (`RequestRedirect`): status and `Location` of a response without body.

use http::StatusCode;
use xds::model::{self, Scheme};

use super::forwarded::well_known_port;
use super::path_edit::{PathEdit, RequestPath, without_leading_slashes, write_encoded};

/// A request as addressed by its client.
#[derive(Debug, Clone, Copy)]
pub struct Address<'a> {
    /// The scheme of its URL.
    pub scheme: Scheme,
    /// Host and port as received; empty on HTTP/1.0 without Host.
    pub authority: &'a [u8],
    /// Port of the Gateway listener, or of the trusted hop in front of it.
    pub listener_port: u16,
    /// Normalised path and query.
    pub path: RequestPath<'a>,
}

/// A redirect filter, with its fixed parts encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    scheme: Option<Scheme>,
    host: Option<Box<str>>,
    path: Option<PathEdit>,
    port: Port,
    status: StatusCode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    Given(u16),
    OfScheme,
    OfListener,
}

impl Redirect {
    /// Encodes the fixed parts of a redirect filter.
    #[must_use]
    pub fn compile(redirect: &model::Redirect) -> Self {
        Self {
            scheme: redirect.scheme,
            host: redirect.hostname.as_ref().map(|host| host.as_str().into()),
            path: redirect.path.as_ref().map(PathEdit::compile),
            // Gateway API: the configured port, else the default of a configured scheme, else the
            // listener's.
            port: match (redirect.port, redirect.scheme) {
                (Some(port), _) => Port::Given(port),
                (None, Some(_)) => Port::OfScheme,
                (None, None) => Port::OfListener,
            },
            status: redirect.status,
        }
    }

    /// 301, 302, 303, 307 or 308.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Writes the value of `Location`.
    pub fn write_location(&self, request: Address<'_>, out: &mut Vec<u8>) {
        let host = match &self.host {
            Some(host) => host.as_bytes(),
            None => host_of(request.authority),
        };
        if host.is_empty() {
            return self.write_relative(request.path, out);
        }
        let scheme = self.scheme.unwrap_or(request.scheme);
        out.extend_from_slice(match scheme {
            Scheme::Http => b"http://",
            Scheme::Https => b"https://",
        });
        write_encoded(host, b"/\\?#@", out);
        let port = match self.port {
            Port::Given(port) => port,
            Port::OfScheme => well_known_port(scheme),
            Port::OfListener => request.listener_port,
        };
        if port != well_known_port(scheme) {
            out.push(b':');
            out.extend_from_slice(itoa::Buffer::new().format(port).as_bytes());
        }
        request.path.write(self.path.as_ref(), out);
    }

    /// Writes the `Location` line.
    pub fn write_line(&self, request: Address<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"location: ");
        self.write_location(request, out);
        out.extend_from_slice(b"\r\n");
    }

    /// Writes only the path, without any host. A second slash would make it an authority, and the
    /// redirect an open one, so leading slashes are merged.
    fn write_relative(&self, path: RequestPath<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        path.write(self.path.as_ref(), out);
        let written = out.get(start..).unwrap_or_default();
        let doubled = written
            .len()
            .saturating_sub(without_leading_slashes(written).len())
            .saturating_sub(1);
        out.drain(start..start.saturating_add(doubled));
    }
}

/// The host of an authority, including the brackets of an IPv6 address.
fn host_of(authority: &[u8]) -> &[u8] {
    let after_bracket = authority.iter().position(|&byte| byte == b']').unwrap_or(0);
    let port = authority
        .iter()
        .skip(after_bracket)
        .position(|&byte| byte == b':')
        .map(|at| at.saturating_add(after_bracket));
    port.and_then(|at| authority.get(..at)).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use xds::model::{self, Hostname, PathEdit, Scheme};

    use super::{Address, Redirect};
    use crate::policy::path_edit::RequestPath;
    use crate::policy::sample::written;

    fn redirect() -> model::Redirect {
        model::Redirect {
            scheme: None,
            hostname: None,
            path: None,
            port: None,
            status: StatusCode::FOUND,
        }
    }

    fn address<'a>(scheme: Scheme, authority: &'a str, port: u16, target: &'a str) -> Address<'a> {
        Address {
            scheme,
            authority: authority.as_bytes(),
            listener_port: port,
            path: RequestPath::new(target.as_bytes(), "/original-prefix".len()),
        }
    }

    fn location(redirect: &model::Redirect, request: Address<'_>) -> String {
        written(|out| Redirect::compile(redirect).write_location(request, out))
    }

    /// `HTTPRouteRedirectPort`, `…Scheme` and `…PortAndScheme` of the conformance suite.
    #[test]
    fn the_port_comes_from_the_filter_the_scheme_or_the_listener() {
        use Scheme::{Http, Https};
        for (listener, port_of_listener, scheme, port, expected) in [
            (Http, 80, None, None, "http://example.org/a?b"),
            (Http, 80, None, Some(8083), "http://example.org:8083/a?b"),
            (Http, 80, Some(Https), None, "https://example.org/a?b"),
            (Http, 80, Some(Https), Some(443), "https://example.org/a?b"),
            (
                Http,
                80,
                Some(Https),
                Some(8443),
                "https://example.org:8443/a?b",
            ),
            (Http, 80, Some(Http), Some(80), "http://example.org/a?b"),
            (Http, 80, None, Some(80), "http://example.org/a?b"),
            (Http, 8080, None, None, "http://example.org:8080/a?b"),
            (Http, 8080, None, Some(80), "http://example.org/a?b"),
            (Http, 8080, Some(Http), None, "http://example.org/a?b"),
            (Http, 8080, Some(Https), None, "https://example.org/a?b"),
            (
                Http,
                8080,
                Some(Http),
                Some(8080),
                "http://example.org:8080/a?b",
            ),
            (Https, 443, None, None, "https://example.org/a?b"),
            (Https, 443, Some(Http), None, "http://example.org/a?b"),
            (Https, 443, None, Some(80), "https://example.org:80/a?b"),
            (Https, 8443, None, None, "https://example.org:8443/a?b"),
        ] {
            let redirect = model::Redirect {
                scheme,
                port,
                ..redirect()
            };
            let request = address(listener, "example.org:1234", port_of_listener, "/a?b");
            assert_eq!(location(&redirect, request), expected);
        }
    }

    #[test]
    fn path_and_host_are_replaced() {
        let full = PathEdit::Full("/full-path-replacement".to_owned());
        let prefix = PathEdit::PrefixMatch("/replacement-prefix".to_owned());
        for (host, path, expected) in [
            (None, Some(&full), "http://a.b/full-path-replacement?q"),
            (None, Some(&prefix), "http://a.b/replacement-prefix/lemon?q"),
            (
                Some("example.org"),
                Some(&prefix),
                "http://example.org/replacement-prefix/lemon?q",
            ),
            (
                Some("example.org"),
                None,
                "http://example.org/original-prefix/lemon?q",
            ),
        ] {
            let redirect = model::Redirect {
                hostname: host.map(|host| Hostname::parse(host).expect("a host name")),
                path: path.cloned(),
                ..redirect()
            };
            let request = address(Scheme::Http, "a.b", 80, "/original-prefix/lemon?q");
            assert_eq!(location(&redirect, request), expected);
        }
    }

    #[test]
    fn unusual_authorities_give_a_safe_location() {
        for (authority, expected) in [
            ("[::1]:8080", "http://[::1]/a"),
            ("[::1]", "http://[::1]/a"),
            ("host:", "http://host/a"),
            ("", "/a"),
            (":80", "/a"),
            ("a@evil.example", "http://a%40evil.example/a"),
        ] {
            let request = address(Scheme::Http, authority, 80, "/a");
            assert_eq!(location(&redirect(), request), expected);
        }
        let request = address(Scheme::Http, "", 80, "///evil.example/a");
        assert_eq!(location(&redirect(), request), "/evil.example/a");
    }

    #[test]
    fn the_location_line_is_complete() {
        let redirect = Redirect::compile(&model::Redirect {
            status: StatusCode::PERMANENT_REDIRECT,
            ..redirect()
        });
        let request = address(Scheme::Http, "a.b", 80, "/");
        let line = written(|out| redirect.write_line(request, out));
        assert_eq!(line, "location: http://a.b/\r\n");
        assert_eq!(redirect.status(), StatusCode::PERMANENT_REDIRECT);
    }
}
