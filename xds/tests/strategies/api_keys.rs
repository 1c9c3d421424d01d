//! API keys.

use proptest::prelude::*;
use proptest::{collection::vec, option};
use xds::model::{ApiKey, ApiKeyPolicy, ApiKeys, JwtForward, KeyDigest};

use super::jwt::source;
use super::value::{header_name, name};

prop_compose! {
    pub(super) fn api_keys()(
        from in vec(source(), 1..3),
        client_header in option::of(header_name()),
        forward in prop_oneof![Just(JwtForward::Strip), Just(JwtForward::Keep)],
        accepted in vec(key(), 0..3),
        is_incomplete in any::<bool>(),
    ) -> ApiKeyPolicy {
        let keys = ApiKeys { accepted: accepted.into(), is_incomplete };
        ApiKeyPolicy { from, client_header, forward, keys }
    }
}

fn key() -> impl Strategy<Value = ApiKey> {
    (name(), any::<[u8; 32]>()).prop_map(|(client, digest)| ApiKey {
        client: client.into(),
        digest: KeyDigest(digest),
    })
}
