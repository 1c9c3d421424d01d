//! Whether the pods of a workload are ready, from its status: pure.

use std::fmt;

use serde_json::Value;

use super::child::ChildKind;

/// The pods of a workload in its current version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PodCounts {
    wanted: u64,
    available: u64,
    /// Pods of any version that serve.
    serving: u64,
}

impl PodCounts {
    /// The counts of a Deployment or DaemonSet. A status of an earlier generation counts for nothing.
    pub(super) fn of(kind: ChildKind, object: &Value, generation: i64) -> Self {
        let status = &object["status"];
        let count = |field: &str| status[field].as_u64().unwrap_or(0);
        let is_current = status["observedGeneration"].as_i64() >= Some(generation);
        let (wanted, available, updated) = if kind == ChildKind::DaemonSet {
            // Without a node for it, it replaces nothing.
            let wanted = count("desiredNumberScheduled").max(1);
            (wanted, "numberAvailable", "updatedNumberScheduled")
        } else {
            let wanted = object["spec"]["replicas"].as_u64().unwrap_or(1);
            (wanted, "availableReplicas", "updatedReplicas")
        };
        let serving = count(available);
        let available = serving.min(count(updated));
        Self {
            wanted,
            serving,
            available: if is_current { available } else { 0 },
        }
    }

    /// With more pods wanted, if there are to be at least so many.
    pub(super) fn at_least(self, least: u64) -> Self {
        Self {
            wanted: self.wanted.max(least),
            ..self
        }
    }

    /// Whether all wanted pods are of the current version and available.
    pub(super) fn are_all_available(self) -> bool {
        self.available >= self.wanted
    }

    /// Whether the pods can take the place of an old workload's: all of them are ready, or as many as serve
    /// there. With a broken node, a DaemonSet never has all.
    pub(super) fn can_replace(self, old: Self) -> bool {
        self.available >= self.wanted.min(old.serving.max(1))
    }
}

impl fmt::Display for PodCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} pods are", self.available, self.wanted)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_workload_is_ready_when_all_pods_of_its_version_are_available() {
        let deployment = |status: Value| json!({"spec": {"replicas": 2}, "status": status});
        let daemon_set = |status: Value| json!({"status": status});
        for (kind, object, expected) in [
            (ChildKind::Deployment, json!({}), "0 of 1 pods are"),
            (
                ChildKind::Deployment,
                deployment(
                    json!({"observedGeneration": 3, "availableReplicas": 2, "updatedReplicas": 1}),
                ),
                "1 of 2 pods are",
            ),
            (
                ChildKind::Deployment,
                deployment(
                    json!({"observedGeneration": 2, "availableReplicas": 2, "updatedReplicas": 2}),
                ),
                "0 of 2 pods are",
            ),
            (
                ChildKind::Deployment,
                deployment(
                    json!({"observedGeneration": 3, "availableReplicas": 2, "updatedReplicas": 2}),
                ),
                "ready",
            ),
            (
                ChildKind::DaemonSet,
                daemon_set(json!({"observedGeneration": 3})),
                "0 of 1 pods are",
            ),
            (
                ChildKind::DaemonSet,
                daemon_set(json!({"observedGeneration": 3, "desiredNumberScheduled": 3,
                                  "numberAvailable": 3, "updatedNumberScheduled": 3})),
                "ready",
            ),
        ] {
            let counts = PodCounts::of(kind, &object, 3);
            let old = PodCounts {
                serving: u64::MAX,
                ..counts
            };
            let text = if counts.can_replace(old) {
                "ready".to_owned()
            } else {
                counts.to_string()
            };
            assert_eq!(text, expected, "{object}");
        }
    }
}
