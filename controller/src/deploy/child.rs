//! The objects of a Gateway's workload, and the action needed for each: pure.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::core::{ApiResource, GroupVersionKind};
use xds::model::ObjectName;

use super::labels;

/// An object of a Gateway's workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Child {
    /// Kind of the object.
    pub kind: ChildKind,
    /// The Gateway's namespace, and the object's name.
    pub name: ObjectName,
}

impl fmt::Display for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.name)
    }
}

/// The kinds of objects in a Gateway's workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChildKind {
    /// In the core group.
    ServiceAccount,
    /// In the core group.
    ConfigMap,
    /// Proxies as a Deployment, in group `apps`.
    Deployment,
    /// Proxies as a DaemonSet, in group `apps`.
    DaemonSet,
    /// In the core group.
    Service,
    /// Of a Deployment, in group `autoscaling`.
    HorizontalPodAutoscaler,
    /// Of a Deployment, in group `policy`.
    PodDisruptionBudget,
}

impl ChildKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::ServiceAccount,
        Self::ConfigMap,
        Self::Deployment,
        Self::DaemonSet,
        Self::Service,
        Self::HorizontalPodAutoscaler,
        Self::PodDisruptionBudget,
    ];

    /// Whether it runs pods.
    #[must_use]
    pub fn is_workload(self) -> bool {
        matches!(self, Self::Deployment | Self::DaemonSet)
    }

    /// Whether Gateways can be deployed without reading it: its objects say how many pods there are, not what
    /// they are.
    #[must_use]
    pub fn is_optional(self) -> bool {
        matches!(
            self,
            Self::HorizontalPodAutoscaler | Self::PodDisruptionBudget
        )
    }

    /// The API resource of the kind.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        let (group, version) = match self {
            Self::Deployment | Self::DaemonSet => ("apps", "v1"),
            Self::HorizontalPodAutoscaler => ("autoscaling", "v2"),
            Self::PodDisruptionBudget => ("policy", "v1"),
            Self::ServiceAccount | Self::ConfigMap | Self::Service => ("", "v1"),
        };
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &format!("{self:?}")))
    }
}

/// An object as it is in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObservedChild {
    pub(super) uid: String,
    /// UID of the Gateway that controls it.
    pub(super) owner: Option<String>,
    /// Name of that Gateway.
    pub(super) owner_name: Option<String>,
    /// The class of the Gateway when it was applied, from its label.
    pub(super) class: Option<String>,
    pub(super) mark: Revision,
    /// What set its number of pods, if not a person.
    pub(super) scaler: Option<Scaler>,
    /// Whether its number of pods is among the fields that we applied.
    pub(super) has_own_replicas: bool,
    pub(super) is_ending: bool,
}

/// What has set the number of pods of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scaler {
    /// A `HorizontalPodAutoscaler`, which may be deleted by now: its mark stays.
    Horizontal,
    /// A program of its own, whose presence cannot be checked.
    Other,
}

impl Scaler {
    /// By the manager of a field; `None` for a person.
    fn of_manager(manager: &str) -> Option<Self> {
        // KEDA creates a HorizontalPodAutoscaler.
        match manager {
            "kube-controller-manager" | "keda" => Some(Self::Horizontal),
            _ if manager.starts_with("kubectl") => None,
            _ => Some(Self::Other),
        }
    }
}

/// Detects changes of an object. A status update changes its resource version but not its
/// generation, which some kinds lack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Revision {
    Generation(i64),
    /// A hash of who has set which fields, and when, without those of the status: an autoscaler's is updated
    /// every 15 s.
    Fields(u64),
    Version(String),
}

impl Revision {
    fn of(metadata: &ObjectMeta) -> Self {
        if let Some(generation) = metadata.generation.filter(|it| *it > 0) {
            return Self::Generation(generation);
        }
        let managers = || metadata.managed_fields.iter().flatten();
        let is_of_status = |it: &&ManagedFieldsEntry| it.subresource.as_deref() == Some("status");
        if !{ managers() }.any(|it| is_of_status(&it)) {
            return Self::Version(metadata.resource_version.clone().unwrap_or_default());
        }
        let mut hasher = DefaultHasher::new();
        for manager in managers().filter(|it| !is_of_status(it)) {
            format!("{manager:?}").hash(&mut hasher);
        }
        Self::Fields(hasher.finish())
    }
}

