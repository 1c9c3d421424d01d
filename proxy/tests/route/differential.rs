//! The router against the naive reading, on rules and requests made at random.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};

use super::oracle::route_match;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_048, ..ProptestConfig::default() })]

    #[test]
    fn selects_as_the_naive_reading_does(data in vec(any::<u8>(), 0..512)) {
        route_match(&data);
    }
}

#[test]
fn corpus_of_the_fuzz_target_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/route_match");
    for file in fs::read_dir(corpus).into_iter().flatten() {
        let file = file.expect("a file of the corpus").path();
        route_match(&fs::read(&file).expect("a file that can be read"));
    }
}
