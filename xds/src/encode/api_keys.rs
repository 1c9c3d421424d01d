//! API keys.

use super::value::list;
use crate::model::{ApiKey, ApiKeyPolicy, JwtForward};
use crate::proto;

impl From<&ApiKeyPolicy> for proto::ApiKeyPolicy {
    fn from(policy: &ApiKeyPolicy) -> Self {
        let header = policy.client_header.as_ref();
        Self {
            from: list(&policy.from),
            client_header: header.map_or_else(String::new, ToString::to_string),
            forward: policy.forward == JwtForward::Keep,
            keys: list(&policy.keys.accepted),
            incomplete: policy.keys.is_incomplete,
        }
    }
}

impl From<&ApiKey> for proto::ApiKey {
    fn from(key: &ApiKey) -> Self {
        Self {
            client: key.client.to_string(),
            digest: key.digest.0.to_vec(),
        }
    }
}
