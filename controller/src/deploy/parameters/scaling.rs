//! How many pods a Gateway has, and how many of them may be missing.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use serde_json::Value;

/// A `HorizontalPodAutoscaler` that decides the number of pods.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Autoscaling {
    /// Fewest pods; `None` means 1.
    pub min_replicas: Option<i32>,
    /// Most pods.
    pub max_replicas: Option<i32>,
    /// Wanted CPU time in percent of the request, on average; `None` means [`CPU_PERCENT`] without metrics.
    pub cpu_percent: Option<i32>,
    /// What to scale by instead, as in a `HorizontalPodAutoscaler`. In JSON, so that the API server sees misspelt
    /// fields.
    pub metrics: Vec<Value>,
    /// How fast to scale, as in a `HorizontalPodAutoscaler`.
    pub behavior: Option<Value>,
}

impl Autoscaling {
    /// Fewest pods.
    #[must_use]
    pub fn at_least(&self) -> i32 {
        self.min_replicas.unwrap_or(1)
    }

    /// Most pods.
    #[must_use]
    pub fn at_most(&self) -> i32 {
        // The definition requires a number.
        self.max_replicas.unwrap_or_else(|| self.at_least())
    }

    /// With those of the class as defaults. What scales is one thing, whichever field says it.
    pub(super) fn or(self, class: Self) -> Self {
        let is_own = self.cpu_percent.is_some() || !self.metrics.is_empty();
        let (cpu_percent, metrics) = if is_own {
            (self.cpu_percent, self.metrics)
        } else {
            (class.cpu_percent, class.metrics)
        };
        let max_replicas = self.max_replicas.or(class.max_replicas);
        // That of the class is a default, which the Gateway's maximum limits.
        let of_class = class.min_replicas;
        let of_class = of_class.map(|min| max_replicas.map_or(min, |max| min.min(max)));
        Self {
            min_replicas: self.min_replicas.or(of_class),
            max_replicas,
            cpu_percent,
            metrics,
            behavior: self.behavior.or(class.behavior),
        }
    }
}

/// How many pods may be missing at a time while nodes are drained.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DisruptionBudget {
    /// Pods that stay.
    pub min_available: Option<IntOrString>,
    /// Pods that may be missing.
    pub max_unavailable: Option<IntOrString>,
    /// Which pods that are not ready may be evicted.
    pub unhealthy_pod_eviction_policy: Option<String>,
}

impl DisruptionBudget {
    /// With that of the class as default. Both numbers say the same thing in two ways.
    pub(super) fn or(self, class: Self) -> Self {
        let is_own = self.min_available.is_some() || self.max_unavailable.is_some();
        let (min_available, max_unavailable) = if is_own {
            (self.min_available, self.max_unavailable)
        } else {
            (class.min_available, class.max_unavailable)
        };
        let policy = self.unhealthy_pod_eviction_policy;
        Self {
            min_available,
            max_unavailable,
            unhealthy_pod_eviction_policy: policy.or(class.unhealthy_pod_eviction_policy),
        }
    }
}

/// The number of replicas and the autoscaler of a Gateway, with those of its class as defaults: they exclude
/// each other, so whichever the Gateway's own parameters have replaces both of the class.
pub(super) fn replicas_or_autoscaling(
    (replicas, autoscaling): (Option<i32>, Option<Autoscaling>),
    class: (Option<i32>, Option<Autoscaling>),
) -> (Option<i32>, Option<Autoscaling>) {
    match (replicas, autoscaling) {
        (None, None) => class,
        (_, Some(own)) => (None, Some(own.or(class.1.unwrap_or_default()))),
        (replicas, None) => (replicas, None),
    }
}

/// Wanted CPU time by default: 70 % of the request. Pods start within seconds, and the rest serves meanwhile.
pub const CPU_PERCENT: i32 = 70;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Parameters;

    fn merged(own: &serde_json::Value, class: &serde_json::Value) -> Parameters {
        let parsed = |spec| Parameters::parse(spec).expect("they are valid");
        parsed(own).or(parsed(class))
    }

    #[test]
    fn replicas_and_autoscaling_replace_each_other() {
        let autoscaling =
            json!({"autoscaling": {"minReplicas": 2, "maxReplicas": 5, "cpuPercent": 50}});
        let fixed = merged(&json!({"replicas": 3}), &autoscaling);
        assert_eq!((fixed.replicas, fixed.autoscaling), (Some(3), None));
        let scaled = merged(
            &json!({"autoscaling": {"maxReplicas": 9}}),
            &json!({"replicas": 3}),
        );
        assert_eq!(scaled.replicas, None);
        assert_eq!(scaled.autoscaling.map(|it| it.at_most()), Some(9));
        let of_class = merged(&json!({}), &autoscaling);
        assert_eq!(of_class.autoscaling.map(|it| it.at_least()), Some(2));
    }

    #[test]
    fn a_gateway_scales_by_its_own_metrics_or_by_those_of_its_class() {
        let class = json!({"autoscaling": {"minReplicas": 4, "maxReplicas": 8, "cpuPercent": 50,
                                           "behavior": {"scaleDown": {}}}});
        let own = json!({"autoscaling": {"maxReplicas": 3, "metrics": [{"type": "Pods"}]}});
        let both = merged(&own, &class).autoscaling.expect("an autoscaler");
        assert_eq!((both.at_least(), both.at_most()), (3, 3));
        assert_eq!((both.cpu_percent, both.metrics.len()), (None, 1));
        assert_eq!(both.behavior, Some(json!({"scaleDown": {}})));
        let own = json!({"autoscaling": {"maxReplicas": 9}});
        let both = merged(&own, &class).autoscaling.expect("an autoscaler");
        assert_eq!((both.at_least(), both.cpu_percent), (4, Some(50)));
    }

    #[test]
    fn a_budget_has_one_number() {
        let class = json!({"disruptionBudget": {"minAvailable": 2, "unhealthyPodEvictionPolicy": "IfHealthyBudget"}});
        let both = merged(
            &json!({"disruptionBudget": {"maxUnavailable": "50%"}}),
            &class,
        );
        let budget = both.disruption_budget.expect("a budget");
        assert_eq!(budget.min_available, None);
        let policy = budget.unhealthy_pod_eviction_policy;
        assert_eq!(policy.as_deref(), Some("IfHealthyBudget"));
    }
}
