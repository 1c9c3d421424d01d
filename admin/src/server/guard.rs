//! Who may speak to the admin server: a page that a browser loaded from elsewhere may not, whatever
//! name its site resolves to (DNS rebinding), and whatever it posts (CSRF).

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Uri};

use super::answer::Refusal;
use crate::query::clipped;

/// Checks the host that a request names, and where it says that it comes from.
///
/// # Errors
/// The host is none of ours, or the origin is another one.
pub(super) fn check(uri: &Uri, headers: &HeaderMap, hosts: &[String]) -> Result<(), Refusal> {
    let host =
        host(uri, headers).ok_or_else(|| Refusal::forbidden("the request names no single Host"))?;
    if !is_ours(name(host), hosts) {
        return Err(Refusal::forbidden(format!(
            "`{}` is not a host of the admin server: use an address or `localhost`, or start the \
             proxy with --admin-host",
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
    if origins.all(same) && headers.get_all(SEC_FETCH_SITE).iter().all(is_at_home) {
        Ok(())
    } else {
        Err(Refusal::forbidden(
            "the request comes from a page of another origin",
        ))
    }
}

/// What browsers say of where a request comes from (W3C Fetch Metadata), also of an image or a link,
/// which have no Origin: such a page could not read a profile, but begin one.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

fn is_at_home(site: &HeaderValue) -> bool {
    matches!(site.as_bytes(), b"same-origin" | b"none")
}

/// The host and port that a request names, once.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let mut named = headers.get_all(HOST).iter();
    let header = named.next()?.to_str().ok()?;
    if named.next().is_some() {
        return None;
    }
    // RFC 9112 section 3.2.2: an absolute target goes before Host.
    Some(uri.authority().map_or(header, http::uri::Authority::as_str))
}

/// A host without its port and brackets.
fn name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map_or("", |(address, _)| address);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
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
    fn addresses_localhost_and_the_named_hosts_pass() {
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
    fn other_hosts_do_not() {
        for host in [
            "",
            "evil.example",
            "evil.example:15000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "xlocalhost",
            "[::1",
            "[evil.example]:1",
        ] {
            assert!(!passes("/", &[("host", host)]), "{host}");
        }
        assert!(!passes("/", &[]));
        assert!(!passes(
            "/",
            &[("host", "localhost"), ("host", "localhost")]
        ));
        assert!(!passes("http://evil.example/", &[("host", "localhost")]));
    }

    #[test]
    fn a_browser_has_to_be_at_home() {
        let passes = |site| passes("/", &[("host", "localhost"), ("sec-fetch-site", site)]);
        assert!(passes("same-origin") && passes("none"));
        assert!(!passes("cross-site") && !passes("same-site") && !passes(""));
    }

    #[test]
    fn an_origin_has_to_be_the_host() {
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
