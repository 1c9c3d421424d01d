//! Gateway.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::{DefaultScope, GATEWAY_GROUP, GatewayTls, LabelSelector, ListenerFilters, ObjectMeta};

/// A Gateway.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Gateway {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: GatewaySpec,
}

/// What a Gateway is to be.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// Who serves it.
    pub gateway_class_name: String,
    /// Where it listens.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// Addresses asked for; none means any.
    #[serde(default)]
    pub addresses: Vec<GatewayAddress>,
    /// What its workload carries.
    #[serde(default)]
    pub infrastructure: Option<GatewayInfrastructure>,
    /// Which ListenerSets may attach.
    #[serde(default)]
    pub allowed_listeners: AllowedListeners,
    /// TLS of all listeners and of all backends.
    #[serde(default)]
    pub tls: Option<GatewayTls>,
    /// Which routes attach to it that do not name it.
    #[serde(default)]
    pub default_scope: DefaultScope,
}

/// Which ListenerSets may attach to a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct AllowedListeners {
    /// From which namespaces.
    #[serde(default)]
    pub namespaces: ListenerNamespaces,
}

/// Namespaces of ListenerSets.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ListenerNamespaces {
    /// Which ones.
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

/// One listener.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Its name in the Gateway.
    pub name: String,
    /// Hosts it answers for; none means every host.
    #[serde(default)]
    pub hostname: Option<String>,
    /// Its port.
    pub port: NonZeroU16,
    /// `HTTP`, `HTTPS`, `TLS`, `TCP`, `UDP`, or one with a domain.
    pub protocol: String,
    /// How it terminates TLS.
    #[serde(default)]
    pub tls: Option<ListenerTls>,
    /// Which routes may attach.
    #[serde(default)]
    pub allowed_routes: AllowedRoutes,
    /// What happens to requests before their route is chosen.
    #[serde(default)]
    pub filters: Option<ListenerFilters>,
}

/// TLS of a listener.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// Whether TLS ends here.
    #[serde(default)]
    pub mode: TlsMode,
    /// Secrets with certificates.
    #[serde(default)]
    pub certificate_refs: Vec<SecretObjectReference>,
    /// Options of implementations.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// Whether a listener ends TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum TlsMode {
    /// Ends it.
    #[default]
    Terminate,
    /// Passes it on.
    Passthrough,
}

/// A reference to a Secret.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct SecretObjectReference {
    /// Group; core by default.
    #[serde(default)]
    pub group: String,
    /// Kind.
    #[serde(default = "secret")]
    pub kind: String,
    /// Namespace; the referrer's by default.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

fn secret() -> String {
    "Secret".to_owned()
}

/// Which routes may attach to a listener.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct AllowedRoutes {
    /// From which namespaces.
    #[serde(default)]
    pub namespaces: RouteNamespaces,
    /// Of which kinds; none listed means every kind of the protocol.
    #[serde(default)]
    pub kinds: Vec<RouteGroupKind>,
}

/// Namespaces of routes.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct RouteNamespaces {
    /// Which ones.
    #[serde(default)]
    pub from: FromNamespaces,
    /// Labels of the namespaces, for `Selector`.
    #[serde(default)]
    pub selector: Option<LabelSelector>,
}

/// Which namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FromNamespaces {
    /// Every one.
    All,
    /// Those that a selector selects.
    Selector,
    /// The Gateway's own.
    #[default]
    Same,
    /// None.
    None,
}

/// A kind of route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct RouteGroupKind {
    /// Group.
    #[serde(default = "gateway_group")]
    pub group: String,
    /// Kind.
    pub kind: String,
}

fn gateway_group() -> String {
    GATEWAY_GROUP.to_owned()
}

/// An address of a Gateway.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct GatewayAddress {
    /// `IPAddress`, `Hostname`, or one with a domain.
    #[serde(rename = "type", default = "ip_address")]
    pub kind: String,
    /// The address; empty asks for any of its type.
    #[serde(default)]
    pub value: String,
    /// Where it is to be reached from, or is (GEP-5093): empty where nothing is asked for or promised.
    #[serde(default)]
    pub routability: String,
}

/// A ClusterIP.
pub const ROUTABLE_IN_CLUSTER: &str = "Cluster";
/// Promises nothing; conformance tests ask for it.
pub const ROUTABILITY_SENTINEL: &str = "testing.x-k8s.io/sentinel";

fn ip_address() -> String {
    "IPAddress".to_owned()
}

/// What a Gateway's workload carries.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayInfrastructure {
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Parameters.
    #[serde(default)]
    pub parameters_ref: Option<ParametersReference>,
}

/// A reference to parameters in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ParametersReference {
    /// Group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}
