//! `GatewayParameters`: settings of a Gateway's workload and Service. Parsed leniently, field by
//! field: the CRD in `k8s/crds` has validated them.

mod addresses;
mod scaling;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements, SeccompProfile};
use serde::Deserialize;
use serde_json::Value;

pub use addresses::{AddressParameters, AddressesFrom};
use scaling::replicas_or_autoscaling;
pub use scaling::{Autoscaling, CPU_PERCENT, DisruptionBudget};

/// `spec` of a `GatewayParameters` object. An omitted field is taken from the class's parameters,
/// then from the defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Parameters {
    /// The kind of workload that runs the pods.
    pub workload: Option<Workload>,
    /// Number of replicas of a Deployment. If omitted, or if an autoscaler is active, the cluster
    /// decides.
    pub replicas: Option<i32>,
    /// The autoscaler of a Deployment.
    pub autoscaling: Option<Autoscaling>,
    /// The disruption budget of a Deployment.
    pub disruption_budget: Option<DisruptionBudget>,
    /// The image of the proxy.
    pub image: Option<String>,
    /// Of the proxy's container.
    pub resources: Option<ResourceRequirements>,
    /// More environment variables of the proxy.
    pub env: Vec<EnvVar>,
    /// The proxy's own log.
    pub logging: Logging,
    /// Number of shards; `None` leaves it to the proxy.
    pub shards: Option<u16>,
    /// How the proxy talks to the kernel.
    pub driver: Option<Driver>,
    /// How the proxy ends.
    pub shutdown: Shutdown,
    /// Which system calls the proxy may make.
    pub seccomp_profile: Option<SeccompProfile>,
    /// Where the ports of the listeners are open.
    pub exposure: Option<Exposure>,
    /// The Service that leads to the proxies.
    pub service: ServiceParameters,
    /// The addresses in the Gateway's status.
    pub addresses: AddressParameters,
    /// Changes to the objects as they would be otherwise.
    pub overlays: Overlays,
}

/// The kind of workload that runs the pods of a Gateway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Workload {
    /// A fixed number of pods on any nodes.
    #[default]
    Deployment,
    /// One pod on each node.
    DaemonSet,
}

/// Where the ports of a Gateway's listeners are open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Exposure {
    /// At the pods.
    #[default]
    Pod,
    /// Also at the nodes of the pods.
    HostPort,
}

/// The proxy's program log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Logging {
    /// A filter in the syntax of `RUST_LOG`.
    pub level: Option<String>,
    /// Format of the log: `text` or `json`.
    pub format: Option<String>,
}

/// The I/O driver of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Driver {
    /// io_uring if available, else epoll.
    Auto,
    /// io_uring, without falling back to epoll.
    IoUring,
    /// epoll, even where io_uring is available.
    Epoll,
}

impl Driver {
    /// The value of the proxy's `--driver`.
    #[must_use]
    pub fn as_argument(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::IoUring => "io-uring",
            Self::Epoll => "epoll",
        }
    }
}

/// The shutdown of a proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Shutdown {
    /// Time to keep accepting, as a Gateway API duration.
    pub accept_for: Option<String>,
    /// Time after which remaining connections are reset, in the same format.
    pub deadline: Option<String>,
}

/// The Service of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceParameters {
    /// Type of the Service; `None` means LoadBalancer, and no Service where the ports of nodes are open.
    #[serde(rename = "type")]
    pub kind: Option<ServiceType>,
    /// In addition to those of the Gateway's `infrastructure`.
    pub annotations: BTreeMap<String, String>,
    /// Whether each port of a LoadBalancer has a port of the nodes; `None` leaves it to the cluster.
    #[serde(rename = "allocateLoadBalancerNodePorts")]
    pub node_ports: Option<bool>,
}

/// The type of a Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum ServiceType {
    /// At an address assigned by the cluster's load balancer.
    #[default]
    LoadBalancer,
    /// At a port of each node.
    NodePort,
    /// Only within the cluster.
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// There is no Service.
    None,
}

impl ServiceType {
    /// The value in Kubernetes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LoadBalancer => "LoadBalancer",
            Self::NodePort => "NodePort",
            Self::ClusterIp => "ClusterIP",
            Self::None => "None",
        }
    }
}

/// Changes to the generated objects, by kind, merged as the kind's definition specifies.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overlays {
    /// Merged into the Deployment.
    pub deployment: Value,
    /// Merged into the DaemonSet.
    pub daemon_set: Value,
    /// Merged into the Service.
    pub service: Value,
    /// Merged into the ServiceAccount.
    pub service_account: Value,
    /// Merged into the ConfigMap.
    pub config_map: Value,
    /// Merged into the metrics Service.
    pub metrics_service: Value,
    /// Merged into the `HorizontalPodAutoscaler`.
    pub horizontal_pod_autoscaler: Value,
    /// Merged into the `PodDisruptionBudget`.
    pub pod_disruption_budget: Value,
}

impl Parameters {
    /// Whether the ports of listeners are open at nodes.
    #[must_use]
    pub fn has_host_ports(&self) -> bool {
        self.exposure == Some(Exposure::HostPort)
    }

    /// The type of the Service.
    #[must_use]
    pub fn service_type(&self) -> ServiceType {
        let default = if self.has_host_ports() {
            ServiceType::None
        } else {
            ServiceType::LoadBalancer
        };
        self.service.kind.unwrap_or(default)
    }

