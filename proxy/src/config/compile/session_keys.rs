//! The session keys in effect: those of files, or else those that the controller gave last, or else a random one.

use std::sync::Arc;

use xds::model::{Policy, PolicySpec, Resource, SessionKeys};

use crate::policy::keyring::Keyring;

/// Where the keys of a process come from, if the controller gives none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrigin {
    /// Files, which take precedence over the controller.
    Files,
    /// Chance.
    Random,
}

/// The session keys of a process.
#[derive(Debug, Default)]
pub(super) struct CurrentSessionKeys {
    own: Option<(KeyOrigin, Arc<Keyring>)>,
    /// Of the Gateway. What was given last stays, so that sessions outlive a controller that cannot read them.
    given: Option<(SessionKeys, Arc<Keyring>)>,
}

impl CurrentSessionKeys {
    /// Sets the keys of the process.
    pub(super) fn set_own(&mut self, origin: KeyOrigin, keys: &SessionKeys) {
        self.own = Some((origin, Arc::new(Keyring::new(keys))));
    }

    /// Takes a resource that is new. Keys are derived again only if they changed.
    pub(super) fn take(&mut self, resource: &Resource) {
        let Some(keys) = session_keys(resource) else {
            return;
        };
        if self.given.as_ref().is_none_or(|(given, _)| given != keys) {
            self.given = Some((keys.clone(), Arc::new(Keyring::new(keys))));
        }
    }

    /// The keys for a snapshot.
    pub(super) fn current(&self) -> Arc<Keyring> {
        let own = self.own.as_ref();
        let of_files = own.filter(|(origin, _)| *origin == KeyOrigin::Files);
        let given = self.given.as_ref().map(|(_, keyring)| keyring);
        let keyring = of_files.map(|(_, keyring)| keyring).or(given);
        let keyring = keyring.or(own.map(|(_, keyring)| keyring));
        keyring.cloned().unwrap_or_default()
    }
}

/// The session keys in a resource.
fn session_keys(resource: &Resource) -> Option<&SessionKeys> {
    let Resource::Policy(policy) = resource else {
        return None;
    };
    policy.spec.session_keys.as_ref()
}

/// Whether a resource has session keys and nothing else, so that nothing has to be compiled for it: the controller
/// sends them so, and a new key must not compile every rule again.
pub(super) fn has_only_session_keys(resource: &Resource) -> bool {
    let Resource::Policy(policy) = resource else {
        return false;
    };
    let Policy { spec, .. } = &**policy;
    spec.session_keys.is_some()
        && *spec
            == PolicySpec {
                session_keys: spec.session_keys.clone(),
                ..PolicySpec::default()
            }
}
