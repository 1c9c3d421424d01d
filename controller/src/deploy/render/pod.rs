//! The pods of a Gateway: one unprivileged container with a read-only root file system.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, EnvVar,
    EnvVarSource, HTTPGetAction, ObjectFieldSelector, PodSecurityContext, PodSpec, Probe,
    ProjectedVolumeSource, ResourceRequirements, SeccompProfile, SecurityContext,
    ServiceAccountTokenProjection, Sysctl, TopologySpreadConstraint, Volume, VolumeMount,
    VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use xds::model::GatewayDuration;

use super::{Defaults, RenderInput, selector};
use crate::deploy::parameters::{Driver, Parameters, Workload};
use crate::deploy::ports::Transport;

pub(super) fn spec(input: &RenderInput, defaults: &Defaults, name: &str) -> PodSpec {
    let parameters = &input.parameters;
    let (seccomp_profile, driver) = system_calls(input);
    PodSpec {
        service_account_name: Some(name.to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(grace_period(parameters)),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            seccomp_profile,
            // Allows ports below 1024 without a capability.
            sysctls: Some(vec![Sysctl {
                name: "net.ipv4.ip_unprivileged_port_start".to_owned(),
                value: "0".to_owned(),
            }]),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(input, defaults, driver)],
        volumes: Some(volumes(defaults, name)),
        topology_spread_constraints: spread(input),
        ..PodSpec::default()
    }
}

/// The pods of a Deployment go to different zones and nodes as far as there are any: one that fails must not take all
/// of them. Never a reason not to run a pod, and of one version, so that a rollout ends spread too.
fn spread(input: &RenderInput) -> Option<Vec<TopologySpreadConstraint>> {
    if input.parameters.workload.unwrap_or_default() != Workload::Deployment {
        return None;
    }
    let constraints = SPREAD_OVER.map(|topology| TopologySpreadConstraint {
        max_skew: 1,
        topology_key: topology.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(selector(input)),
        match_label_keys: Some(vec!["pod-template-hash".to_owned()]),
        ..TopologySpreadConstraint::default()
    });
    Some(constraints.into())
}

/// Labels of nodes.
const SPREAD_OVER: [&str; 2] = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"];

/// Default seccomp profiles block io_uring, so none is set unless the namespace requires one; a
/// profile chosen by the user is used with the automatic driver.
fn system_calls(input: &RenderInput) -> (Option<SeccompProfile>, Option<Driver>) {
    let chosen = input.parameters.seccomp_profile.clone();
    if chosen.is_some() || !input.enforces_restricted {
        return (chosen, input.parameters.driver);
    }
    let profile = SeccompProfile {
        type_: "RuntimeDefault".to_owned(),
        ..SeccompProfile::default()
    };
    (
        Some(profile),
        input.parameters.driver.or(Some(Driver::Epoll)),
    )
}

/// The proxy's drain deadline plus a margin, after which it is killed.
fn grace_period(parameters: &Parameters) -> i64 {
    let deadline = parameters.shutdown.deadline.as_deref();
    let deadline = deadline.and_then(|text| GatewayDuration::parse(text).ok());
    let deadline = deadline.map_or(DRAIN_DEADLINE, |it| it.0);
    let seconds = deadline.as_secs() + u64::from(deadline.subsec_nanos() > 0);
    i64::try_from(seconds)
        .unwrap_or(i64::MAX)
        .saturating_add(GRACE_SECONDS)
}

fn container(input: &RenderInput, defaults: &Defaults, driver: Option<Driver>) -> Container {
    let parameters = &input.parameters;
    let image = parameters.image.as_ref().unwrap_or(&defaults.image);
    Container {
        name: "gateway".to_owned(),
        image: Some(image.clone()),
        image_pull_policy: Some(defaults.image_pull_policy.clone()),
        args: Some(vec!["run".to_owned()]),
        env: Some(environment(input, defaults, driver)),
        ports: Some(ports(input)),
        readiness_probe: Some(Probe {
            http_get: Some(HTTPGetAction {
                path: Some("/healthz/ready".to_owned()),
                port: IntOrString::String("readiness".to_owned()),
                ..HTTPGetAction::default()
            }),
            period_seconds: Some(5),
            failure_threshold: Some(3),
            ..Probe::default()
        }),
        resources: Some(parameters.resources.clone().unwrap_or_else(requests)),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                add: None,
            }),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(mounts(defaults)),
        ..Container::default()
    }
}

/// Default resource requests. No limits: they would be guesses.
fn requests() -> ResourceRequirements {
    let requests = [("cpu", "100m"), ("memory", "128Mi")];
    let requests = requests.map(|(name, value)| (name.to_owned(), Quantity(value.to_owned())));
    ResourceRequirements {
        requests: Some(BTreeMap::from(requests)),
        ..ResourceRequirements::default()
    }
}

/// Those of listeners need no mention, unless nodes have them too.
fn ports(input: &RenderInput) -> Vec<ContainerPort> {
    let mut all = vec![
        port("metrics", "TCP", METRICS_PORT),
        port("readiness", "TCP", READINESS_PORT),
    ];
    if input.parameters.has_host_ports() {
        all.extend(input.ports.iter().map(|listener| {
            let (name, protocol) = match listener.transport {
                Transport::Tcp => ("tcp", "TCP"),
                Transport::Udp => ("udp", "UDP"),
            };
            let number = i32::from(listener.number);
            ContainerPort {
                host_port: Some(number),
                ..port(&format!("{name}-{number}"), protocol, number)
            }
        }));
    }
    all
}