    /// Parses the `spec` of an object.
    ///
    /// # Errors
    ///
    /// The object is of another version of the CRD, with unknown values.
    pub fn parse(spec: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(spec)
    }

    /// The parameters of a Gateway, with those of its class as defaults. Overlays of the class are
    /// applied first.
    #[must_use]
    pub fn or(self, class: Self) -> Self {
        let both = |own: BTreeMap<_, _>, mut class: BTreeMap<_, _>| {
            class.extend(own);
            class
        };
        let mut env = class.env;
        env.retain(|it| self.env.iter().all(|own| own.name != it.name));
        env.extend(self.env);
        let own = (self.replicas, self.autoscaling);
        let (replicas, autoscaling) =
            replicas_or_autoscaling(own, (class.replicas, class.autoscaling));
        Self {
            workload: self.workload.or(class.workload),
            replicas,
            autoscaling,
            disruption_budget: match (self.disruption_budget, class.disruption_budget) {
                (Some(own), Some(class)) => Some(own.or(class)),
                (own, class) => own.or(class),
            },
            image: self.image.or(class.image),
            resources: self.resources.or(class.resources),
            env,
            logging: Logging {
                level: self.logging.level.or(class.logging.level),
                format: self.logging.format.or(class.logging.format),
            },
            shards: self.shards.or(class.shards),
            driver: self.driver.or(class.driver),
            shutdown: Shutdown {
                accept_for: self.shutdown.accept_for.or(class.shutdown.accept_for),
                deadline: self.shutdown.deadline.or(class.shutdown.deadline),
            },
            seccomp_profile: self.seccomp_profile.or(class.seccomp_profile),
            exposure: self.exposure.or(class.exposure),
            service: ServiceParameters {
                kind: self.service.kind.or(class.service.kind),
                node_ports: self.service.node_ports.or(class.service.node_ports),
                annotations: both(self.service.annotations, class.service.annotations),
            },
            addresses: self.addresses.or(class.addresses),
            overlays: self.overlays.over_defaults(class.overlays),
        }
    }
}

impl Overlays {
    fn over_defaults(self, class: Self) -> Self {
        let merged = |own: Value, mut class: Value| {
            if class.is_null() {
                return own;
            }
            if let (Value::Object(class), Value::Object(own)) = (&mut class, own) {
                merge_keeping_nulls(class, own);
            }
            class
        };
        Self {
            deployment: merged(self.deployment, class.deployment),
            daemon_set: merged(self.daemon_set, class.daemon_set),
            service: merged(self.service, class.service),
            service_account: merged(self.service_account, class.service_account),
            config_map: merged(self.config_map, class.config_map),
            metrics_service: merged(self.metrics_service, class.metrics_service),
            horizontal_pod_autoscaler: merged(
                self.horizontal_pod_autoscaler,
                class.horizontal_pod_autoscaler,
            ),
            pod_disruption_budget: merged(self.pod_disruption_budget, class.pod_disruption_budget),
        }
    }
}

/// Merges two overlays: a field that one removes stays removed.
fn merge_keeping_nulls(
    target: &mut serde_json::Map<String, Value>,
    own: serde_json::Map<String, Value>,
) {
    for (name, value) in own {
        match (target.get_mut(&name), value) {
            (Some(Value::Object(target)), Value::Object(own)) => merge_keeping_nulls(target, own),
            (Some(target @ Value::Array(_)), own @ Value::Array(_)) => {
                super::overlay::merge(target, &own);
            }
            (_, value) => drop(target.insert(name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(spec: &Value) -> Parameters {
        Parameters::parse(spec).expect("they are valid")
    }

    #[test]
    fn parameters_of_a_gateway_override_those_of_its_class() {
        let class = parsed(&json!({
            "replicas": 3, "image": "class", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
            "logging": {"level": "debug", "format": "json"}, "service": {"annotations": {"a": "1", "b": "1"}},
            "overlays": {"deployment": {"spec": {"paused": true, "minReadySeconds": 1}}},
        }));
        let own = parsed(&json!({
            "image": "own", "env": [{"name": "B", "value": "2"}], "logging": {"level": "warn"},
            "service": {"type": "ClusterIP", "annotations": {"b": "2"}},
            "overlays": {"deployment": {"spec": {"paused": null}}},
        }));
        let both = own.or(class);
        assert_eq!(
            (both.replicas, both.image.as_deref()),
            (Some(3), Some("own"))
        );
        let env: Vec<_> = both
            .env
            .iter()
            .map(|it| (&*it.name, it.value.as_deref()))
            .collect();
        assert_eq!(env, [("A", Some("1")), ("B", Some("2"))]);
        assert_eq!(both.logging.level.as_deref(), Some("warn"));
        assert_eq!(both.logging.format.as_deref(), Some("json"));
        let annotations = BTreeMap::from([("a".into(), "1".into()), ("b".into(), "2".into())]);
        assert_eq!(both.service.annotations, annotations);
        assert_eq!(both.service.kind, Some(ServiceType::ClusterIp));
        let expected = json!({"spec": {"paused": null, "minReadySeconds": 1}});
        assert_eq!(both.overlays.deployment, expected);
    }

    #[test]
    fn empty_parameters_set_nothing() {
        assert_eq!(parsed(&json!({})), Parameters::default());
    }
}
