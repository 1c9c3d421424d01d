//! Targets: the normal form is what a plain, slow reading of RFC 3986 makes of them.

use proxy::http::authority::{Authority, MAX_HOST_BYTES};
use proxy::policy::normalise::{normalise_host, normalise_target};
use xds::model::{EscapedSlash, PathOptions};

/// Checks `data`: a byte that picks the options, and a target.
pub(crate) fn check(data: &[u8]) {
    let [pick, target @ ..] = data else {
        return;
    };
    let options = PathOptions {
        merge_slashes: pick & 1 != 0,
        escaped_slash: if pick & 2 == 0 {
            EscapedSlash::Keep
        } else {
            EscapedSlash::Reject
        },
    };
    check_host(target);
    let mut scratch = Vec::new();
    let Ok(normal) = normalise_target(target, options, &mut scratch) else {
        return;
    };
    assert!(
        normal
            .text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
    );
    let (path, query) = match target.iter().position(|&byte| byte == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    };
    assert_eq!(normal.query().map(str::as_bytes), query);
    if path != b"*" {
        let path = std::str::from_utf8(path).expect("ASCII, or it is refused");
        assert_eq!(normal.path(), slow(path, options));
        assert!(!path.contains("%00"));
    }
    let again = normalise_target(normal.text.as_bytes(), options, &mut Vec::new())
        .expect("a normal form is accepted")
        .text
        .as_ptr();
    assert_eq!(again, normal.text.as_ptr(), "a normal form is its own");
}

/// Unescapes, then takes dot segments out with a stack.
fn slow(path: &str, options: PathOptions) -> String {
    let path = unescape(path);
    let mut segments: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    segments.pop();
                }
                if is_last {
                    segments.push("");
                }
            }
            "" if options.merge_slashes && !is_last => {}
            _ => segments.push(part),
        }
    }
    format!("/{}", segments.join("/"))
}

fn unescape(path: &str) -> String {
    let mut pieces = path.split('%');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let byte = u8::from_str_radix(&piece[..2], 16).expect("a valid escape, or it is refused");
        match char::from(byte) {
            plain @ ('a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' | '~') => out.push(plain),
            _ => out.extend(format!("%{byte:02X}").chars()),
        }
        out.push_str(&piece[2..]);
    }
    out
}

fn check_host(text: &[u8]) {
    let mut buffer = [0; MAX_HOST_BYTES];
    // What is no authority may come to nothing useful, but to something.
    let host = normalise_host(text, &mut buffer);
    let Some(authority) = Authority::parse(text) else {
        return;
    };
    assert!(!host.is_empty() && !host.ends_with('.'));
    let expected = String::from_utf8_lossy(authority.host).to_lowercase();
    assert_eq!(host, expected.strip_suffix('.').unwrap_or(&expected));
    let mut again = [0; MAX_HOST_BYTES];
    assert_eq!(normalise_host(host.as_bytes(), &mut again), host);
}
