//! HPACK: arbitrary blocks are decoded or rejected within their limit, and what is decoded survives our own
//! encoder.

use proxy::http::engine::hpack::decoder::{Decoder, Scratch};
use proxy::http::engine::hpack::encoder::{Encoder, Huffman};
use proxy::http::engine::hpack::{DecodedField, ENTRY_OVERHEAD, FieldSink, NameKind};

/// Bytes that the fields of a block may have.
const MOST: usize = 16 * 1024;

#[derive(Default)]
struct Fields(Vec<(Vec<u8>, Vec<u8>)>);

impl FieldSink for Fields {
    fn field(&mut self, field: DecodedField<'_>) {
        assert_eq!(field.kind, NameKind::of(field.name));
        self.0.push((field.name.to_vec(), field.value.to_vec()));
    }
}

/// Checks `data`: blocks, each behind a byte with its length; all of them use the same tables.
pub(crate) fn check(data: &[u8]) {
    let (mut decoder, mut scratch) = (Decoder::default(), Scratch::default());
    let mut encoders = [Huffman::Never, Huffman::Long].map(|huffman| {
        let encoder = Encoder::new(huffman);
        (encoder, Decoder::default())
    });
    let mut rest = data;
    while let Some((&length, after)) = rest.split_first() {
        let (block, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        let mut fields = Fields::default();
        let decoded = decoder.decode(block, MOST, &mut scratch, &mut fields);
        let size = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len() + ENTRY_OVERHEAD;
        assert!(fields.0.iter().map(size).sum::<usize>() <= MOST);
        for (encoder, decoder) in &mut encoders {
            round_trip(&fields.0, encoder, decoder, &mut scratch);
        }
        if decoded.is_err() {
            return;
        }
        // Now and then the peer changes the size of its table.
        if length % 16 == 15 {
            for (encoder, _) in &mut encoders {
                encoder.set_peer_limit(u32::from(length) * 20);
            }
        }
    }
}

fn round_trip(
    fields: &[(Vec<u8>, Vec<u8>)],
    encoder: &mut Encoder,
    decoder: &mut Decoder,
    scratch: &mut Scratch,
) {
    let mut block = Vec::new();
    encoder.begin(&mut block);
    for (name, value) in fields {
        let NameKind::Field(known) = NameKind::of(name) else {
            continue;
        };
        encoder.field(&mut block, known, name, value);
    }
    let mut again = Fields::default();
    let decoded = decoder.decode(&block, usize::MAX, scratch, &mut again);
    assert_eq!(decoded, Ok(()));
    let expected: Vec<_> = fields
        .iter()
        .filter(|(name, _)| matches!(NameKind::of(name), NameKind::Field(_)))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
        .collect();
    assert_eq!(again.0, expected);
}
