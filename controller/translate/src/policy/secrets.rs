//! Secrets with credentials that policies refer to.

use std::sync::Arc;

use xds::model::ObjectName;

use crate::backend::referrer::Referrer;
use crate::gateway::api::SecretObjectReference;
use crate::objects::api::{Resource as _, Secret};
use crate::objects::grants::Referent;
use crate::objects::kinds::{ObjectKind, WrittenKind};
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
        let written = WrittenKind { group, kind };
        let message = format!("credentials cannot come from {written}: refer to a Secret");
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
    let secret = reader.object::<Secret>(&name).ok_or_else(|| {
        let message = format!("Secret {name} does not exist: create it");
        problem(Reason::InvalidSecretRef, message)
    })?;
    match secret.kind.as_deref().filter(|kind| is_of_others(kind)) {
        None => Ok(secret),
        Some(kind) => {
            let message = format!(
                "Secret {name} has the type `{kind}`, whose entries are for something else, and may be public: \
                 create a Secret of type Opaque for the credentials"
            );
            Err(problem(Reason::InvalidSecretRef, message))
        }
    }
}

/// Whether entries of Secrets of this type have a meaning of their own: a certificate, for instance, is public.
fn is_of_others(kind: &str) -> bool {
    let domain = kind.split('/').next().unwrap_or(kind);
    kind.contains('/')
        && [KUBERNETES, HELM].iter().any(|it| {
            domain == *it
                || domain
                    .strip_suffix(it)
                    .is_some_and(|sub| sub.ends_with('.'))
        })
}

/// The domain of Kubernetes' own types: `kubernetes.io/tls`, `bootstrap.kubernetes.io/token`.
const KUBERNETES: &str = "kubernetes.io";
/// That of releases: `helm.sh/release.v1`.
const HELM: &str = "helm.sh";

/// What follows while the credentials of a Secret are not known.
pub(crate) const UNKNOWN_UNTIL_THEN: &str = "until then the credentials of the other Secrets are accepted, and \
                                             those that are not found get status 503 (credentials_missing)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_other_types_have_no_credentials() {
        for kind in [
            "kubernetes.io/tls",
            "kubernetes.io/service-account-token",
            "kubernetes.io/dockerconfigjson",
            "bootstrap.kubernetes.io/token",
            "helm.sh/release.v1",
        ] {
            assert!(is_of_others(kind), "{kind}");
        }
        for kind in ["Opaque", "", "example.com/keys", "notkubernetes.io/x"] {
            assert!(!is_of_others(kind), "{kind}");
        }
    }
}
