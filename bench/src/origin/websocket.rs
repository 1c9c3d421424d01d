//! The few frames of RFC 6455 that an echo needs, for origin and clients alike.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;

use super::response::{OriginResponse, Reply};

/// The key every client sends; its value is of no consequence to an echo.
pub(crate) const CLIENT_KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// Text, binary and the three control frames of section 5.2.
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
/// In place of a length: it follows in 16 or in 64 bits.
const LENGTH_16: u8 = 0x7E;
const LENGTH_64: u8 = 0x7F;

/// `Sec-WebSocket-Accept` for this key (section 4.2.2).
pub(crate) fn accept_value(key: &[u8]) -> String {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(context.finish())
}

/// The answer that switches protocols.
pub(crate) fn accept(key: &[u8]) -> Vec<u8> {
    let value = accept_value(key);
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-accept: {value}\r\n\r\n"
    )
    .into_bytes()
}

/// Echoes the first frame of `input`, or none while it is not whole.
pub(crate) fn echo(input: &[u8]) -> Option<OriginResponse> {
    let frame = Frame::parse(input)?;
    let mut payload = input.get(frame.payload_at..frame.end)?.to_vec();
    if let Some(mask) = frame.mask {
        payload
            .iter_mut()
            .zip(mask.iter().cycle())
            .for_each(|(byte, mask)| *byte ^= mask);
    }
    let first = match frame.first & 0x0F {
        PING => FINAL | PONG,
        _ => frame.first,
    };
    let mut bytes = Vec::with_capacity(payload.len() + 10);
    push_head(&mut bytes, first, 0, payload.len());
    bytes.extend_from_slice(&payload);
    let close = frame.first & 0x0F == CLOSE;
    Some(OriginResponse {
        consumed: frame.end,
        reply: Reply::Bytes(bytes),
        close,
    })
}

/// A binary frame as a client sends it. The mask is fixed: it guards against caches that do not
/// exist here (section 10.3), and prebuilt frames cost nothing.
pub(crate) fn client_frame(payload: &[u8]) -> Vec<u8> {
    let mask = [0x5A, 0xA5, 0x3C, 0xC3];
    let mut bytes = Vec::with_capacity(payload.len() + 14);
    push_head(&mut bytes, FINAL | 0x2, MASKED, payload.len());
    bytes.extend_from_slice(&mask);
    bytes.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    bytes
}

/// The echo of [`client_frame`] as it must be returned.
pub(crate) fn server_frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 10);
    push_head(&mut bytes, FINAL | 0x2, 0, payload.len());
    bytes.extend_from_slice(payload);
    bytes
}

fn push_head(bytes: &mut Vec<u8>, first: u8, masked: u8, length: usize) {
    bytes.push(first);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < LENGTH_16 => bytes.push(masked | short),
        (_, Ok(medium)) => {
            bytes.push(masked | LENGTH_16);
            bytes.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            bytes.push(masked | LENGTH_64);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// Where the parts of a frame lie.
#[derive(Debug)]
struct Frame {
    first: u8,
    mask: Option<[u8; 4]>,
    payload_at: usize,
    end: usize,
}

impl Frame {
    fn parse(input: &[u8]) -> Option<Self> {
        let (&first, &second) = (input.first()?, input.get(1)?);
        let (length, after_length) = match second & !MASKED {
            LENGTH_16 => {
                let bytes = input.get(2..4)?.try_into().ok()?;
                (usize::from(u16::from_be_bytes(bytes)), 4)
            }
            LENGTH_64 => {
                let bytes = input.get(2..10)?.try_into().ok()?;
                (usize::try_from(u64::from_be_bytes(bytes)).ok()?, 10)
            }
            short => (usize::from(short), 2),
        };
        let masked = second & MASKED != 0;
        let payload_at = after_length + if masked { 4 } else { 0 };
        let mask = if masked {
            Some(input.get(after_length..payload_at)?.try_into().ok()?)
        } else {
            None
        };
        Some(Self {
            first,
            mask,
            payload_at,
            end: payload_at.checked_add(length)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_value_of_the_rfc() {
        assert_eq!(
            accept_value(CLIENT_KEY.as_bytes()),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    #[test]
    fn frames_of_all_lengths_come_back_unmasked() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            let payload = super::super::http1::body(length);
            let frame = client_frame(&payload);
            assert!(
                echo(&frame[..frame.len() - 1]).is_none(),
                "{length}: torn frame"
            );
            let answer = echo(&frame).expect("whole");
            assert_eq!(answer.consumed, frame.len());
            assert_eq!(answer.reply.as_slice(), server_frame(&payload), "{length}");
        }
    }

    #[test]
    fn a_ping_is_answered_by_a_pong() {
        let answer = echo(&[0x89, 0x80, 1, 2, 3, 4]).expect("whole");
        assert_eq!(answer.reply.as_slice(), [0x8A, 0]);
    }
}
