//! The part of a WebSocket's handshake that HTTP/1 has and HTTP/2 has not (RFC 6455 section 1.3,
//! RFC 8441 section 5.1): written where a tunnel goes from one to the other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::h1::encode::field;

/// Appends the key that asks an HTTP/1 origin for a WebSocket.
pub fn write_key(random: u128, lines: &mut Vec<u8>) {
    let key = STANDARD.encode(random.to_be_bytes());
    field(lines, KEY, key.as_bytes());
}

/// Appends what an HTTP/1 client with this key expects to hear.
pub fn write_accept(key: &[u8], lines: &mut Vec<u8>) {
    let text = [key, GUID].concat();
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text));
    field(lines, ACCEPT, accept.as_bytes());
}

/// Asks for a WebSocket over HTTP/1.
pub const KEY: &[u8] = b"sec-websocket-key";

/// Agrees to one.
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
