//! The table of kinds: everything that differs between them before their content is known.
//!
//! Whatever has to decide by kind decides by [`ObjectKind`]. Text is turned into one at the borders: in files, in
//! references between objects, and in keys of resources.

use std::fmt;

/// The group of Gateway API.
pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
/// The group of the Gateway API Inference Extension.
pub const INFERENCE_GROUP: &str = "inference.networking.k8s.io";
/// The group of experimental kinds of Gateway API.
pub const EXPERIMENTAL_GROUP: &str = "gateway.networking.x-k8s.io";
/// The group of our own kinds.
pub const OWN_GROUP: &str = "gateway-system.io";

/// What is known of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindDefinition {
    /// Its API group; empty for the core group.
    pub group: &'static str,
    /// Its name in manifests.
    pub name: &'static str,
    /// Its plural in paths, as its definition has it.
    pub plural: &'static str,
    /// Supported versions, of one form, the best first.
    pub versions: &'static [&'static str],
    /// Where its objects are.
    pub scope: KindScope,
    /// Who serves it.
    pub origin: Origin,
    /// How it is handled that its objects cannot be read.
    pub need: Need,
    /// What this controller writes of the status of its objects.
    pub status: StatusForm,
    /// When its status is written, if many have changed: lower ranks first.
    pub write_rank: u8,
    /// The objects that the API server leaves out of lists and watches.
    pub field_selector: Option<&'static str>,
    /// Whether its objects may have 1 MiB each.
    pub is_large: bool,
}

/// Where the objects of a kind are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindScope {
    /// In namespaces, of which only some may be read.
    Namespaces,
    /// In namespaces, all of which are read: who may write what refers to them decides about that.
    AllNamespaces,
    /// In none.
    Cluster,
}

/// Who serves a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Every API server.
    EveryApiServer,
    /// API servers of some versions, or with some settings.
    SomeApiServers,
    /// Clusters in which its definition is installed.
    Definition,
}

/// How missing permission to read the objects of a kind is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Like a kind that is not served.
    Optional,
    /// Nothing is published: it would be incomplete.
    Required,
    /// The same. Without these policies, requests would not be authenticated, and backends would get plain text.
    Protecting,
}

/// What this controller writes of the status of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusForm {
    /// Nothing.
    None,
    /// All of it.
    Whole,
    /// Its entries in `parents`.
    Parents,
    /// Its entries in `ancestors`, as in Gateway API's `PolicyStatus`.
    Ancestors,
    /// Its entries in the `ancestors` of an XBackend.
    BackendAncestors,
}

macro_rules! kinds {
    ($($kind:ident = $definition:expr;)*) => {
        /// A kind of object that is read. Kinds are in the order of their groups and names.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "a variant has the name of its kind")]
        pub enum ObjectKind {
            $($kind,)*
        }

        impl ObjectKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Its row in the table.
            #[must_use]
            pub const fn definition(self) -> &'static KindDefinition {
                match self {
                    $(Self::$kind => const { &$definition },)*
                }
            }
        }
    };
}

