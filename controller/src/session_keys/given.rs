//! The session keys that users give: Secrets that `GatewayParameters` name in `sessionKeyRef`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::{Instant, timeout};
use xds::model::{ObjectName, SessionKey};

use super::secret::entry;
use super::stored::KeySource;
use crate::outputs::Outputs;

/// Reads keys of users.
pub(super) struct GivenKeys {
    client: Client,
    outputs: Arc<Outputs>,
    read: BTreeMap<ObjectName, (Instant, Result<SessionKey, Arc<str>>)>,
}

impl GivenKeys {
    pub(super) fn new(client: Client, outputs: Arc<Outputs>) -> Self {
        Self {
            client,
            outputs,
            read: BTreeMap::new(),
        }
    }

    /// Where the keys of a Gateway come from, and why its Secret cannot be used. A key of its class is derived for it,
    /// since all that see what its proxies have must not learn the keys of other Gateways.
    pub(super) async fn source(
        &mut self,
        gateway: &ObjectName,
        now: Instant,
    ) -> (KeySource, Option<Arc<str>>) {
        let (secret, origin) = match self.reference(gateway) {
            Reference::None => return (KeySource::Own, None),
            Reference::Unknown => return (KeySource::Unknown, None),
            Reference::To(secret, origin) => (secret, origin),
        };
        let known = self.read.get(&secret);
        let is_recent = known.is_some_and(|(at, _)| now.duration_since(*at) < REREAD);
        if !is_recent {
            let key = self.read(&secret).await;
            // Not `now`: what is due before may have waited for responses.
            self.read.insert(secret.clone(), (Instant::now(), key));
        }
        match self.read.get(&secret) {
            Some((_, Ok(key))) => match origin {
                Origin::Gateway => (KeySource::Given(key.clone()), None),
                Origin::Class => {
                    let derived = derived(key, gateway);
                    (derived.map_or(KeySource::Unknown, KeySource::Given), None)
                }
            },
            Some((_, Err(why))) => (KeySource::Unknown, Some(Arc::clone(why))),
            None => (KeySource::Unknown, None),
        }
    }

    /// Forgets Secrets that were not read for long: nothing names them.
    pub(super) fn forget_unused(&mut self, now: Instant) {
        self.read
            .retain(|_, (at, _)| now.duration_since(*at) < 2 * REREAD);
    }

    /// The Secret that the parameters of a Gateway name, or else those of its class. What is not known, such as
    /// parameters that do not exist, changes no key.
    fn reference(&self, gateway: &ObjectName) -> Reference {
        let Some(infrastructure) = self.outputs.infrastructure.get(gateway) else {
            return Reference::Unknown;
        };
        if infrastructure.has_foreign_parameters {
            return Reference::Unknown;
        }
        let own = infrastructure.parameters.as_ref();
        let own = own.map_or(Reference::None, |name| {
            self.in_parameters(name, Origin::Gateway)
        });
        if !matches!(own, Reference::None) {
            return own;
        }
        match self.outputs.class_parameters.get(&infrastructure.class) {
            None => Reference::None,
            Some(Ok(name)) => self.in_parameters(&name, Origin::Class),
            Some(Err(_)) => Reference::Unknown,
        }
    }

    fn in_parameters(&self, name: &ObjectName, origin: Origin) -> Reference {
        let Some(spec) = self.outputs.parameters.get(name) else {
            return Reference::Unknown;
        };
        let secret = spec.get("sessionKeyRef").and_then(|it| it.get("name"));
        let secret = secret.and_then(serde_json::Value::as_str);
        secret.map_or(Reference::None, |secret| {
            Reference::To(ObjectName::new(&name.namespace, secret), origin)
        })
    }

    /// The controller may list Secrets, since it follows those with certificates.
    async fn read(&self, name: &ObjectName) -> Result<SessionKey, Arc<str>> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &name.namespace);
        let field = format!("metadata.name={}", name.name);
        let params = ListParams::default().fields(&field);
        let listed = timeout(DEADLINE, secrets.list(&params)).await;
        let of_secret = |what: &dyn std::fmt::Display| {
            Arc::from(format!("sessionKeyRef: Secret {name}: {what}"))
        };
        let listed = listed
            .map_err(|_| of_secret(&"the API server does not respond"))?
            .map_err(|error| of_secret(&format_args!("cannot be read: {error}")))?;
        let mut found = listed.items.into_iter();
        let found = found.find(|it| it.metadata.name.as_deref() == Some(&*name.name));
        let secret = found.ok_or_else(|| of_secret(&"it does not exist: create it"))?;
        let content = entry(&secret, ENTRY);
        let missing = || of_secret(&format_args!("it has no entry `{ENTRY}`: add it"));
        let key = SessionKey::parse(content.ok_or_else(missing)?);
        let key = key.map_err(|error| of_secret(&format_args!("entry `{ENTRY}`: {error}")))?;
        Ok(key.0)
    }
}

enum Reference {
    None,
    To(ObjectName, Origin),
    Unknown,
}

/// The key of a Gateway that is derived from that of its class. It says nothing about that one, or those of other
/// Gateways; Gateways of the same namespace and name in several clusters have the same.
pub(super) fn derived(key: &SessionKey, gateway: &ObjectName) -> Option<SessionKey> {
    // Always of a valid length.
    SessionKey::new(&key.derive(&format!("Gateway {gateway}"))).ok()
}

/// Whose parameters name a Secret.
#[derive(Clone, Copy)]
enum Origin {
    Gateway,
    Class,
}

/// The entry of a user's Secret with the key.
const ENTRY: &str = "key";
/// Interval of reading a user's Secret: 30 s. A new key signs a minute later at the earliest.
const REREAD: Duration = Duration::from_secs(30);
/// How long a response may take.
const DEADLINE: Duration = Duration::from_secs(5);
