//! Generated field sections through our encoder and decoder, with changes of the table in between.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};

use super::decoder::{Decoder, Scratch};
use super::encoder::{Encoder, Huffman};
use super::{DecodedField, FieldSink, HpackError, Validity};
use crate::http::known::KnownHeader;

#[derive(Default)]
struct Pairs(Vec<(Vec<u8>, Vec<u8>)>);

impl FieldSink for Pairs {
    fn field(&mut self, field: DecodedField<'_>) {
        assert_eq!(field.validity, Validity::Valid);
        self.0.push((field.name.to_vec(), field.value.to_vec()));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Block(Vec<(String, String)>),
    Limit(u32),
    Release,
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "accept",
            "authorization",
            "content-type",
            "cookie",
            "date",
            "set-cookie",
            "te",
            "user-agent",
            "x-request-id",
        ])
        .prop_map(str::to_owned),
        "x-[a-d]{1,3}",
        "[a-z][a-z0-9-]{0,40}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-d]{0,2}",
        2 => "[!-~]{1,60}",
        1 => "[!-~]{100,1500}",
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => vec((name(), value()), 0..12).prop_map(Step::Block),
        1 => prop_oneof![0..5_000_u32, any::<u32>()].prop_map(Step::Limit),
        1 => proptest::strategy::Just(Step::Release),
    ]
}

proptest! {
    #[test]
    fn every_block_decodes_to_its_fields(steps in vec(step(), 1..60), compressed in any::<bool>()) {
        let huffman = if compressed { Huffman::Long } else { Huffman::Never };
        let (mut encoder, mut decoder) = (Encoder::new(huffman), Decoder::default());
        let mut scratch = Scratch::default();
        for step in steps {
            let fields = match step {
                Step::Limit(limit) => {
                    encoder.set_peer_limit(limit);
                    continue;
                }
                Step::Release => {
                    encoder.release_memory();
                    continue;
                }
                Step::Block(fields) => fields,
            };
            let mut block = Vec::new();
            encoder.begin(&mut block);
            for (name, value) in &fields {
                let known = KnownHeader::of(name.as_bytes());
                encoder.field(&mut block, known, name.as_bytes(), value.as_bytes());
            }
            let mut pairs = Pairs::default();
            assert_eq!(decoder.decode(&block, usize::MAX, &mut scratch, &mut pairs), Ok(()));
            let expected: Vec<_> = fields
                .iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect();
            assert_eq!(pairs.0, expected);
        }
    }

    /// No panic, and a block that is cut never decodes to more than the whole.
    #[test]
    fn arbitrary_blocks_are_decoded_or_rejected(block in vec(any::<u8>(), 0..300), cut in 0..300_usize) {
        struct Count(usize);
        impl FieldSink for Count {
            fn field(&mut self, _: DecodedField<'_>) {
                self.0 += 1;
            }
        }
        let decode = |block: &[u8]| {
            let mut count = Count(0);
            let mut scratch = Scratch::default();
            let decoded = Decoder::default().decode(block, 100_000, &mut scratch, &mut count);
            (decoded, count.0)
        };
        let (whole, count) = decode(&block);
        let (part, fewer) = decode(block.get(..cut).unwrap_or(&block));
        assert!(fewer <= count);
        if part == Err(HpackError::TooLarge) {
            assert_eq!(whole, Err(HpackError::TooLarge));
        }
    }
}