kinds! {
    ConfigMap = KindDefinition::core("ConfigMap", "configmaps").large();
    Namespace = KindDefinition::core("Namespace", "namespaces").in_scope(KindScope::Cluster);
    // Of those that have terminated, jobs leave many.
    Pod = KindDefinition::core("Pod", "pods")
        .selecting("status.phase!=Succeeded,status.phase!=Failed");
    // Helm stores each release in a Secret, of up to 1 MiB.
    Secret = KindDefinition::core("Secret", "secrets")
        .large()
        .selecting("type!=helm.sh/release.v1");
    Service = KindDefinition::core("Service", "services");
    // Of GatewayClass, whose annotations contain the installed release of Gateway API. One suffices: they are
    // installed together.
    CustomResourceDefinition = KindDefinition {
        origin: Origin::SomeApiServers,
        ..KindDefinition::optional("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions")
    }
    .in_scope(KindScope::Cluster)
    .selecting("metadata.name=gatewayclasses.gateway.networking.k8s.io");
    ClusterTrustBundle = KindDefinition {
        origin: Origin::SomeApiServers,
        ..KindDefinition::optional("certificates.k8s.io", "ClusterTrustBundle", "clustertrustbundles")
    }
    .versions(&["v1", "v1beta1"])
    .in_scope(KindScope::Cluster);
    EndpointSlice = KindDefinition {
        group: "discovery.k8s.io",
        ..KindDefinition::core("EndpointSlice", "endpointslices")
    };
    Backend = KindDefinition::own("Backend", "backends").writing(StatusForm::Whole);
    GatewayParameters = KindDefinition::own("GatewayParameters", "gatewayparameters")
        .in_scope(KindScope::AllNamespaces);
    TrafficPolicy = KindDefinition::own("TrafficPolicy", "trafficpolicies")
        .needed(Need::Protecting)
        .writing(StatusForm::Ancestors);
    BackendTlsPolicy = KindDefinition::gateway_api("BackendTLSPolicy", "backendtlspolicies")
        .versions(&["v1", "v1alpha3"])
        .needed(Need::Protecting)
        .writing(StatusForm::Ancestors);
    GrpcRoute = KindDefinition::gateway_api("GRPCRoute", "grpcroutes").writing(StatusForm::Parents);
    Gateway = KindDefinition::gateway_api("Gateway", "gateways")
        .versions(&["v1", "v1beta1"])
        .needed(Need::Required)
        .writing(StatusForm::Whole)
        .written(SECOND);
    GatewayClass = KindDefinition::gateway_api("GatewayClass", "gatewayclasses")
        .versions(&["v1", "v1beta1"])
        .in_scope(KindScope::Cluster)
        .needed(Need::Required)
        .writing(StatusForm::Whole)
        .written(FIRST);
    HttpRoute = KindDefinition::gateway_api("HTTPRoute", "httproutes")
        .versions(&["v1", "v1beta1"])
        .needed(Need::Required)
        .writing(StatusForm::Parents);
    ListenerSet = KindDefinition::gateway_api("ListenerSet", "listenersets")
        .writing(StatusForm::Whole)
        .written(THIRD);
    ReferenceGrant = KindDefinition::gateway_api("ReferenceGrant", "referencegrants")
        .versions(&["v1", "v1beta1"]);
    TcpRoute = KindDefinition::gateway_api("TCPRoute", "tcproutes")
        .versions(&["v1", "v1alpha2"])
        .writing(StatusForm::Parents);
    TlsRoute = KindDefinition::gateway_api("TLSRoute", "tlsroutes")
        .versions(&["v1", "v1alpha3", "v1alpha2"])
        .writing(StatusForm::Parents);
    UdpRoute = KindDefinition::gateway_api("UDPRoute", "udproutes")
        .versions(&["v1", "v1alpha2"])
        .writing(StatusForm::Parents);
    XBackend = KindDefinition::experimental("XBackend", "xbackends")
        .writing(StatusForm::BackendAncestors);
    XBackendTrafficPolicy = KindDefinition::experimental("XBackendTrafficPolicy", "xbackendtrafficpolicies")
        .writing(StatusForm::Ancestors);
    InferencePool = KindDefinition::optional(INFERENCE_GROUP, "InferencePool", "inferencepools")
        .writing(StatusForm::Parents);
}

impl KindDefinition {
    const fn optional(group: &'static str, name: &'static str, plural: &'static str) -> Self {
        Self {
            group,
            name,
            plural,
            versions: &["v1"],
            scope: KindScope::Namespaces,
            origin: Origin::Definition,
            need: Need::Optional,
            status: StatusForm::None,
            write_rank: LAST,
            field_selector: None,
            is_large: false,
        }
    }

    const fn core(name: &'static str, plural: &'static str) -> Self {
        Self {
            origin: Origin::EveryApiServer,
            need: Need::Required,
            ..Self::optional("", name, plural)
        }
    }

    const fn gateway_api(name: &'static str, plural: &'static str) -> Self {
        Self::optional(GATEWAY_GROUP, name, plural)
    }

