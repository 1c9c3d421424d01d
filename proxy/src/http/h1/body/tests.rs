use proptest::prelude::*;

use super::{BodyDecoder, BodyError};
use crate::http::h1::encode;
use crate::http::head::Framing;

#[derive(Debug, PartialEq, Eq)]
struct Body {
    payload: Vec<u8>,
    trailers: Vec<u8>,
    rest: usize,
    done: bool,
}

/// Decodes `bytes` in pieces of at most `piece`, each in a buffer of its own.
fn decode(framing: Framing, bytes: &[u8], piece: usize) -> Result<Body, BodyError> {
    let mut decoder = BodyDecoder::new(framing);
    let mut payload = Vec::new();
    let mut at = 0;
    while at < bytes.len() && !decoder.is_done() {
        let mut buf = bytes[at..bytes.len().min(at + piece)].to_vec();
        let step = decoder.decode(&mut buf)?;
        assert!(step.done || step.consumed == buf.len());
        assert!(step.payload.end <= step.consumed);
        assert_eq!(
            buf[step.consumed..],
            bytes[at + step.consumed..at + buf.len()]
        );
        payload.extend_from_slice(&buf[step.payload]);
        at += step.consumed;
    }
    Ok(Body {
        payload,
        trailers: decoder.trailers().to_vec(),
        rest: bytes.len() - at,
        done: decoder.is_done(),
    })
}

fn decode_all_ways(framing: Framing, bytes: &[u8]) -> Result<Body, BodyError> {
    let unsplit = decode(framing, bytes, bytes.len().max(1));
    for piece in 1..bytes.len() {
        assert_eq!(
            decode(framing, bytes, piece),
            unsplit,
            "{} by {piece}",
            bytes.escape_ascii()
        );
    }
    unsplit
}

#[test]
fn the_end_of_a_body_follows_its_framing() {
    for (framing, bytes, payload, rest) in [
        (Framing::Empty, "next", "", 4),
        (Framing::Length(0), "next", "", 4),
        (Framing::Length(3), "abcnext", "abc", 4),
        (Framing::Chunked, "0\r\n\r\nnext", "", 4),
        (Framing::Chunked, "3\r\nabc\r\n0\r\n\r\nnext", "abc", 4),
        (
            Framing::Chunked,
            "1\r\na\r\n2\r\nbc\r\n000\r\n\r\nnext",
            "abc",
            4,
        ),
        (
            Framing::Chunked,
            "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n",
            "01234567890123456789",
            0,
        ),
        (
            Framing::Chunked,
            "0000000000000001\r\na\r\n0\r\n\r\n",
            "a",
            0,
        ),
        (
            Framing::Chunked,
            "1;n=v;q=\"a;b\"\r\na\r\n0 ;x\r\n\r\n",
            "a",
            0,
        ),
    ] {
        let expected = Body {
            payload: payload.into(),
            trailers: Vec::new(),
            rest,
            done: true,
        };
        assert_eq!(
            decode_all_ways(framing, bytes.as_bytes()),
            Ok(expected),
            "{bytes:?}"
        );
    }
}

/// A request in which two parsers see different sizes is two requests to one of them; a response is not.
#[test]
fn white_space_after_a_chunk_size_is_accepted_in_responses_alone() {
    for padding in [" ", "\t", "      ", " \t ", &" ".repeat(256)] {
        let bytes = format!("4{padding}\r\nbody\r\n0{padding}\r\n\r\nnext");
        let mut buf = bytes.clone().into_bytes();
        let decoded = BodyDecoder::of_response(Framing::Chunked).decode(&mut buf);
        let decoded = decoded.expect("a padded size");
        assert!(decoded.done);
        assert_eq!(&buf[decoded.payload], b"body");
        assert_eq!(decoded.consumed, bytes.len() - "next".len());
        let in_request = decode_all_ways(Framing::Chunked, bytes.as_bytes());
        assert!(in_request.is_err(), "{padding:?}");
    }
    for bytes in ["1 0\r\n", " 1\r\n", "1 \n", "1 \r\r\n", " \r\n"] {
        let mut buf = bytes.as_bytes().to_vec();
        let decoded = BodyDecoder::of_response(Framing::Chunked).decode(&mut buf);
        assert!(decoded.is_err(), "{bytes:?}");
    }
    let mut long = format!("1{}\r\n", " ".repeat(257)).into_bytes();
    let decoded = BodyDecoder::of_response(Framing::Chunked).decode(&mut long);
    assert_eq!(decoded, Err(BodyError::ChunkExtension));
}

#[test]
fn framing_routing_and_authentication_fields_are_dropped_from_trailers() {
    for (section, expected) in [
        ("A:b\r\nC:  d \r\n", "A: b\r\nC: d\r\n"),
        (
            "Host: x\r\nContent-Length: 5\r\nok: 1\r\nauthorization: y\r\n",
            "ok: 1\r\n",
        ),
    ] {
        let bytes = format!("0\r\n{section}\r\nnext");
        let body = decode_all_ways(Framing::Chunked, bytes.as_bytes()).expect("well formed");
        assert_eq!(
            (body.trailers.as_slice(), body.rest),
            (expected.as_bytes(), 4),
            "{section:?}"
        );
    }
}