fn port(name: &str, protocol: &str, number: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some(protocol.to_owned()),
        ..ContainerPort::default()
    }
}

/// The environment of the proxy, which configures its command line. The user's variables come last
/// and override ours.
fn environment(input: &RenderInput, defaults: &Defaults, driver: Option<Driver>) -> Vec<EnvVar> {
    let parameters = &input.parameters;
    let shutdown = &parameters.shutdown;
    let authorities = defaults.authorities.as_ref();
    let values = [
        ("GATEWAY_NAME", Some(input.name.to_string())),
        ("GATEWAY_XDS_ADDRESS", Some(defaults.xds_address.clone())),
        (
            "GATEWAY_XDS_CA",
            authorities.map(|_| format!("{AUTHORITIES_FOLDER}/{AUTHORITIES}")),
        ),
        ("GATEWAY_XDS_TOKEN", Some(format!("{TOKEN_FOLDER}/{TOKEN}"))),
        ("GATEWAY_XDS_CACHE", Some(CACHE_FOLDER.to_owned())),
        ("GATEWAY_SHARDS", parameters.shards.map(|it| it.to_string())),
        (
            "GATEWAY_DRIVER",
            driver.map(|it| it.as_argument().to_owned()),
        ),
        ("GATEWAY_DRAIN_ACCEPT", shutdown.accept_for.clone()),
        ("GATEWAY_DRAIN_DEADLINE", shutdown.deadline.clone()),
        ("GATEWAY_LOG_FORMAT", parameters.logging.format.clone()),
        ("RUST_LOG", parameters.logging.level.clone()),
    ];
    let mut all = vec![
        field("POD_NAME", "metadata.name"),
        field("NODE_NAME", "spec.nodeName"),
    ];
    all.extend(values.into_iter().filter_map(|(name, value)| {
        Some(EnvVar {
            name: name.to_owned(),
            value: Some(value?),
            value_from: None,
        })
    }));
    all.retain(|it| parameters.env.iter().all(|own| own.name != it.name));
    all.extend(parameters.env.iter().cloned());
    all
}

/// A variable with a field of the pod.
fn field(name: &str, path: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: Some("v1".to_owned()),
                field_path: path.to_owned(),
            }),
            ..EnvVarSource::default()
        }),
    }
}

fn mounts(defaults: &Defaults) -> Vec<VolumeMount> {
    let mount = |name: &str, path: &str, read_only: bool| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    };
    let mut all = vec![
        mount(TOKEN, TOKEN_FOLDER, true),
        mount(CACHE, CACHE_FOLDER, false),
    ];
    if defaults.authorities.is_some() {
        all.push(mount(AUTHORITIES_VOLUME, AUTHORITIES_FOLDER, true));
    }
    all
}

fn volumes(defaults: &Defaults, name: &str) -> Vec<Volume> {
    let token = ServiceAccountTokenProjection {
        audience: Some(defaults.audience.clone()),
        expiration_seconds: Some(TOKEN_SECONDS),
        path: TOKEN.to_owned(),
        ..ServiceAccountTokenProjection::default()
    };
    let mut all = vec![
        Volume {
            name: TOKEN.to_owned(),
            projected: Some(ProjectedVolumeSource {
                sources: Some(vec![VolumeProjection {
                    service_account_token: Some(token),
                    ..VolumeProjection::default()
                }]),
                ..ProjectedVolumeSource::default()
            }),
            ..Volume::default()
        },
        // It holds private keys, which must not be written to a disk.
        Volume {
            name: CACHE.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                medium: Some("Memory".to_owned()),
                size_limit: Some(Quantity(CACHE_SIZE.to_owned())),
                ..EmptyDirVolumeSource::default()
            }),
            ..Volume::default()
        },
    ];
    if defaults.authorities.is_some() {
        all.push(Volume {
            name: AUTHORITIES_VOLUME.to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: name.to_owned(),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        });
    }
    all
}

/// The ConfigMap entry with the CA certificates for the controller.
pub(super) const AUTHORITIES: &str = "ca.crt";
pub(super) const METRICS_PORT: i32 = 15_020;
const READINESS_PORT: i32 = 15_021;
const USER: i64 = 65_532;
/// The proxy's default drain deadline: 30 s.
const DRAIN_DEADLINE: Duration = Duration::from_secs(30);
/// Seconds from the proxy's deadline until it is killed.
const GRACE_SECONDS: i64 = 5;
/// Lifetime of a token in seconds; the kubelet replaces it after four fifths.
const TOKEN_SECONDS: i64 = 3_600;
/// Size of the volume for the last configuration: 128 MiB, many times that of 5 000 routes.
const CACHE_SIZE: &str = "128Mi";
const TOKEN: &str = "token";
const CACHE: &str = "cache";
const AUTHORITIES_VOLUME: &str = "authorities";
const TOKEN_FOLDER: &str = "/var/run/gateway/token";
const CACHE_FOLDER: &str = "/var/run/gateway/cache";
const AUTHORITIES_FOLDER: &str = "/var/run/gateway/authorities";
