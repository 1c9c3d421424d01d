//! Bodies: how they are cut does not matter, and what follows one is left alone.

use proxy::http::h1::BodyError;
use proxy::http::h1::body::BodyDecoder;
use proxy::http::h1::encode;
use proxy::http::head::Framing;

/// Checks `data`: a byte that picks the framing, one that picks the size of pieces, a body.
pub(crate) fn check(data: &[u8]) {
    let [pick, piece, bytes @ ..] = data else {
        return;
    };
    let framing = match pick % 4 {
        0 => Framing::Empty,
        1 => Framing::Length(u64::from(*pick)),
        2 => Framing::UntilClose,
        _ => Framing::Chunked,
    };
    let piece = usize::from(*piece).max(1);
    let whole = decode(BodyDecoder::new(framing), bytes, bytes.len().max(1));
    let pieces = decode(BodyDecoder::new(framing), bytes, piece);
    assert_eq!(whole, pieces);
    let response = || BodyDecoder::of_response(framing);
    let in_response = decode(response(), bytes, bytes.len().max(1));
    assert_eq!(in_response, decode(response(), bytes, piece));
    if whole.is_ok() {
        assert_eq!(
            in_response, whole,
            "a response accepts more, and nothing differently"
        );
    }
    if let Ok(body) = whole
        && body.is_done
    {
        check_again(&body);
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Body {
    payload: Vec<u8>,
    trailers: Vec<u8>,
    consumed: usize,
    is_done: bool,
}

fn decode(mut decoder: BodyDecoder, bytes: &[u8], piece: usize) -> Result<Body, BodyError> {
    let mut payload = Vec::new();
    let mut consumed = 0;
    while consumed < bytes.len() && !decoder.is_done() {
        let rest = &bytes[consumed..];
        let mut buf = rest[..rest.len().min(piece)].to_vec();
        let step = decoder.decode(&mut buf)?;
        assert_eq!(step.done, decoder.is_done());
        assert!(step.done || step.consumed == buf.len());
        assert!(step.payload.end <= step.consumed);
        assert_eq!(buf[step.consumed..], rest[step.consumed..buf.len()]);
        payload.extend_from_slice(&buf[step.payload]);
        consumed += step.consumed;
    }
    Ok(Body {
        payload,
        trailers: decoder.trailers().to_vec(),
        consumed,
        is_done: decoder.is_done(),
    })
}

/// Written anew, a body means the same.
fn check_again(body: &Body) {
    let mut bytes = Vec::new();
    if !body.payload.is_empty() {
        encode::chunk_head(&mut bytes, body.payload.len());
        bytes.extend_from_slice(&body.payload);
        bytes.extend_from_slice(encode::CHUNK_END);
    }
    encode::last_chunk(&mut bytes, &body.trailers);
    let again = decode(BodyDecoder::new(Framing::Chunked), &bytes, bytes.len())
        .expect("what we write we read");
    assert_eq!(
        (&again.payload, &again.trailers),
        (&body.payload, &body.trailers)
    );
    assert!(again.is_done && again.consumed == bytes.len());
}