#[test]
fn trailers_can_be_dropped_for_a_single_body() {
    let mut decoder = BodyDecoder::default();
    for dropped in [false, true, false] {
        decoder.reset(Framing::Chunked);
        if dropped {
            decoder.drop_trailers();
        }
        let mut bytes = *b"0\r\na: b\r\n\r\n";
        let decoded = decoder.decode(&mut bytes).expect("well formed");
        assert!(decoded.done);
        assert_eq!(decoder.trailers().is_empty(), dropped);
    }
}

#[test]
fn rejects_malformed_chunks() {
    let long_extension = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(257));
    let many_trailers = format!("0\r\n{}\r\n", "a:b\r\n".repeat(65));
    let long_trailers = format!("0\r\na: {}\r\n\r\n", "b".repeat(9000));
    for (bytes, error) in [
        ("\r\n", BodyError::ChunkSize),
        ("x\r\n", BodyError::ChunkSize),
        ("-1\r\n", BodyError::ChunkSize),
        ("0x1\r\na\r\n", BodyError::ChunkSize),
        (" 1\r\na\r\n", BodyError::ChunkSize),
        ("1\na\r\n", BodyError::ChunkSize),
        ("1\rx", BodyError::ChunkSize),
        ("00000000000000001\r\na\r\n", BodyError::ChunkSize),
        ("fffffffffffffffff\r\n", BodyError::ChunkSize),
        ("1 \r\na\r\n", BodyError::ChunkExtension),
        ("1 2\r\na\r\n", BodyError::ChunkExtension),
        ("1;a\nb\r\n", BodyError::ChunkExtension),
        ("1;a\0\r\n", BodyError::ChunkExtension),
        (&long_extension, BodyError::ChunkExtension),
        ("1\r\nab\r\n", BodyError::ChunkEnd),
        ("1\r\na\n", BodyError::ChunkEnd),
        ("1\r\na\rx", BodyError::ChunkEnd),
        ("0\r\n\n", BodyError::Trailers),
        ("0\r\na: b\n\r\n", BodyError::Trailers),
        ("0\r\na : b\r\n\r\n", BodyError::Trailers),
        ("0\r\na: b\r\n c\r\n\r\n", BodyError::Trailers),
        ("0\r\na\r\n\r\n", BodyError::Trailers),
        ("0\r\na: b\rc\r\n\r\n", BodyError::Trailers),
        (&many_trailers, BodyError::TrailersTooLarge),
        (&long_trailers, BodyError::TrailersTooLarge),
    ] {
        let unsplit = decode(Framing::Chunked, bytes.as_bytes(), usize::MAX / 2);
        assert_eq!(unsplit, Err(error), "{bytes:?}");
        assert_eq!(
            decode(Framing::Chunked, bytes.as_bytes(), 1),
            Err(error),
            "{bytes:?}"
        );
    }
}

#[test]
fn a_chunk_size_of_sixteen_digits_does_not_overflow() {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    let step = decoder.decode(&mut b"ffffffffffffffff\r\nabc".to_vec());
    assert_eq!(step.map(|step| step.payload), Ok(18..21));
    assert_eq!(decoder.end_of_input(), Err(BodyError::Truncated));
}

#[test]
fn end_of_connection_completes_only_close_delimited_bodies() {
    let mut decoder = BodyDecoder::new(Framing::UntilClose);
    let step = decoder.decode(&mut b"abc".to_vec());
    assert_eq!(
        step.map(|step| (step.payload, step.done)),
        Ok((0..3, false))
    );
    assert_eq!(decoder.end_of_input(), Ok(()));
    assert!(decoder.is_done());
    decoder.reset(Framing::Length(1));
    assert_eq!(decoder.remaining(), Some(1));
    assert_eq!(decoder.end_of_input(), Err(BodyError::Truncated));
    decoder.reset(Framing::Chunked);
    assert_eq!(decoder.end_of_input(), Err(BodyError::Truncated));
}

#[test]
fn the_payload_of_a_single_chunk_is_not_moved() {
    let mut buf = b"5\r\nhello\r\n".to_vec();
    let step = BodyDecoder::new(Framing::Chunked).decode(&mut buf);
    assert_eq!(step.map(|step| step.payload), Ok(3..8));
}

proptest! {
    #[test]
    fn chunked_bodies_round_trip(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..8),
        piece in 1_usize..700,
        rest in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = Vec::new();
        for chunk in &chunks {
            encode::chunk_head(&mut bytes, chunk.len());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(encode::CHUNK_END);
        }
        encode::last_chunk(&mut bytes, b"a: b\r\n");
        bytes.extend_from_slice(&rest);
        // The last piece may end beyond the body: `decode` checks that what follows is untouched.
        let body = decode(Framing::Chunked, &bytes, piece).expect("well formed");
        prop_assert_eq!(body.payload, chunks.concat());
        prop_assert_eq!(body.trailers, b"a: b\r\n");
        prop_assert_eq!(body.rest, rest.len());
        prop_assert!(body.done);
    }

    #[test]
    fn decoding_never_panics_and_does_not_depend_on_splits(
        bytes in "[0-3a;:\\r\\n \t\u{0}]{0,40}", piece in 1_usize..8,
    ) {
        let unsplit = decode(Framing::Chunked, bytes.as_bytes(), usize::MAX / 2);
        let split = decode(Framing::Chunked, bytes.as_bytes(), piece);
        prop_assert_eq!(unsplit, split);
    }
}