/// Whether fields are ours, with the number of pods among them.
fn has_replicas(fields: &ManagedFieldsEntry) -> bool {
    let replicas = { fields.fields_v1.as_ref() }.and_then(|it| it.0.pointer("/f:spec/f:replicas"));
    let is_ours = fields.manager.as_deref() == Some(labels::MANAGER);
    is_ours && fields.subresource.is_none() && replicas.is_some()
}

impl ObservedChild {
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        let owners = metadata.owner_references.iter().flatten();
        let controller = { owners }.find(|it| it.controller == Some(true));
        let controller = controller.filter(|it| {
            it.kind == "Gateway" && it.api_version.starts_with("gateway.networking.k8s.io/")
        });
        let managers = metadata.managed_fields.iter().flatten();
        let own_labels = metadata.labels.as_ref();
        let has_own_replicas = managers.clone().any(has_replicas);
        let scalers = managers.filter(|it| it.subresource.as_deref() == Some("scale"));
        let scalers =
            scalers.filter_map(|it| Scaler::of_manager(it.manager.as_deref().unwrap_or_default()));
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            owner: controller.map(|it| it.uid.clone()),
            owner_name: controller.map(|it| it.name.clone()),
            class: own_labels
                .and_then(|it| it.get(labels::CLASS_NAME))
                .cloned(),
            mark: Revision::of(metadata),
            // One whose presence cannot be checked decides.
            scaler: scalers.max_by_key(|it| *it == Scaler::Other),
            has_own_replicas,
            is_ending: metadata.deletion_timestamp.is_some(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) hash: u64,
    pub(super) mark: Revision,
}

/// The action needed for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// It is up to date.
    Keep,
    /// Apply it. With force if it is ours already, to restore its fields.
    Apply {
        is_forced: bool,
    },
    Wait,
    /// It belongs to something else; with advice.
    Refuse(String),
}

/// The action for an object that the Gateway with this UID needs with this hash.
pub(super) fn action(
    child: &Child,
    seen: Option<&ObservedChild>,
    applied: Option<&Applied>,
    (gateway, hash): (&str, u64),
) -> Action {
    let Some(seen) = seen else {
        return Action::Apply { is_forced: false };
    };
    match &seen.owner {
        Some(owner) if owner == gateway => {}
        // It belonged to a deleted Gateway of the same name: the garbage collector will delete it.
        Some(_) if seen.is_ending => return Action::Wait,
        owner => return Action::Refuse(refusal(child, owner.is_some())),
    }
    if seen.is_ending {
        return Action::Wait;
    }
    let is_current = applied.is_some_and(|it| it.hash == hash && it.mark == seen.mark);
    if is_current {
        Action::Keep
    } else {
        Action::Apply { is_forced: true }
    }
}

fn refusal(child: &Child, is_of_gateway: bool) -> String {
    let whose = if is_of_gateway {
        "belongs to another Gateway"
    } else {
        "exists and does not belong to this Gateway"
    };
    format!("{child} {whose}: delete it, or give the Gateway another name")
}

