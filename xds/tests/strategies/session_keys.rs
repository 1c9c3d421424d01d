//! Session keys.

use proptest::collection::vec;
use proptest::prelude::*;
use xds::model::{SessionKey, SessionKeys};

pub(super) fn session_keys() -> impl Strategy<Value = SessionKeys> {
    let key = vec(any::<u8>(), 32..40).prop_map(|bytes| SessionKey::new(&bytes).expect("a key"));
    (vec(key, 1..=SessionKeys::MAX), any::<prop::sample::Index>()).prop_map(|(keys, signing)| {
        let signing = signing.index(keys.len());
        SessionKeys::new(keys, signing).expect("they are valid")
    })
}
