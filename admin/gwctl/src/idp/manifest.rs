//! The manifests that have a gateway ask for the tokens of a set-up.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::args::PolicyTarget;
use super::provider::ProviderUrl;
use super::setup::Setup;

/// A `TrafficPolicy`, and a `Backend` of the provider where its keys are fetched over plain HTTP.
pub(super) fn of(
    setup: &Setup,
    jwks_uri: &str,
    url: &ProviderUrl,
    target: &PolicyTarget,
    namespace: Option<&str>,
) -> Vec<Value> {
    let namespace = namespace.unwrap_or("default");
    let metadata = json!({"name": NAME, "namespace": namespace});
    let (remote, backend) = if url.is_secure() {
        // With the system's trust, which a Backend would have to be given.
        (json!({"url": jwks_uri}), None)
    } else {
        let reference = json!({"group": GROUP, "kind": "Backend", "name": NAME});
        let remote = json!({"backendRef": reference, "path": setup.jwks_path});
        (remote, Some(backend(url, &metadata)))
    };
    let policy = json!({
        "apiVersion": VERSION,
        "kind": "TrafficPolicy",
        "metadata": metadata,
        "spec": {
            "targetRefs": [{
                "group": "gateway.networking.k8s.io",
                "kind": target.kind,
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
        },
    });
    backend.into_iter().chain([policy]).collect()
}

fn backend(url: &ProviderUrl, metadata: &Value) -> Value {
    let (host, port) = (url.host(), url.port());
    let is_address = host.parse::<IpAddr>().is_ok() || host == "localhost";
    let spec = if is_address {
        json!({"addresses": [{"host": host, "port": port}]})
    } else {
        json!({"dns": {"name": host, "port": port}})
    };
    json!({"apiVersion": VERSION, "kind": "Backend", "metadata": metadata, "spec": spec})
}

/// The name of both.
const NAME: &str = "identity-provider";
const GROUP: &str = "gateway-system.io";
const VERSION: &str = "gateway-system.io/v1alpha1";
