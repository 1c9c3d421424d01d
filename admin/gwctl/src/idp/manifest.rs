//! Manifests that make a gateway require the tokens of a set-up.

use std::net::IpAddr;

use serde::Serialize;
use serde_json::{Value, json};

use super::args::{HostPort, PolicyTarget};
use super::provider::ProviderUrl;
use super::setup::{Setup, path_of};
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
    /// At a `Backend`, over plain HTTP.
    Backend(HostPort),
}

impl KeysFrom {
    /// The provider's URL for the gateway: from the command line, or else the one that this machine
    /// uses.
    pub(super) fn of(chosen: Option<&HostPort>, url: &ProviderUrl, jwks_uri: &str) -> Self {
        match chosen {
            // A Backend would need a ReferenceGrant in the namespace of the Service.
            Some(HostPort { host, port }) if is_service(host) => {
                Self::Url(format!("http://{host}:{port}{}", path_of(jwks_uri)))
            }
            Some(chosen) => Self::Backend(chosen.clone()),
            // A Backend would have to be given the system's trust.
            None if url.is_secure() => Self::Url(jwks_uri.to_owned()),
            None => Self::Backend(HostPort {
                host: url.host().to_owned(),
                port: url.port(),
            }),
        }
    }
}

/// A `TrafficPolicy`, and a `Backend` for its keys if needed.
pub(super) fn of(
    setup: &Setup,
    keys_from: &KeysFrom,
    target: &PolicyTarget,
    namespace: &str,
) -> Vec<Manifest> {
    let metadata = json!({"name": NAME, "namespace": namespace});
    let (remote, backend) = match keys_from {
        KeysFrom::Url(url) => (json!({"url": url}), None),
        KeysFrom::Backend(place) => {
            let kind = Kind::BACKEND;
            let reference = json!({"group": kind.group, "kind": kind.name, "name": NAME});
            let remote = json!({"backendRef": reference, "path": setup.jwks_path});
            (remote, Some(object(kind, &metadata, &backend(place))))
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
    backend.into_iter().chain([policy]).collect()
}

/// Whether it is the name of a Service, from whose URL keys may be fetched over plain HTTP.
fn is_service(host: &str) -> bool {
    let local = host.strip_suffix(".cluster.local").unwrap_or(host);
    local.strip_suffix(".svc").is_some()
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

/// The name of both.
const NAME: &str = "identity-provider";