    const fn experimental(name: &'static str, plural: &'static str) -> Self {
        Self::optional(EXPERIMENTAL_GROUP, name, plural).versions(&["v1alpha1"])
    }

    const fn own(name: &'static str, plural: &'static str) -> Self {
        Self::optional(OWN_GROUP, name, plural).versions(&["v1alpha1"])
    }

    const fn versions(self, versions: &'static [&'static str]) -> Self {
        Self { versions, ..self }
    }

    const fn in_scope(self, scope: KindScope) -> Self {
        Self { scope, ..self }
    }

    const fn needed(self, need: Need) -> Self {
        Self { need, ..self }
    }

    const fn writing(self, status: StatusForm) -> Self {
        Self { status, ..self }
    }

    const fn written(self, write_rank: u8) -> Self {
        Self { write_rank, ..self }
    }

    const fn selecting(self, field_selector: &'static str) -> Self {
        Self {
            field_selector: Some(field_selector),
            ..self
        }
    }

    const fn large(self) -> Self {
        Self {
            is_large: true,
            ..self
        }
    }
}

impl ObjectKind {
    /// The kind of this group and name.
    #[must_use]
    pub fn find(group: &str, name: &str) -> Option<Self> {
        Self::named(name).filter(|kind| kind.group() == group)
    }

    /// The kind of this name: no two have the same one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|kind| kind.name() == name)
    }

    /// Its API group; empty for the core group.
    #[must_use]
    pub const fn group(self) -> &'static str {
        self.definition().group
    }

    /// Its name in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.definition().name
    }

    /// The `apiVersion` to use.
    #[must_use]
    pub fn api_version(self) -> String {
        let KindDefinition {
            group, versions, ..
        } = self.definition();
        let version = versions.first().copied().unwrap_or_default();
        match *group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        }
    }

    /// Whether its objects are in namespaces.
    #[must_use]
    pub fn is_namespaced(self) -> bool {
        self.definition().scope != KindScope::Cluster
    }

    /// Whether its objects are routes.
    #[must_use]
    pub const fn is_route(self) -> bool {
        matches!(
            self,
            Self::HttpRoute | Self::GrpcRoute | Self::TlsRoute | Self::TcpRoute | Self::UdpRoute
        )
    }

    /// Whether its objects are policies.
    #[must_use]
    pub const fn is_policy(self) -> bool {
        matches!(
            self,
            Self::TrafficPolicy | Self::BackendTlsPolicy | Self::XBackendTrafficPolicy
        )
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A kind that a reference names and that cannot be there, for messages: with its group, and the one that may be meant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrittenKind<'a> {
    /// The group as it is written; empty for the core group.
    pub(crate) group: &'a str,
    /// The kind as it is written.
    pub(crate) kind: &'a str,
}

impl fmt::Display for WrittenKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind } = *self;
        match group {
            "" => write!(f, "kind `{kind}` with the empty group")?,
            group => write!(f, "kind `{kind}` of group `{group}`")?,
        }
        match ObjectKind::named(kind).map(ObjectKind::group) {
            Some("") if !group.is_empty() => f.write_str(" (did you mean `group: \"\"`?)"),
            Some(meant) if meant != group => write!(f, " (did you mean `group: {meant}`?)"),
            _ => Ok(()),
        }
    }
}

// A Gateway has no use before its class, nor its ListenerSets before it.
const FIRST: u8 = 0;
const SECOND: u8 = 1;
const THIRD: u8 = 2;
const LAST: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_the_order_of_their_groups_and_names() {
        let place = |kind: &ObjectKind| (kind.group(), kind.name());
        assert!(ObjectKind::ALL.is_sorted_by_key(place));
    }

    #[test]
    fn no_two_kinds_have_one_name() {
        for kind in ObjectKind::ALL {
            assert_eq!(ObjectKind::named(kind.name()), Some(*kind));
            assert_eq!(ObjectKind::find(kind.group(), kind.name()), Some(*kind));
            assert_eq!(ObjectKind::find("example.com", kind.name()), None);
            assert!(!kind.definition().versions.is_empty(), "{kind}");
        }
    }
}
