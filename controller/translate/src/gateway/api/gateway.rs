//! Gateway.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::{GatewayTls, RecordedListeners, SecretObjectReference};
use crate::objects::api::{LabelSelector, ObjectMeta};
use crate::objects::kinds::{GATEWAY_GROUP, ObjectKind};
use crate::route::api::{DefaultScope, ListenerFilters};

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Gateway {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: GatewaySpec,
    #[serde(
        default,
        skip_serializing,
        deserialize_with = "crate::objects::api::null_as_default"
    )]
    pub status: RecordedListeners,
}

/// The desired state of a Gateway.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    pub gateway_class_name: String,
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// Requested addresses; none means any.
    #[serde(default)]
    pub addresses: Vec<GatewayAddress>,
    /// Labels, annotations and parameters of its workload.
    #[serde(default)]
    pub infrastructure: Option<GatewayInfrastructure>,
    /// Which ListenerSets may attach.
    #[serde(default)]
    pub allowed_listeners: AllowedListeners,
    /// TLS of all listeners and of all backends.
    #[serde(default)]
    pub tls: Option<GatewayTls>,
    /// Which routes attach to it by default, without naming it.
    #[serde(default)]
    pub default_scope: DefaultScope,
}

/// Which ListenerSets may attach to a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct AllowedListeners {
    #[serde(default)]
    pub namespaces: ListenerNamespaces,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ListenerNamespaces {
    #[serde(default = "no_namespaces")]
    pub from: FromNamespaces,
    /// Labels of the namespaces, for `Selector`.
    #[serde(default)]
    pub selector: Option<LabelSelector>,
}

impl Default for ListenerNamespaces {
    fn default() -> Self {
        Self {
            from: no_namespaces(),
            selector: None,
        }
    }
}

fn no_namespaces() -> FromNamespaces {
    FromNamespaces::None
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Its name in the Gateway.
    pub name: String,
    /// Host name that it serves; none means every host.
    #[serde(default)]
    pub hostname: Option<String>,
    pub port: NonZeroU16,
    /// `HTTP`, `HTTPS`, `TLS`, `TCP`, `UDP`, or one with a domain.
    pub protocol: String,
    /// How it terminates TLS.
    #[serde(default)]
    pub tls: Option<ListenerTls>,
    /// Which routes may attach.
    #[serde(default)]
    pub allowed_routes: AllowedRoutes,
    /// Filters for requests before a route is selected.
    #[serde(default)]
    pub filters: Option<ListenerFilters>,
}

/// TLS of a listener.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// Whether TLS is terminated or passed through.
    #[serde(default)]
    pub mode: TlsMode,
    #[serde(default)]
    pub certificate_refs: Vec<SecretObjectReference>,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// Whether a listener terminates TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum TlsMode {
    #[default]
    Terminate,
    Passthrough,
}

/// Which routes may attach to a listener.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct AllowedRoutes {
    #[serde(default)]
    pub namespaces: RouteNamespaces,
    /// Allowed kinds; an empty list allows every kind of the protocol.
    #[serde(default)]
    pub kinds: Vec<RouteGroupKind>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct RouteNamespaces {
    #[serde(default)]
    pub from: FromNamespaces,
    /// Labels of the namespaces, for `Selector`.
    #[serde(default)]
    pub selector: Option<LabelSelector>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FromNamespaces {
    All,
    /// Namespaces that a selector selects.
    Selector,
    #[default]
    Same,
    None,
}

/// A kind of route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, Hash)]
pub struct RouteGroupKind {
    #[serde(default = "gateway_group")]
    pub group: String,
    pub kind: String,
}

fn gateway_group() -> String {
    GATEWAY_GROUP.to_owned()
}

/// An address of a Gateway.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, Hash)]
pub struct GatewayAddress {
    /// `IPAddress`, `Hostname`, or one with a domain.
    #[serde(rename = "type", default = "ip_address")]
    pub kind: String,
    /// The address; empty requests any of its type.
    #[serde(default)]
    pub value: String,
    /// From where the address is reachable (GEP-5093); empty if nothing is requested or promised.
    #[serde(default)]
    pub routability: String,
}

pub const ROUTABLE_IN_CLUSTER: &str = "Cluster";
/// A value without meaning, which conformance tests use.
pub const ROUTABILITY_SENTINEL: &str = "testing.x-k8s.io/sentinel";

fn ip_address() -> String {
    "IPAddress".to_owned()
}

/// Labels, annotations and parameters of a Gateway's workload.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayInfrastructure {
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub parameters_ref: Option<ParametersReference>,
}

/// A reference to parameters in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ParametersReference {
    pub group: String,
    pub kind: String,
    pub name: String,
}

impl ParametersReference {
    /// Whether it refers to an object that can hold parameters.
    #[must_use]
    pub fn is_known(&self) -> bool {
        ObjectKind::find(&self.group, &self.kind) == Some(ObjectKind::GatewayParameters)
    }
}
