//! The watched kinds.

use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind};
use translate::api::{
    CLASS_KIND, ClusterTrustBundle, GATEWAY_GROUP, OWN_GROUP, PARAMETERS_KIND, Resource as _,
};
use translate::{ObjectRef, files};
use xds::model::ObjectName;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WatchedKind {
    pub(super) id: KindId,
    /// Its API group; empty for the core group.
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    /// Supported versions, the best first.
    pub(super) versions: Vec<&'static str>,
    /// Whether the kind is required.
    pub(super) requirement: Requirement,
    /// How its objects are read.
    pub(super) reading: Reading,
    /// Restricts the objects sent by the API server.
    pub(super) field_selector: Option<&'static str>,
}

/// Index of a kind in [`Kinds`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(usize);

/// Kinds that are read only if requested: they need reading all pods of a cluster, which costs
/// memory and requires a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// InferencePools of the Gateway API Inference Extension.
    Inference,
    /// XBackends of the experimental channel of Gateway API.
    XBackend,
}

/// How missing permission to read the objects of a kind is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requirement {
    /// Nothing is published: it would be incomplete.
    Core,
    /// Treated like a kind that is not served.
    Optional,
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

/// The CRD of `GatewayClass`, whose annotations contain the installed release of Gateway API.
fn definitions() -> WatchedKind {
    WatchedKind {
        id: KindId(0),
        group: "apiextensions.k8s.io",
        kind: DEFINITION,
        versions: vec!["v1"],
        requirement: Requirement::Optional,
        reading: Reading::Release,
        // One suffices: they are installed together.
        field_selector: Some("metadata.name=gatewayclasses.gateway.networking.k8s.io"),
    }
}

/// The kinds that this process watches.
#[derive(Debug, Clone)]
pub struct Kinds(Arc<[Arc<WatchedKind>]>);

impl Kinds {
    /// All kinds, including requested ones, and the pods that these select.
    #[must_use]
    pub fn new(extensions: &[Extension]) -> Self {
        let is_wanted = |kind: &str| match kind {
            "InferencePool" => extensions.contains(&Extension::Inference),
            "XBackend" => extensions.contains(&Extension::XBackend),
            POD => !extensions.is_empty(),
            _ => true,
        };
        let objects = files::kinds().filter(|kind| is_wanted(kind.kind));
        let objects = objects.map(|kind| WatchedKind {
            id: KindId(0),
            group: kind.group,
            kind: kind.kind,
            versions: kind.versions,
            requirement: requirement(kind.group, kind.kind),
            reading: if has_status(kind.group) && kind.kind != "ReferenceGrant" {
                Reading::ObjectAndStatus
            } else {
                Reading::Object
            },
            field_selector: match kind.kind {
                // Helm stores each release in a Secret, of up to 1 MiB.
                "Secret" => Some("type!=helm.sh/release.v1"),
                // Those have terminated, and jobs leave many.
                POD => Some("status.phase!=Succeeded,status.phase!=Failed"),
                _ => None,
            },
        });
        let parameters = WatchedKind {
            id: KindId(0),
            group: OWN_GROUP,
            kind: PARAMETERS_KIND,
            versions: vec!["v1alpha1"],
            requirement: Requirement::Optional,
            reading: Reading::Parameters,
            field_selector: None,
        };
        let classes = WatchedKind {
            id: KindId(0),
            group: GATEWAY_GROUP,
            kind: CLASS_KIND,
            versions: vec!["v1", "v1beta1"],
            requirement: Requirement::Core,
            reading: Reading::Class,
            field_selector: None,
        };
        let all = objects
            .chain([parameters, classes, definitions()])
            .enumerate();
        let all = all.map(|(at, kind)| {
            Arc::new(WatchedKind {
                id: KindId(at),
                ..kind
            })
        });
        Self(all.collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<WatchedKind>> {
        self.0.iter()
    }

    /// The ids of all kinds.
    pub fn ids(&self) -> impl Iterator<Item = KindId> + '_ {
        self.0.iter().map(|kind| kind.id)
    }

    /// The name of a kind.
    #[must_use]
    pub fn name(&self, id: KindId) -> &'static str {
        self.0.get(id.0).map_or("", |kind| kind.kind)
    }

    /// Whether the kind is one of the [`PROTECTING`] policies.
    pub(super) fn is_policy(&self, id: KindId) -> bool {
        PROTECTING.contains(&self.name(id))
    }

    /// The kinds of [`PROTECTING`] policies.
    pub(super) fn policies(&self) -> impl Iterator<Item = KindId> + '_ {
        self.ids().filter(|id| self.is_policy(*id))
    }

    /// All other kinds.
    pub(super) fn others(&self) -> impl Iterator<Item = KindId> + '_ {
        self.ids().filter(|id| !self.is_policy(*id))
    }

    /// How the objects of a kind are read.
    pub(crate) fn reading(&self, id: KindId) -> Option<Reading> {
        self.0.get(id.0).map(|kind| kind.reading)
    }

    /// A reference to an object of a kind.
    #[must_use]
    pub fn reference(&self, id: KindId, name: &ObjectName) -> Option<ObjectRef> {
        self.0.get(id.0).map(|kind| ObjectRef {
            group: kind.group.into(),
            kind: kind.kind.into(),
            name: name.clone(),
        })
    }
}

impl WatchedKind {
    /// Whether every API server serves it, so that it needs no discovery.
    pub(super) fn is_built_in(&self) -> bool {
        matches!(self.group, "" | "discovery.k8s.io")
    }

    /// Whether it is defined by a `CustomResourceDefinition`.
    pub(super) fn has_definition(&self) -> bool {
        !self.is_built_in()
            && !matches!(
                self.group,
                ClusterTrustBundle::GROUP | "apiextensions.k8s.io"
            )
    }

    /// Its plural in paths, as its definition has it.
    pub(super) fn plural(&self) -> String {
        match self.kind {
            PARAMETERS_KIND => PARAMETERS_KIND.to_lowercase(),
            kind => {
                let gvk = GroupVersionKind::gvk(self.group, "", kind);
                ApiResource::from_gvk(&gvk).plural
            }
        }
    }

    /// Whether its objects are read in selected namespaces only. Those of a class may have their parameters
    /// in any: who may write the class decides that.
    pub(super) fn is_scoped(&self) -> bool {
        !matches!(
            self.kind,
            NAMESPACE | CLASS_KIND | DEFINITION | PARAMETERS_KIND | ClusterTrustBundle::KIND
        )
    }
}

pub(super) const NAMESPACE: &str = "Namespace";
const POD: &str = "Pod";
const DEFINITION: &str = "CustomResourceDefinition";

/// Without these policies, requests would not be authenticated, and backends would get plain text.
const PROTECTING: [&str; 2] = ["TrafficPolicy", "BackendTLSPolicy"];

fn requirement(group: &str, kind: &str) -> Requirement {
    let is_core = matches!(group, "" | "discovery.k8s.io")
        || PROTECTING.contains(&kind)
        || matches!(kind, CLASS_KIND | "Gateway" | "HTTPRoute");
    if is_core {
        Requirement::Core
    } else {
        Requirement::Optional
    }
}

fn has_status(group: &str) -> bool {
    !matches!(group, "" | "discovery.k8s.io" | ClusterTrustBundle::GROUP)
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
        for kind in kinds.iter().filter(|kind| kind.has_definition()) {
            let definition = format!("    - {}.{}\n", kind.plural(), kind.group);
            assert!(rules.contains(&definition), "{definition}");
            count += 1;
        }
        assert!(count > 10, "{count}");
    }
}
