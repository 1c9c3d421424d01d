//! Secrets with credentials that policies refer to.

use std::collections::BTreeMap;
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

/// Why a reference is refused: one before it is to the same Secret, and its entries would be read again.
pub(crate) fn named_before(
    namespace: &str,
    references: &[SecretObjectReference],
    index: usize,
) -> Option<Problem> {
    let mut names = { references.iter() }.map(|reference| name(namespace, reference));
    let name = names.clone().nth(index)?;
    let first = names.position(|other| other == name)?;
    (first < index).then(|| {
        let message = format!("Secret {name} is that of secretRefs[{first}] too: name it once");
        Problem::new(Reason::Invalid, "", message)
    })
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

/// Who may name a client or a user: those who write the Secrets of a namespace are not those who write the Secrets of
/// another, and must not make credentials for its names.
#[derive(Default)]
pub(crate) struct Owners(BTreeMap<String, ObjectName>);

impl Owners {
    /// Makes a Secret the owner of a name, unless one of another namespace is.
    pub(crate) fn own(&mut self, name: &str, secret: &ObjectName) -> Result<(), &ObjectName> {
        let owner = self.0.entry(name.to_owned());
        let owner = owner.or_insert_with(|| secret.clone());
        if owner.namespace == secret.namespace {
            Ok(())
        } else {
            Err(owner)
        }
    }
}

/// What is wrong with the Secrets of a policy.
#[derive(Default)]
pub(crate) struct Findings {
    refs: Vec<Problem>,
    is_incomplete: bool,
    /// How many problems the entries of each reference have, those that are not listed included.
    faults: BTreeMap<String, usize>,
}

impl Findings {
    /// Records why the credentials of a Secret are not known: those that are not found may be among them.
    pub(crate) fn lacks(&mut self, why: Problem) {
        let message = format!("{}; {UNKNOWN_UNTIL_THEN}", why.message);
        self.note(Problem { message, ..why });
        self.is_incomplete = true;
    }

    /// Records a problem.
    pub(crate) fn note(&mut self, problem: Problem) {
        self.refs.push(problem);
    }

    /// Records that an entry admits nobody. A status has no room for all of them, and a Secret may have thousands.
    pub(crate) fn fault(&mut self, field: &str, message: impl FnOnce() -> String) {
        let number = self.faults.entry(field.to_owned()).or_default();
        *number += 1;
        if *number <= FAULTS_SHOWN {
            let problem = Problem::new(Reason::InvalidSecretRef, field, message());
            self.refs.push(problem);
        }
    }

    /// Whether some credentials are not known.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// All of them.
    pub(crate) fn into_refs(mut self) -> Vec<Problem> {
        for (field, number) in &self.faults {
            let more = number.saturating_sub(FAULTS_SHOWN);
            if more > 0 {
                let message = format!("and {more} more problems with its entries");
                let problem = Problem::new(Reason::InvalidSecretRef, field, message);
                self.refs.push(problem);
            }
        }
        self.refs
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

/// Problems with entries that are listed of each reference.
pub(crate) const FAULTS_SHOWN: usize = 4;

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

    #[test]
    fn a_secret_is_named_once() {
        let references = serde_json::json!([
            {"name": "keys"}, {"name": "keys", "namespace": "else"}, {"name": "keys", "namespace": "shop"},
        ]);
        let references: Vec<SecretObjectReference> =
            serde_json::from_value(references).expect("references");
        let refused = [0, 1, 2].map(|index| named_before("shop", &references, index));
        let messages = refused.map(|problem| problem.map(|it| it.message));
        let again = "Secret shop/keys is that of secretRefs[0] too: name it once";
        assert_eq!(messages, [None, None, Some(again.to_owned())]);
    }
}
