//! Manifests that make a gateway require the tokens of a set-up.

use std::net::IpAddr;

use serde::Serialize;
use serde_json::{Value, json};

use super::args::{HostPort, PolicyTarget};
use super::provider::ProviderUrl;
use super::setup::Setup;
use crate::cluster::Kind;

/// An object for a cluster, or for a gateway's files.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Manifest {
    #[serde(skip)]
    pub(super) kind: Kind,
    pub(super) object: Value,
}

/// Where a gateway fetches the provider's keys.
pub(super) enum KeysFrom {
    /// At a URL, with the system's trust.
    Url(String),
    /// At a Service of the cluster, over plain HTTP.
    Service(ServicePort),
    /// At a `Backend`, over plain HTTP.
    Backend(HostPort),
}

/// A port of a Service.
pub(super) struct ServicePort {
    namespace: String,
    name: String,
    port: u16,
}

impl KeysFrom {
    /// The provider's URL for the gateway: from the command line, or else the one that this machine
    /// uses.
    pub(super) fn of(chosen: Option<&HostPort>, url: &ProviderUrl, jwks_uri: &str) -> Self {
        match chosen {
            Some(chosen) => match ServicePort::of(chosen) {
                Some(service) => Self::Service(service),
                None => Self::Backend(chosen.clone()),
            },
            // A Backend would have to be given the system's trust.
            None if url.is_secure() => Self::Url(jwks_uri.to_owned()),
            None => Self::Backend(HostPort {
                host: url.host().to_owned(),
                port: url.port(),
            }),
        }
    }
}

impl ServicePort {
    /// The Service that has the host name `NAME.NAMESPACE.svc`, in the usual domain of clusters or
    /// without one.
    fn of(HostPort { host, port }: &HostPort) -> Option<Self> {
        let name = host.strip_suffix(".cluster.local").unwrap_or(host);
        let (name, namespace) = name.strip_suffix(".svc")?.split_once('.')?;
        (!namespace.contains('.')).then(|| Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port: *port,
        })
    }
}

/// A `TrafficPolicy`, after the `Backend` or `ReferenceGrant` that it needs to fetch keys.
pub(super) fn of(
    setup: &Setup,
    keys_from: &KeysFrom,
    target: &PolicyTarget,
    namespace: &str,
) -> Vec<Manifest> {
    let metadata = json!({"name": NAME, "namespace": namespace});
    let path = &setup.jwks_path;
    let (remote, needed) = match keys_from {
        KeysFrom::Url(url) => (json!({"url": url}), None),
        KeysFrom::Backend(place) => {
            let kind = Kind::BACKEND;
            let reference = json!({"group": kind.group, "kind": kind.name, "name": NAME});
            let remote = json!({"backendRef": reference, "path": path});
            (remote, Some(object(kind, &metadata, &backend(place))))
        }
        KeysFrom::Service(service) => {
            let ServicePort {
                namespace: of_service,
                name,
                port,
            } = service;
            let reference =
                json!({"kind": "Service", "namespace": of_service, "name": name, "port": port});
            let remote = json!({"backendRef": reference, "path": path});
            let grant = (of_service != namespace).then(|| grant(service, namespace));
            (remote, grant)
        }
    };
    let spec = json!({
        "targetRefs": [{
            "group": target.kind.group,
            "kind": target.kind.name,
            "name": target.name,
        }],
        "jwt": {
            "providers": [{
                "name": "keycloak",
                "issuer": setup.issuer,
                "audiences": [setup.client_id],
                "jwks": {"remote": remote},
                "claimsToHeaders": [{"claim": "group", "header": "x-group"}],
            }],
        },
    });
    let policy = object(Kind::TRAFFIC_POLICY, &metadata, &spec);
    needed.into_iter().chain([policy]).collect()
}

/// Lets policies of a namespace fetch keys from a Service of another one. Its name contains the
/// namespace, so that several namespaces may have one each.
fn grant(service: &ServicePort, from: &str) -> Manifest {
    let name = format!("{NAME}-{from}");
    let metadata = json!({"name": name, "namespace": service.namespace});
    let policy = Kind::TRAFFIC_POLICY;
    let spec = json!({
        "from": [{"group": policy.group, "kind": policy.name, "namespace": from}],
        "to": [{"group": "", "kind": "Service", "name": service.name}],
    });
    object(Kind::REFERENCE_GRANT, &metadata, &spec)
}

fn backend(HostPort { host, port }: &HostPort) -> Value {
    if host.parse::<IpAddr>().is_ok() || host == "localhost" {
        json!({"addresses": [{"host": host, "port": port}]})
    } else {
        json!({"dns": {"name": host, "port": port}})
    }
}

fn object(kind: Kind, metadata: &Value, spec: &Value) -> Manifest {
    let version = format!("{}/{}", kind.group, kind.version);
    let object = json!({
        "apiVersion": version,
        "kind": kind.name,
        "metadata": metadata,
        "spec": spec,
    });
    Manifest { kind, object }
}

/// The name of the policy and its `Backend`.
const NAME: &str = "identity-provider";
