//! Service.

use std::fmt;
use std::num::NonZeroU16;

use serde::{Deserialize, Deserializer, Serialize};

use crate::objects::api::ObjectMeta;

#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct Service {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: ServiceSpec,
}

/// The desired state of a Service, as far as it is used. Its endpoints come from slices, so target ports are not
/// used.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `ClusterIP` and so on.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// Its virtual address; `None` (the text) for a headless one.
    #[serde(rename = "clusterIP", default)]
    pub cluster_ip: Option<String>,
    #[serde(
        rename = "clusterIPs",
        default,
        deserialize_with = "crate::objects::api::null_as_default"
    )]
    pub cluster_ips: Vec<String>,
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    pub ports: Vec<ServicePort>,
    /// Whether it has a selector, so that a cluster makes its slices.
    #[serde(
        rename = "selector",
        default,
        deserialize_with = "has_entries",
        skip_serializing
    )]
    pub has_selector: bool,
    /// Whether a client stays at an endpoint.
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    pub session_affinity: SessionAffinity,
    /// Where its requests should go; it is followed by the hints of its slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<TrafficDistribution>,
}

/// Where the requests of a Service should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum TrafficDistribution {
    /// The former name of `PreferSameZone`.
    PreferClose,
    PreferSameZone,
    PreferSameNode,
    /// A value of a later release of Kubernetes.
    #[serde(other)]
    Other,
}

fn has_entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let entries = Option::<serde_json::Map<_, _>>::deserialize(deserializer)?;
    Ok(entries.is_some_and(|it| !it.is_empty()))
}

/// Whether a client stays at an endpoint of a Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum SessionAffinity {
    #[default]
    #[serde(alias = "")]
    None,
    /// For as long as its address and the endpoints are the same: `sessionAffinityConfig` has no meaning here.
    #[serde(rename = "ClientIP")]
    ClientAddress,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Name; empty if it is the only port.
    #[serde(default)]
    pub name: String,
    pub port: NonZeroU16,
    #[serde(default)]
    pub protocol: TransportProtocol,
    /// Application protocol, such as `kubernetes.io/h2c` (KEP-3726).
    #[serde(default)]
    pub app_protocol: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TransportProtocol {
    #[default]
    Tcp,
    Udp,
    Sctp,
}

impl fmt::Display for TransportProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}
