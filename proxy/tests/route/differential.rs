//! The router compared with a naive implementation, on random rules and requests.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};

use super::route_match::check;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_048, ..ProptestConfig::default() })]

    #[test]
    fn selection_agrees_with_a_naive_implementation(data in vec(any::<u8>(), 0..512)) {
        check(&data);
    }
}
