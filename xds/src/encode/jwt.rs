//! JWT policies.

use super::value::list;
use crate::model::{
    ClaimHeader, JwksLocation, JwtExpiry, JwtForward, JwtKeys, JwtMode, JwtPolicy, JwtProvider,
    JwtSource,
};
use crate::proto::{self, jwt_provider, jwt_source, remote_jwks};

impl From<&JwtPolicy> for proto::JwtPolicy {
    fn from(policy: &JwtPolicy) -> Self {
        Self {
            mode: proto::JwtMode::from(policy.mode).into(),
            realm: policy.realm.clone(),
            providers: list(&policy.providers),
        }
    }
}

impl From<JwtMode> for proto::JwtMode {
    fn from(mode: JwtMode) -> Self {
        match mode {
            JwtMode::Strict => Self::Strict,
            JwtMode::Optional => Self::Optional,
        }
    }
}

impl From<&JwtProvider> for proto::JwtProvider {
    fn from(provider: &JwtProvider) -> Self {
        Self {
            name: provider.name.clone(),
            issuer: provider.issuer.clone(),
            audiences: provider.audiences.clone(),
            keys: Some((&provider.keys).into()),
            from: list(&provider.from),
            forward: provider.forward == JwtForward::Keep,
            claims_to_headers: list(&provider.claims_to_headers),
            clock_skew: provider.clock_skew.map(Into::into),
            without_expiry: provider.expiry == JwtExpiry::Optional,
        }
    }
}

impl From<&JwtKeys> for jwt_provider::Keys {
    fn from(keys: &JwtKeys) -> Self {
        match keys {
            JwtKeys::Inline(text) => Self::Inline(text.clone()),
            JwtKeys::Remote { location, cache } => Self::Remote(proto::RemoteJwks {
                location: Some(location.into()),
                cache: cache.map(Into::into),
            }),
        }
    }
}

impl From<&JwksLocation> for remote_jwks::Location {
    fn from(location: &JwksLocation) -> Self {
        match location {
            JwksLocation::Backend { target, path } => Self::Backend(proto::BackendJwks {
                target: Some(target.into()),
                path: path.clone(),
            }),
            JwksLocation::Url(url) => Self::Url(url.clone()),
        }
    }
}

impl From<&JwtSource> for proto::JwtSource {
    fn from(source: &JwtSource) -> Self {
        let kind = match source {
            JwtSource::Header { name, prefix } => jwt_source::Kind::Header(proto::JwtHeader {
                name: name.to_string(),
                prefix: prefix.clone(),
            }),
            JwtSource::Query(name) => jwt_source::Kind::Query(name.clone()),
            JwtSource::Cookie(name) => jwt_source::Kind::Cookie(name.clone()),
        };
        Self { kind: Some(kind) }
    }
}

impl From<&ClaimHeader> for proto::ClaimHeader {
    fn from(claim: &ClaimHeader) -> Self {
        Self {
            claim: claim.claim.clone(),
            header: claim.header.to_string(),
        }
    }
}
