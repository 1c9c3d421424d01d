//! The key exchange of a WebSocket handshake, which HTTP/1 has and HTTP/2 lacks (RFC 6455 section
//! 1.3, RFC 8441 section 5.1): generated when a tunnel crosses between them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::h1::encode::field;

/// Appends a key for a handshake with an HTTP/1 origin.
pub fn write_key(random: u128, lines: &mut Vec<u8>) {
    let key = STANDARD.encode(random.to_be_bytes());
    field(lines, KEY, key.as_bytes());
}

/// Appends the response field that an HTTP/1 client with this key expects.
pub fn write_accept(key: &[u8], lines: &mut Vec<u8>) {
    let text = [key, GUID].concat();
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text));
    field(lines, ACCEPT, accept.as_bytes());
}

/// The field of the request.
pub const KEY: &[u8] = b"sec-websocket-key";

/// The field of the response.
pub const ACCEPT: &[u8] = b"sec-websocket-accept";

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

#[cfg(test)]
mod tests {
    use super::{write_accept, write_key};

    #[test]
    fn the_example_of_the_rfc_is_accepted() {
        let mut lines = Vec::new();
        write_accept(b"dGhlIHNhbXBsZSBub25jZQ==", &mut lines);
        assert_eq!(
            lines,
            b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
        );
    }

    #[test]
    fn a_key_is_sixteen_bytes() {
        let mut lines = Vec::new();
        write_key(1, &mut lines);
        assert_eq!(lines, b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAQ==\r\n");
    }
}