/// The label selector of all Gateways' objects.
pub(super) fn selector() -> String {
    format!("{}={}", labels::MANAGED_BY, labels::MANAGER)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn child() -> Child {
        Child {
            kind: ChildKind::Deployment,
            name: ObjectName::new("infra", "edge"),
        }
    }

    fn seen(owner: Option<&str>, generation: i64) -> ObservedChild {
        let owners = owner.map(|uid| {
            json!([{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "name": "edge",
                    "uid": uid, "controller": true}])
        });
        let metadata = json!({"uid": "child", "generation": generation, "resourceVersion": "9",
                              "ownerReferences": owners.unwrap_or(Value::Null)});
        ObservedChild::of(&serde_json::from_value(metadata).expect("metadata"))
    }

    fn decide(seen: Option<&ObservedChild>, applied: Option<(u64, i64)>) -> Action {
        let applied = applied.map(|(hash, generation)| Applied {
            hash,
            mark: Revision::Generation(generation),
        });
        action(&child(), seen, applied.as_ref(), ("gateway", 1))
    }

    #[test]
    fn an_object_is_reapplied_when_it_or_its_desired_state_has_changed() {
        let ours = seen(Some("gateway"), 4);
        assert_eq!(decide(None, None), Action::Apply { is_forced: false });
        assert_eq!(decide(Some(&ours), None), Action::Apply { is_forced: true });
        assert_eq!(decide(Some(&ours), Some((1, 4))), Action::Keep);
        assert_eq!(
            decide(Some(&ours), Some((2, 4))),
            Action::Apply { is_forced: true }
        );
        assert_eq!(
            decide(Some(&ours), Some((1, 3))),
            Action::Apply { is_forced: true }
        );
        assert_eq!(
            decide(None, Some((1, 4))),
            Action::Apply { is_forced: false }
        );
    }

    #[test]
    fn objects_of_other_owners_are_rejected() {
        let Action::Refuse(text) = decide(Some(&seen(None, 1)), None) else {
            panic!("it was not refused")
        };
        assert_eq!(
            text,
            "Deployment infra/edge exists and does not belong to this Gateway: delete it, or give \
             the Gateway another name"
        );
        let other = seen(Some("another"), 1);
        assert!(matches!(
            decide(Some(&other), Some((1, 1))),
            Action::Refuse(_)
        ));
        let ending = ObservedChild {
            is_ending: true,
            ..other
        };
        assert_eq!(decide(Some(&ending), None), Action::Wait);
    }

    #[test]
    fn revisions_are_generations_or_resource_versions_without_one() {
        assert_eq!(seen(None, 4).mark, Revision::Generation(4));
        assert_eq!(seen(None, 0).mark, Revision::Version("9".to_owned()));
    }

    /// An autoscaler has no generation, and a status that is updated all the time.
    #[test]
    fn an_update_of_the_status_alone_is_no_change() {
        let mark = |version: &str, of_spec: &str, of_status: &str| {
            let metadata = json!({"resourceVersion": version, "managedFields": [
                {"manager": "ours", "operation": "Apply", "time": of_spec},
                {"manager": "kube-controller-manager", "subresource": "status", "time": of_status},
            ]});
            ObservedChild::of(&serde_json::from_value(metadata).expect("metadata")).mark
        };
        let (before, after) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:15Z");
        let first = mark("1", before, before);
        assert_eq!(first, mark("2", before, after));
        assert_ne!(first, mark("3", after, after));
    }

    #[test]
    fn replicas_are_ours_where_we_applied_them() {
        for (manager, field, expected) in [
            (labels::MANAGER, "f:replicas", true),
            (labels::MANAGER, "f:paused", false),
            ("kubectl", "f:replicas", false),
        ] {
            let metadata = json!({"managedFields": [
                {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {field: {}}}}]});
            let observed = ObservedChild::of(&serde_json::from_value(metadata).expect("metadata"));
            assert_eq!(observed.has_own_replicas, expected, "{manager} {field}");
        }
    }

    #[test]
    fn scaling_by_an_autoscaler_is_distinguished_from_scaling_by_a_user() {
        for (manager, subresource, expected) in [
            ("kube-controller-manager", "scale", Some(Scaler::Horizontal)),
            ("keda", "scale", Some(Scaler::Horizontal)),
            ("own-scaler", "scale", Some(Scaler::Other)),
            ("kubectl", "scale", None),
            ("kube-controller-manager", "status", None),
        ] {
            let metadata =
                json!({"managedFields": [{"manager": manager, "subresource": subresource}]});
            let observed = ObservedChild::of(&serde_json::from_value(metadata).expect("metadata"));
            assert_eq!(observed.scaler, expected, "{manager} {subresource}");
        }
    }
}
