//! JWT policies.

use proptest::prelude::*;
use proptest::{collection::vec, option};
use xds::model::{
    ClaimHeader, JwksLocation, JwtExpiry, JwtForward, JwtKeys, JwtMode, JwtPolicy, JwtProvider,
    JwtSource,
};

use super::value::{duration, header_name, name, target};

prop_compose! {
    pub(super) fn jwt_policy()(
        mode in prop_oneof![Just(JwtMode::Strict), Just(JwtMode::Optional)],
        realm in option::of(name()),
        providers in vec(provider(), 0..3),
    ) -> JwtPolicy {
        JwtPolicy { mode, realm, providers }
    }
}

prop_compose! {
    fn provider()(
        name in name(),
        issuer in "https://[a-z/]{1,16}",
        audiences in vec(name(), 0..3),
        keys in keys(),
        from in vec(source(), 0..3),
        forward in prop_oneof![Just(JwtForward::Strip), Just(JwtForward::Keep)],
        claims_to_headers in vec(claim(), 0..3),
        clock_skew in option::of(duration()),
        expiry in prop_oneof![Just(JwtExpiry::Required), Just(JwtExpiry::Optional)],
    ) -> JwtProvider {
        JwtProvider {
            name, issuer, audiences, keys, from, forward, claims_to_headers, clock_skew, expiry,
        }
    }
}

fn keys() -> impl Strategy<Value = JwtKeys> {
    let backend = (target(), "/[a-z/]{0,8}")
        .prop_map(|(target, path)| JwksLocation::Backend { target, path });
    let url = "https://[a-z/]{1,16}".prop_map(JwksLocation::Url);
    let remote = (prop_oneof![backend, url], option::of(duration()))
        .prop_map(|(location, cache)| JwtKeys::Remote { location, cache });
    prop_oneof!["[{}a-z]{1,16}".prop_map(JwtKeys::Inline), remote]
}

pub(super) fn source() -> impl Strategy<Value = JwtSource> {
    prop_oneof![
        (header_name(), "[A-Za-z ]{0,8}")
            .prop_map(|(name, prefix)| JwtSource::Header { name, prefix }),
        name().prop_map(JwtSource::Query),
        name().prop_map(JwtSource::Cookie),
    ]
}

fn claim() -> impl Strategy<Value = ClaimHeader> {
    (name(), header_name()).prop_map(|(claim, header)| ClaimHeader { claim, header })
}
