//! Service.

use std::fmt;
use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::ObjectMeta;

/// A Service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct Service {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: ServiceSpec,
}

/// What a Service is, as far as it is read. Its endpoints come from slices, so that selector and
/// target ports mean nothing here.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `ClusterIP` and so on.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// Its virtual address; `None` (the text) for a headless one.
    #[serde(rename = "clusterIP", default)]
    pub cluster_ip: Option<String>,
    /// Its virtual addresses.
    #[serde(
        rename = "clusterIPs",
        default,
        deserialize_with = "super::null_as_default"
    )]
    pub cluster_ips: Vec<String>,
    /// Its ports.
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub ports: Vec<ServicePort>,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Its name; empty where it is the only one.
    #[serde(default)]
    pub name: String,
    /// Its number.
    pub port: NonZeroU16,
    /// Its transport.
    #[serde(default)]
    pub protocol: TransportProtocol,
    /// What is spoken there.
    #[serde(default)]
    pub app_protocol: Option<String>,
}

/// A transport.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TransportProtocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
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
