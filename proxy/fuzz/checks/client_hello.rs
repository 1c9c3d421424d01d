//! A ClientHello: how the reads are cut does not matter, and what comes out is in one form.

use proxy::limits::CLIENT_HELLO_BYTES;
use proxy::tls::client_hello::{ClientHello, HelloError, HelloReader, Progress};

/// Checks `data` as the first bytes of a connection.
pub(crate) fn check(data: &[u8]) {
    let whole = HelloReader::default().read(data);
    let (dripped, end) = drip(data);
    assert_eq!(whole, dripped);
    match &whole {
        Ok(Progress::Hello(hello)) => check_hello(hello),
        Ok(Progress::NeedMore) => assert!(data.len() <= CLIENT_HELLO_BYTES + 5),
        Err(HelloError::TooLarge) => assert!(end <= CLIENT_HELLO_BYTES + 6),
        Ok(Progress::NotTls) | Err(_) => {}
    }
    // What follows a verdict does not change it.
    if whole != Ok(Progress::NeedMore) {
        let longer = [data, b"\x16\x03\x01"].concat();
        assert_eq!(HelloReader::default().read(&longer), whole);
    }
}

/// The verdict where the bytes come one by one, and after how many it fell.
fn drip(data: &[u8]) -> (Result<Progress, HelloError>, usize) {
    let mut reader = HelloReader::default();
    for end in 0..data.len() {
        let verdict = reader.read(&data[..end]);
        if verdict != Ok(Progress::NeedMore) {
            return (verdict, end);
        }
    }
    (reader.read(data), data.len())
}

fn check_hello(hello: &ClientHello) {
    if let Some(name) = hello.server_name() {
        assert!(!name.is_empty() && name.len() <= 254 && !name.ends_with('.'));
        let is_ours = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
        assert!(name.bytes().all(is_ours), "{name:?}");
        assert!(name.split('.').all(|label| !label.is_empty()), "{name:?}");
    }
    assert!(hello.alpn().all(|name| !name.is_empty()));
    assert!(!hello.versions().is_empty());
}
