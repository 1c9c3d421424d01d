//! Protection of the admin server from pages of other sites in the operator's browser: against DNS
//! rebinding by checking the host, and against CSRF by checking the origin.

use std::net::{IpAddr, Ipv6Addr};

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Uri};

use crate::query::clipped;
use crate::response::ErrorResponse;

/// Checks the host and the origin of a request.
///
/// # Errors
/// The host is not allowed, or the origin differs from it.
pub(super) fn check(uri: &Uri, headers: &HeaderMap, hosts: &[String]) -> Result<(), ErrorResponse> {
    let host = host(uri, headers)
        .ok_or_else(|| ErrorResponse::forbidden("exactly one Host header is required"))?;
    if !name(host).is_some_and(|name| is_ours(name, hosts)) {
        return Err(ErrorResponse::forbidden(format!(
            "the host `{}` is not allowed: use an IP address or `localhost`, or start the gateway \
             with --admin-host",
            clipped(host)
        )));
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    let same = |origin: &HeaderValue| {
        let origin = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.strip_prefix("http://"));
        origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
    };
    if origins.all(same) && headers.get_all(SEC_FETCH_SITE).iter().all(is_same_site) {
        Ok(())
    } else {
        Err(ErrorResponse::forbidden(
            "cross-origin requests are not allowed",
        ))
    }
}

/// Browsers send it with all requests (W3C Fetch Metadata), also for images and links, which have no
/// Origin: a page of another site could not read a profile that way, but start one.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

fn is_same_site(site: &HeaderValue) -> bool {
    matches!(site.as_bytes(), b"same-origin" | b"none")
}

/// Host and port of a request; None where there is not exactly one `Host`.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let mut named = headers.get_all(HOST).iter();
    let header = named.next()?.to_str().ok()?;
    if named.next().is_some() {
        return None;
    }
    // RFC 9112 section 3.2.2: an absolute target takes precedence over Host.
    Some(uri.authority().map_or(header, http::uri::Authority::as_str))
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`, without its brackets. `None` for
/// anything else: user information, a second or empty port, or bytes not allowed in names. What two
/// parsers could read as two hosts is not trustworthy.
fn name(authority: &str) -> Option<&str> {
    let (name, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        address.parse::<Ipv6Addr>().ok()?;
        (address, port)
    } else {
        let end = authority.find(':').unwrap_or(authority.len());
        let (name, port) = authority.split_at(end);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        name.bytes().all(is_name).then_some((name, port))?
    };
    let is_port = |digits: &str| {
        digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
    };
    let is_valid = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    (is_valid && !name.is_empty()).then_some(name)
}

fn is_ours(name: &str, hosts: &[String]) -> bool {
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, Uri};

    use super::check;

    fn passes(uri: &str, fields: &[(&str, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name: HeaderName = name.parse().expect("a name");
            headers.append(name, value.parse().expect("a value"));
        }
        let uri: Uri = uri.parse().expect("a target");
        check(&uri, &headers, &["admin.internal".to_owned()]).is_ok()
    }

    #[test]
    fn addresses_localhost_and_configured_hosts_are_allowed() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:15000",
            "[::1]:15000",
            "[::1]",
            "10.1.2.3:80",
            "localhost",
            "LOCALHOST:15000",
            "admin.internal:15000",
        ] {
            assert!(passes("/", &[("host", host)]), "{host}");
        }
    }

    #[test]
    fn other_hosts_are_rejected() {
        for host in [
            "",
            "evil.example",
            "evil.example:15000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "xlocalhost",
            "[::1",
            "[evil.example]:1",
            "localhost:80@evil.test",
            "127.0.0.1:80@evil.test",
            "evil.test@localhost",
            "u:p@localhost:80",
            "localhost:",
            "localhost:80:81",
            "localhost:+80",
            "localhost:65536",
            "localhost:80/x",
            "localhost#evil.test",
            "localhost ",
            "[::1]evil.test",
            "[::1]:80@evil.test",
            "[127.0.0.1]",
            "::1",
        ] {
            assert!(!passes("/", &[("host", host)]), "{host}");
        }
        assert!(!passes("/", &[]));
        assert!(!passes(
            "/",
            &[("host", "localhost"), ("host", "localhost")]
        ));
        assert!(!passes("http://evil.example/", &[("host", "localhost")]));
        // An absolute target goes before Host, and is held to the same rules.
        let user = "http://localhost:80@evil.test/";
        assert!(!passes(user, &[("host", "localhost")]));
    }

    #[test]
    fn cross_site_requests_of_browsers_are_rejected() {
        let passes = |site| passes("/", &[("host", "localhost"), ("sec-fetch-site", site)]);
        assert!(passes("same-origin") && passes("none"));
        assert!(!passes("cross-site") && !passes("same-site") && !passes(""));
    }

    #[test]
    fn an_origin_other_than_the_host_is_rejected() {
        let passes = |origin| passes("/", &[("host", "localhost:15000"), ("origin", origin)]);
        assert!(passes("http://localhost:15000"));
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:15001",
            "https://localhost:15000",
            "http://evil.example",
        ] {
            assert!(!passes(origin), "{origin}");
        }
    }
}
