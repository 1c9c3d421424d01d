//! Requests to the admin server: any target or header is accepted or rejected with a one-line message,
//! and no request is allowed whose host is not the machine's own.

use std::net::IpAddr;

use admin::fuzzing::{allows, parameters, paths, trace_filter};
use admin::watch::RequestInfo;
use http::Uri;

/// Checks `data`: lines of a target, of a Host, of an Origin.
pub(crate) fn check(data: &[u8]) {
    let mut lines = data.splitn(3, |&byte| byte == b'\n');
    let target = String::from_utf8_lossy(lines.next().unwrap_or_default());
    check_parameters(&target);
    if let Some(host) = lines.next() {
        check_host(&target, host, lines.next());
    }
}

fn check_parameters(target: &str) {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let known: Vec<&str> = paths().collect();
    // Each endpoint parses queries differently.
    for path in known.into_iter().chain([path]) {
        if let Err(why) = parameters(path, query) {
            assert!(!why.is_empty(), "{path}: a refusal without a reason");
            assert!(
                !why.contains(char::is_control),
                "{path}: more than a line: {why:?}"
            );
        }
    }
    let text = query.unwrap_or(path);
    let Some(it) = trace_filter(text) else { return };
    let bytes = |part: &Option<String>| part.clone().unwrap_or_default().into_bytes();
    let [method, host, prefix] = [&it.method, &it.host, &it.path_prefix].map(bytes);
    let request = RequestInfo {
        method: &method,
        host: &host,
        path: &prefix,
        request_id: None,
    };
    assert!(it.matches(&request), "{text:?} does not match itself");
}

fn check_host(target: &str, host: &[u8], origin: Option<&[u8]>) {
    let Ok(uri) = target.parse::<Uri>() else {
        return;
    };
    if !allows(&uri, host, origin) {
        return;
    }
    let host = String::from_utf8_lossy(host);
    let named = uri
        .authority()
        .map_or(&*host, |authority| authority.as_str());
    assert!(is_own(named), "{named:?} is allowed");
    if let Some(origin) = origin {
        let expected = format!("http://{named}");
        assert!(
            expected.as_bytes().eq_ignore_ascii_case(origin),
            "from {origin:?} to {named:?}"
        );
    }
}

/// An address or `localhost`, with or without a port.
fn is_own(named: &str) -> bool {
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    let name = match named.strip_prefix('[') {
        Some(rest) => return rest.split(']').next().is_some_and(is_address),
        None => named.rsplit_once(':').map_or(named, |(name, _)| name),
    };
    is_address(name) || name.eq_ignore_ascii_case("localhost")
}
