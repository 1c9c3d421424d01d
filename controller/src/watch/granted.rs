//! The Secrets that ReferenceGrants let TrafficPolicies of other namespaces refer to: of others, nothing is kept.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use translate::ObjectKind;
use translate::api::ReferenceGrant;
use xds::model::ObjectName;

/// The permissions of all grants.
#[derive(Debug, Default)]
pub(super) struct GrantedSecrets {
    /// By the namespace of the grants and of the Secrets.
    permissions: HashMap<Arc<str>, HashMap<ObjectName, BTreeSet<Permission>>>,
}

/// A namespace whose policies may refer to a Secret of this name, or to all.
type Permission = (String, Option<String>);

impl GrantedSecrets {
    /// Replaces a grant. Returns whether its permissions changed.
    pub(super) fn replace(&mut self, name: &ObjectName, grant: Option<&ReferenceGrant>) -> bool {
        let permissions: BTreeSet<Permission> = grant.into_iter().flat_map(permissions).collect();
        let grants = self.permissions.entry(name.namespace.clone());
        let grants = grants.or_default();
        let before = if permissions.is_empty() {
            grants.remove(name)
        } else {
            grants.insert(name.clone(), permissions.clone())
        };
        if grants.is_empty() {
            self.permissions.remove(&name.namespace);
        }
        before.unwrap_or_default() != permissions
    }

    /// Whether policies of a namespace may refer to a Secret.
    pub(super) fn permit(&self, namespace: &str, secret: &ObjectName) -> bool {
        if *secret.namespace == *namespace {
            return true;
        }
        let grants = self.permissions.get(&secret.namespace).into_iter();
        let mut permissions = grants.flat_map(HashMap::values).flatten();
        permissions.any(|(from, name)| {
            from == namespace && name.as_ref().is_none_or(|name| **name == *secret.name)
        })
    }
}

fn permissions(grant: &ReferenceGrant) -> impl Iterator<Item = Permission> {
    let (policy, secret) = (ObjectKind::TrafficPolicy, ObjectKind::Secret);
    let from = { grant.spec.from.iter() }
        .filter(move |from| from.group == policy.group() && from.kind == policy.name());
    let to = { grant.spec.to.iter() }
        .filter(move |to| to.group == secret.group() && to.kind == secret.name());
    let names: Vec<Option<String>> = to
        .map(|to| to.name.clone().filter(|name| !name.is_empty()))
        .collect();
    from.flat_map(move |from| {
        let names = names.clone().into_iter();
        names.map(|name| (from.namespace.clone(), name))
    })
}
