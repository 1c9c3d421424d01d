//! API keys. Errors never contain their digests.

use super::field_path::FieldPath;
use super::jwt::source;
use super::value::header_name;
use crate::model::{ApiKey, ApiKeyPolicy, ApiKeys, JwtForward, KeyDigest};
use crate::proto;

pub(super) fn api_keys(at: &FieldPath<'_>, message: proto::ApiKeyPolicy) -> Option<ApiKeyPolicy> {
    let from = at.some("from", message.from, source);
    let header = Some(message.client_header).filter(|name| !name.is_empty());
    let client_header = at.optional("client_header", header, |at, name| header_name(at, &name));
    let accepted = at.list("keys", message.keys, key);
    Some(ApiKeyPolicy {
        from: from?,
        client_header: client_header?,
        forward: if message.forward {
            JwtForward::Keep
        } else {
            JwtForward::Strip
        },
        keys: ApiKeys {
            accepted: accepted?.into(),
            is_incomplete: message.incomplete,
        },
    })
}

fn key(at: &FieldPath<'_>, message: proto::ApiKey) -> Option<ApiKey> {
    let client = at.text("client", message.client);
    let digest = <[u8; 32]>::try_from(message.digest)
        .map_err(|bytes| format!("has {} bytes: SHA-256 has 32", bytes.len()));
    let digest = at.field("digest").accept(digest);
    Some(ApiKey {
        client: client?.into(),
        digest: KeyDigest(digest?),
    })
}
