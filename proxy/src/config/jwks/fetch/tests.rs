use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

use http::HeaderMap;
use http::header::CACHE_CONTROL;
use xds::model::JwksLocation;

use super::{FetchError, Fetched, Origin, fetch, max_age};
use crate::config::Snapshot;
use crate::config::dns::sample::Server;
use crate::limits::JWKS_BYTES;

/// Responds to one request with these bytes and then closes. Returns the request.
fn serve_once(answer: Vec<u8>) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let serve = move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a whole head");
            request.extend_from_slice(&byte);
        }
        // A client that has read enough closes the connection.
        let _ = stream.write_all(&answer);
        String::from_utf8(request).expect("ASCII")
    };
    let served = std::thread::spawn(serve);
    (format!("http://{address}/keys?x=1"), served)
}

fn fetched(url: &str) -> Result<Fetched, FetchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let resolver = Server::start().resolver();
    runtime.block_on(async {
        let origin = Origin::of(&JwksLocation::Url(url.to_owned()), &Snapshot::default())?;
        fetch(origin, resolver).await
    })
}

fn answer(head: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {head}\r\n\r\n{body}").into_bytes()
}

#[test]
fn a_key_set_is_requested_as_json_and_read_in_any_framing() {
    for (head, body) in [
        (
            "200 OK\r\nContent-Length: 11\r\nCache-Control: max-age=90",
            "{\"keys\":[]}",
        ),
        ("200 OK\r\nCache-Control: max-age=90", "{\"keys\":[]}"),
        (
            "200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=90",
            "1\r\n{\r\na\r\n\"keys\":[]}\r\n0\r\n\r\n",
        ),
    ] {
        let (url, served) = serve_once(answer(head, body));
        let fetched = fetched(&url).expect("an answer");
        assert_eq!(fetched.body, b"{\"keys\":[]}", "{head}");
        assert_eq!(fetched.max_age, Some(Duration::from_secs(90)));
        let request = served.join().expect("it serves").to_lowercase();
        let host = url
            .trim_start_matches("http://")
            .trim_end_matches("/keys?x=1");
        assert!(
            request.starts_with("get /keys?x=1 http/1.1\r\n"),
            "{request}"
        );
        assert!(
            request.contains(&format!("\r\nhost: {host}\r\n")),
            "{request}"
        );
        assert!(
            request.contains("\r\naccept: application/json\r\n"),
            "{request}"
        );
    }
}

#[test]
fn an_invalid_key_set_is_rejected() {
    let huge = format!("200 OK\r\nContent-Length: {}", JWKS_BYTES + 1);
    let endless = "x".repeat(JWKS_BYTES + 1);
    for (bytes, why) in [
        (
            answer(
                "301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0",
                "",
            ),
            "301",
        ),
        (
            answer("302 Found\r\nLocation: /other\r\nContent-Length: 0", ""),
            "302",
        ),
        (answer("404 Not Found\r\nContent-Length: 0", ""), "404"),
        (answer("204 No Content", ""), "204"),
        (answer(&huge, &endless), "limit"),
        (answer("200 OK", &endless), "limit"),
        (
            answer("200 OK\r\nContent-Length: 20", "{\"keys\":[]}"),
            "invalid response",
        ),
        (b"SSH-2.0-OpenSSH\r\n\r\n".to_vec(), "invalid response"),
        (Vec::new(), "invalid response"),
    ] {
        let (url, _served) = serve_once(bytes.clone());
        let error = fetched(&url).expect_err("no key set").to_string();
        let start: String = bytes
            .iter()
            .take(40)
            .map(|&byte| char::from(byte))
            .collect();
        assert!(error.contains(why), "{start:?}: {error}");
    }
}

#[test]
fn a_refused_connection_is_reported_with_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let error = fetched(&format!("http://{address}/")).expect_err("nothing listens");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    let error = fetched("http://nowhere.test/").expect_err("no such name");
    assert!(matches!(error, FetchError::Unresolvable(_)), "{error}");
}

#[test]
fn cache_control_sets_the_lifetime_of_a_response() {
    for (values, expected) in [
        (&[][..], None),
        (&["max-age=600"], Some(600)),
        (&["public, Max-Age=\"60\", must-revalidate"], Some(60)),
        (&["public", "max-age=5"], Some(5)),
        (&["max-age=5, max-age=7"], Some(5)),
        (&["max-age=600, no-cache"], Some(0)),
        (&["no-store"], Some(0)),
        (&["max-age=-1"], None),
        (&["max-age=soon"], None),
        (&["s-maxage=9"], None),
    ] {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CACHE_CONTROL, value.parse().expect("a value"));
        }
        let expected = expected.map(Duration::from_secs);
        assert_eq!(max_age(&headers), expected, "{values:?}");
    }
}
