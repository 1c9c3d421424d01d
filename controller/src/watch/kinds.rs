//! The watched kinds.

use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind};
use translate::ObjectKind;
use translate::objects::kinds::{KindScope, Need, Origin, StatusForm};

/// Kinds that are read only if requested: they need reading all pods of a cluster, which costs
/// memory and requires a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// InferencePools of the Gateway API Inference Extension.
    Inference,
    /// XBackends of the experimental channel of Gateway API.
    XBackend,
}

/// How the objects of a kind are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The object, for translation.
    Object,
    /// The object, for translation, and what a write to its status needs.
    ObjectAndStatus,
    /// The `spec` of `GatewayParameters`, for the deployer.
    Parameters,
    /// The decisive fields of a GatewayClass.
    Class,
    /// The Gateway API release of the CRDs.
    Release,
}

/// The kinds that this process watches.
#[derive(Debug, Clone)]
pub struct Kinds(Arc<[ObjectKind]>);

impl Kinds {
    /// All kinds, including requested ones, and the pods that these select.
    #[must_use]
    pub fn new(extensions: &[Extension]) -> Self {
        let is_wanted = |kind: &ObjectKind| match kind {
            ObjectKind::InferencePool => extensions.contains(&Extension::Inference),
            ObjectKind::XBackend => extensions.contains(&Extension::XBackend),
            ObjectKind::Pod => !extensions.is_empty(),
            _ => true,
        };
        let all = ObjectKind::ALL.iter().copied();
        Self(all.filter(is_wanted).collect())
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = ObjectKind> + '_ {
        self.0.iter().copied()
    }

    /// The kinds of policies that protect something.
    pub(super) fn policies(&self) -> impl Iterator<Item = ObjectKind> + '_ {
        self.iter().filter(|kind| is_protecting(*kind))
    }

    /// All other kinds.
    pub(super) fn others(&self) -> impl Iterator<Item = ObjectKind> + '_ {
        self.iter().filter(|kind| !is_protecting(*kind))
    }
}

/// Whether objects of the kind protect others.
pub(super) fn is_protecting(kind: ObjectKind) -> bool {
    kind.definition().need == Need::Protecting
}

/// Whether every API server serves it, so that it needs no discovery.
pub(super) fn is_built_in(kind: ObjectKind) -> bool {
    kind.definition().origin == Origin::EveryApiServer
}

/// Whether its objects are read in selected namespaces only.
pub(super) fn is_scoped(kind: ObjectKind) -> bool {
    kind.definition().scope == KindScope::Namespaces
}

/// How the objects of a kind are read.
pub(crate) fn reading(kind: ObjectKind) -> Reading {
    match kind {
        ObjectKind::GatewayParameters => Reading::Parameters,
        ObjectKind::GatewayClass => Reading::Class,
        ObjectKind::CustomResourceDefinition => Reading::Release,
        _ if kind.definition().status == StatusForm::None => Reading::Object,
        _ => Reading::ObjectAndStatus,
    }
}

/// The resource of a kind in one of its versions.
pub(crate) fn resource(kind: ObjectKind, version: &str) -> ApiResource {
    let gvk = GroupVersionKind::gvk(kind.group(), version, kind.name());
    ApiResource::from_gvk_with_plural(&gvk, kind.definition().plural)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a kind that is not installed would never count as absent.
    #[test]
    fn the_controller_may_read_the_definitions_of_all_kinds() {
        let rules = include_str!("../../../k8s/charts/gateway/files/cluster-rules.yaml");
        let kinds = Kinds::new(&[Extension::Inference, Extension::XBackend]);
        let mut count = 0;
        let defined = kinds.iter().map(ObjectKind::definition);
        for kind in defined.filter(|kind| kind.origin == Origin::Definition) {
            let definition = format!("    - {}.{}\n", kind.plural, kind.group);
            assert!(rules.contains(&definition), "{definition}");
            count += 1;
        }
        assert!(count > 10, "{count}");
    }

    #[test]
    fn plurals_are_those_of_kubernetes() {
        for kind in ObjectKind::ALL {
            // It is a plural already.
            if *kind == ObjectKind::GatewayParameters {
                continue;
            }
            let gvk = GroupVersionKind::gvk(kind.group(), "v1", kind.name());
            let plural = ApiResource::from_gvk(&gvk).plural;
            assert_eq!(kind.definition().plural, plural, "{kind}");
        }
    }
}
