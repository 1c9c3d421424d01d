//! The objects of a Gateway's workload, and the action needed for each: pure.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
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
}

impl ChildKind {
    /// All kinds, in the order in which they are applied.
    pub const ALL: [Self; 5] = [
        Self::ServiceAccount,
        Self::ConfigMap,
        Self::Deployment,
        Self::DaemonSet,
        Self::Service,
    ];

    /// Whether it runs pods.
    #[must_use]
    pub fn is_workload(self) -> bool {
        matches!(self, Self::Deployment | Self::DaemonSet)
    }

    /// The API resource of the kind.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        let group = if self.is_workload() { "apps" } else { "" };
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", &format!("{self:?}")))
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
    Version(String),
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
            mark: match metadata.generation {
                Some(generation) if generation > 0 => Revision::Generation(generation),
                _ => Revision::Version(metadata.resource_version.clone().unwrap_or_default()),
            },
            // One whose presence cannot be checked decides.
            scaler: scalers.max_by_key(|it| *it == Scaler::Other),
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
