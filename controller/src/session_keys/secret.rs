//! The Secret with the session keys of a Gateway, in the namespace of the controller.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use ring::digest;
use xds::model::ObjectName;

use super::stored::{ENTRY, InvalidKeys, StoredKeys};
use crate::deploy::labels::{MANAGED_BY, MANAGER};

/// The name of the Secret of a Gateway. A namespace has no dots, so Gateways never share one.
pub(super) fn name(gateway: &ObjectName) -> String {
    let full = format!("{PREFIX}{}.{}", gateway.namespace, gateway.name);
    if full.len() <= NAME_BYTES {
        return full;
    }
    let hash = digest::digest(&digest::SHA256, gateway.to_string().as_bytes());
    let mut short = PREFIX.to_owned();
    for byte in hash.as_ref().iter().take(16) {
        // Writing to a String cannot fail.
        let _ = write!(short, "{byte:02x}");
    }
    short
}

/// The Gateway of a Secret; `None` if it is not the Secret of one.
pub(super) fn gateway(secret: &Secret) -> Option<ObjectName> {
    let gateway = secret.metadata.annotations.as_ref()?.get(GATEWAY)?;
    let (namespace, object) = gateway.split_once('/')?;
    let gateway = ObjectName::parse(namespace, object).ok()?;
    (secret.metadata.name.as_ref() == Some(&name(&gateway))).then_some(gateway)
}

/// A Secret with the keys of a Gateway.
pub(super) fn new(gateway: &ObjectName, keys: &StoredKeys) -> Secret {
    let labels = [(LABEL, "true"), (MANAGED_BY, MANAGER)];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name(gateway)),
            labels: Some(BTreeMap::from(labels)),
            annotations: Some([(GATEWAY.to_owned(), gateway.to_string())].into()),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    };
    with_keys(secret, keys)
}

/// The Secret with other keys. The rest of it, and above all its version, stays, so that no other write is
/// overwritten.
pub(super) fn with_keys(mut secret: Secret, keys: &StoredKeys) -> Secret {
    let data = secret.data.get_or_insert_default();
    data.insert(ENTRY.to_owned(), ByteString(keys.entry()));
    secret
}

/// The Secret without the wish for another key, which was granted.
pub(super) fn without_wish(mut secret: Secret) -> Secret {
    if let Some(annotations) = &mut secret.metadata.annotations {
        annotations.remove(ROTATE);
    }
    secret
}

/// Whether someone wishes for another key.
pub(super) fn is_asked_for_another(secret: &Secret) -> bool {
    let annotations = secret.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(ROTATE))
}

/// The keys in a Secret.
pub(super) fn keys(secret: &Secret) -> Result<StoredKeys, InvalidKeys> {
    StoredKeys::parse(entry(secret, ENTRY))
}

/// An entry of a Secret.
pub(super) fn entry<'a>(secret: &'a Secret, name: &str) -> Option<&'a [u8]> {
    let entry = secret.data.as_ref()?.get(name)?;
    Some(&entry.0)
}

/// Label of the Secrets with session keys.
pub(super) const LABEL: &str = "gateway-system.io/session-keys";
/// Annotation with the Gateway, as `namespace/name`.
const GATEWAY: &str = "gateway-system.io/gateway";
/// Annotation by which someone asks for another key; its value does not matter.
const ROTATE: &str = "gateway-system.io/rotate";
const PREFIX: &str = "session-keys.";
/// Longest name of an object (RFC 1123).
const NAME_BYTES: usize = 253;

#[cfg(test)]
mod tests {
    use xds::model::SessionKey;

    use super::*;

    #[test]
    fn gateways_have_secrets_of_different_names() {
        let long = ObjectName::new(&"n".repeat(63), &"g".repeat(253));
        let other = ObjectName::new(&"n".repeat(63), &"g".repeat(252));
        let names = [
            name(&ObjectName::new("a-b", "c")),
            name(&ObjectName::new("a", "b-c")),
            name(&ObjectName::new("a", "b.c")),
            name(&long),
            name(&other),
        ];
        assert_eq!(names[0], "session-keys.a-b.c");
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert!(names.iter().all(|it| it.len() <= NAME_BYTES), "{names:?}");
    }

    #[test]
    fn a_secret_names_its_gateway_and_the_gateway_its_secret() {
        let gateway = ObjectName::new("a", "web");
        let key = SessionKey::new(&[1; 32]).expect("a key");
        let keys = StoredKeys::first(key, jiff::Timestamp::UNIX_EPOCH);
        let secret = new(&gateway, &keys);
        assert_eq!(super::gateway(&secret), Some(gateway));
        assert_eq!(super::keys(&secret), Ok(keys));
        // A copy of it, and one that was made for another.
        let mut copy = secret.clone();
        copy.metadata.name = Some("copy".to_owned());
        assert_eq!(super::gateway(&copy), None);
        let mut other = secret;
        let annotations = other.metadata.annotations.get_or_insert_default();
        annotations.insert(GATEWAY.to_owned(), "b/web".to_owned());
        assert_eq!(super::gateway(&other), None);
    }
}
