//! JWT policies.

use super::field_path::FieldPath;
use super::value::{choice, duration, header_name, set_text, target};
use crate::model::{
    ClaimHeader, JwksLocation, JwtForward, JwtKeys, JwtMode, JwtPolicy, JwtProvider, JwtSource,
};
use crate::proto::{self, jwt_provider, jwt_source, remote_jwks};

pub(super) fn jwt_policy(place: &FieldPath<'_>, message: proto::JwtPolicy) -> Option<JwtPolicy> {
    let mode = choice(&place.field("mode"), message.mode, |mode| match mode {
        proto::JwtMode::Unspecified => None,
        proto::JwtMode::Strict => Some(JwtMode::Strict),
        proto::JwtMode::Optional => Some(JwtMode::Optional),
    });
    let realm = place.optional("realm", message.realm, set_text);
    let providers = place.list("providers", message.providers, provider);
    Some(JwtPolicy {
        mode: mode?,
        realm: realm?,
        providers: providers?,
    })
}

fn provider(place: &FieldPath<'_>, message: proto::JwtProvider) -> Option<JwtProvider> {
    let name = place.text("name", message.name);
    let issuer = place.text("issuer", message.issuer);
    let audiences = place.list("audiences", message.audiences, set_text);
    let keys = match message.keys {
        Some(jwt_provider::Keys::Inline(text)) => place.text("inline", text).map(JwtKeys::Inline),
        Some(jwt_provider::Keys::Remote(message)) => remote(&place.field("remote"), message),
        None => place.field("keys").no_choice(),
    };
    let from = place.list("from", message.from, source);
    let claims_to_headers = place.list("claims_to_headers", message.claims_to_headers, claim);
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
    })
}

fn remote(place: &FieldPath<'_>, message: proto::RemoteJwks) -> Option<JwtKeys> {
    let location = match message.location {
        Some(remote_jwks::Location::Backend(message)) => backend(&place.field("backend"), message),
        Some(remote_jwks::Location::Url(url)) => place.text("url", url).map(JwksLocation::Url),
        None => place.field("location").no_choice(),
    };
    let cache = place.optional("cache", message.cache, duration);
    Some(JwtKeys::Remote {
        location: location?,
        cache: cache?,
    })
}

fn backend(place: &FieldPath<'_>, message: proto::BackendJwks) -> Option<JwksLocation> {
    let target = place.required("target", message.target, target);
    let path = if message.path.starts_with('/') {
        Some(message.path)
    } else {
        place.field("path").problem("does not start with `/`")
    };
    Some(JwksLocation::Backend {
        target: target?,
        path: path?,
    })
}

fn source(place: &FieldPath<'_>, message: proto::JwtSource) -> Option<JwtSource> {
    match message.kind {
        Some(jwt_source::Kind::Header(header)) => {
            let place = place.field("header");
            let name = header_name(&place.field("name"), &header.name);
            Some(JwtSource::Header {
                name: name?,
                prefix: header.prefix,
            })
        }
        Some(jwt_source::Kind::Query(name)) => place.text("query", name).map(JwtSource::Query),
        Some(jwt_source::Kind::Cookie(name)) => place.text("cookie", name).map(JwtSource::Cookie),
        None => place.no_choice(),
    }
}

fn claim(place: &FieldPath<'_>, message: proto::ClaimHeader) -> Option<ClaimHeader> {
    let claim = place.text("claim", message.claim);
    let header = header_name(&place.field("header"), &message.header);
    Some(ClaimHeader {
        claim: claim?,
        header: header?,
    })
}
