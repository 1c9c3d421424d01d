//! Secrets with credentials that policies refer to.

use std::sync::Arc;

use xds::model::ObjectName;

use crate::backend::referrer::Referrer;
use crate::gateway::api::SecretObjectReference;
use crate::objects::api::{Resource as _, Secret};
use crate::objects::grants::Referent;
use crate::objects::kinds::ObjectKind;
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// The name of the Secret that a policy in `namespace` refers to.
pub(crate) fn name(namespace: &str, reference: &SecretObjectReference) -> ObjectName {
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    ObjectName::new(namespace, &reference.name)
}

/// Resolves the reference of a policy.
pub(crate) fn resolve<'a>(
    reader: &Reader<'a>,
    from: Referrer<'_>,
    reference: &SecretObjectReference,
) -> Result<&'a Arc<Secret>, Problem> {
    let problem = |reason, message: String| Problem::new(reason, "", message);
    let SecretObjectReference { group, kind, .. } = reference;
    if ObjectKind::find(group, kind) != Some(ObjectKind::Secret) {
        let message = format!(
            "credentials cannot come from kind `{kind}` of group `{group}`: refer to a Secret"
        );
        return Err(problem(Reason::InvalidSecretRef, message));
    }
    let name = name(from.namespace, reference);
    let to = Referent {
        group: Secret::KIND.group(),
        kind: Secret::KIND.name(),
        namespace: &name.namespace,
        name: &name.name,
    };
    if !reader.permits(from.kind, from.namespace, to) {
        let message = format!(
            "Secret {name} is in another namespace: add a ReferenceGrant there from {} in `{}`",
            from.kind, from.namespace
        );
        return Err(problem(Reason::RefNotPermitted, message));
    }
    reader.object::<Secret>(&name).ok_or_else(|| {
        let message = format!("Secret {name} does not exist: create it");
        problem(Reason::InvalidSecretRef, message)
    })
}

/// What follows while the credentials of a Secret are not known.
pub(crate) const UNKNOWN_UNTIL_THEN: &str = "until then the credentials of the other Secrets are accepted, and \
                                             those that are not found get status 503 (credentials_missing)";
