//! The session keys of a Gateway as a resource of its own, so that a new key changes nothing else.

use xds::model::{
    Kind, ObjectName, Policy, PolicyKey, PolicySpec, PolicyTarget, ResourceKey, SessionKeys,
};

use super::api::Gateway;
use crate::objects::api::Resource as _;

/// The resource with the session keys of a Gateway.
#[must_use]
pub fn policy(gateway: &ObjectName, keys: &SessionKeys) -> Policy {
    Policy {
        key: key(gateway),
        target: PolicyTarget::Gateway(gateway.clone()),
        spec: PolicySpec {
            session_keys: Some(keys.clone()),
            ..PolicySpec::default()
        },
    }
}

/// Its kind and key.
#[must_use]
pub fn resource_key(gateway: &ObjectName) -> ResourceKey {
    ResourceKey {
        kind: Kind::Policy,
        key: key(gateway).to_shared(),
    }
}

fn key(gateway: &ObjectName) -> PolicyKey {
    PolicyKey::new(KIND, gateway, &format!("{}/{gateway}", Gateway::KIND))
}

/// In the place of the kind of an object: no user wrote it.
const KIND: &str = "SessionKeys";
