//! JWT policies.

use super::field_path::FieldPath;
use super::value::{choice, duration, header_name, set_text, target};
use crate::model::{
    ClaimHeader, JwksLocation, JwtExpiry, JwtForward, JwtKeys, JwtMode, JwtPolicy, JwtProvider,
    JwtSource,
};
use crate::proto::{self, jwt_provider, jwt_source, remote_jwks};

pub(super) fn jwt_policy(at: &FieldPath<'_>, message: proto::JwtPolicy) -> Option<JwtPolicy> {
    let mode = mode(at, message.mode);
    let realm = at.optional("realm", message.realm, set_text);
    let providers = at.list("providers", message.providers, provider);
    Some(JwtPolicy {
        mode: mode?,
        realm: realm?,
        providers: providers?,
    })
}

/// What becomes of requests without the credential.
pub(super) fn mode(at: &FieldPath<'_>, mode: i32) -> Option<JwtMode> {
    choice(&at.field("mode"), mode, |mode| match mode {
        proto::JwtMode::Unspecified => None,
        proto::JwtMode::Strict => Some(JwtMode::Strict),
        proto::JwtMode::Optional => Some(JwtMode::Optional),
    })
}

fn provider(at: &FieldPath<'_>, message: proto::JwtProvider) -> Option<JwtProvider> {
    let name = at.text("name", message.name);
    let issuer = at.text("issuer", message.issuer);
    let audiences = at.list("audiences", message.audiences, set_text);
    let keys = match message.keys {
        Some(jwt_provider::Keys::Inline(text)) => at.text("inline", text).map(JwtKeys::Inline),
        Some(jwt_provider::Keys::Remote(message)) => remote(&at.field("remote"), message),
        None => at.field("keys").record_missing_choice(),
    };
    let from = at.list("from", message.from, source);
    let claims_to_headers = at.list("claims_to_headers", message.claims_to_headers, claim);
    let clock_skew = at.optional("clock_skew", message.clock_skew, duration);
    Some(JwtProvider {
        name: name?,
        issuer: issuer?,
        audiences: audiences?,
        keys: keys?,
        from: from?,
        forward: if message.forward {
            JwtForward::Keep
        } else {
            JwtForward::Strip
        },
        claims_to_headers: claims_to_headers?,
        clock_skew: clock_skew?,
        expiry: if message.without_expiry {
            JwtExpiry::Optional
        } else {
            JwtExpiry::Required
        },
    })
}

fn remote(at: &FieldPath<'_>, message: proto::RemoteJwks) -> Option<JwtKeys> {
    let location = match message.location {
        Some(remote_jwks::Location::Backend(message)) => backend(&at.field("backend"), message),
        Some(remote_jwks::Location::Url(url)) => at.text("url", url).map(JwksLocation::Url),
        None => at.field("location").record_missing_choice(),
    };
    let cache = at.optional("cache", message.cache, duration);
    Some(JwtKeys::Remote {
        location: location?,
        cache: cache?,
    })
}

fn backend(at: &FieldPath<'_>, message: proto::BackendJwks) -> Option<JwksLocation> {
    let target = at.required("target", message.target, target);
    let path = if message.path.starts_with('/') {
        Some(message.path)
    } else {
        at.field("path").problem("does not start with `/`")
    };
    Some(JwksLocation::Backend {
        target: target?,
        path: path?,
    })
}

pub(super) fn source(at: &FieldPath<'_>, message: proto::JwtSource) -> Option<JwtSource> {
    match message.kind {
        Some(jwt_source::Kind::Header(header)) => {
            let at = at.field("header");
            let name = header_name(&at.field("name"), &header.name);
            Some(JwtSource::Header {
                name: name?,
                prefix: header.prefix,
            })
        }
        Some(jwt_source::Kind::Query(name)) => at.text("query", name).map(JwtSource::Query),
        Some(jwt_source::Kind::Cookie(name)) => at.text("cookie", name).map(JwtSource::Cookie),
        None => at.record_missing_choice(),
    }
}

fn claim(at: &FieldPath<'_>, message: proto::ClaimHeader) -> Option<ClaimHeader> {
    let claim = at.text("claim", message.claim);
    let header = header_name(&at.field("header"), &message.header);
    Some(ClaimHeader {
        claim: claim?,
        header: header?,
    })
}
