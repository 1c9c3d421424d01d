//! Manifests that make a gateway require the tokens of a set-up.

use std::net::IpAddr;

use serde::Serialize;
use serde_json::{Value, json};

use super::args::{HostPort, PolicyTarget};
use super::provider_url::ProviderUrl;
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
    /// At a URL, with the system's trust; and the Service that it names, if any.
    Url(String, Option<ServicePort>),
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
            Some(chosen) => Self::over_plain_http(chosen.clone()),
            // A Backend would have to be given the system's trust.
            None if url.is_secure() => {
                let host = url.host().to_owned();
                let port = url.port();
                let service = ServicePort::of(&HostPort { host, port });
                Self::Url(jwks_uri.to_owned(), service)
            }
            None => Self::over_plain_http(HostPort {
                host: url.host().to_owned(),
                port: url.port(),
            }),
        }
    }

    fn over_plain_http(place: HostPort) -> Self {
        match ServicePort::of(&place) {
            Some(service) => Self::Service(service),
            None => Self::Backend(place),
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
        KeysFrom::Url(url, service) => {
            let grant = service.as_ref().and_then(|it| grant(it, namespace));
            (json!({"url": url}), grant)
        }
        KeysFrom::Backend(place) => {
            let kind = Kind::BACKEND;
            let reference = json!({"group": kind.group, "kind": kind.name, "name": NAME});
            let remote = json!({"backendRef": reference, "path": path});
            (remote, Some(object(kind, &metadata, &backend(place))))
        }
        KeysFrom::Service(service) => {
            let reference = json!({
                "kind": "Service",
                "namespace": service.namespace,
                "name": service.name,
                "port": service.port,
            });
            let remote = json!({"backendRef": reference, "path": path});
            (remote, grant(service, namespace))
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

/// Lets policies of a namespace fetch keys from a Service, if that is in another one. Its name contains
/// the namespace, so that several namespaces may have one each.
fn grant(service: &ServicePort, from: &str) -> Option<Manifest> {
    if service.namespace == from {
        return None;
    }
    let name = format!("{NAME}-{from}");
    let metadata = json!({"name": name, "namespace": service.namespace});
    let policy = Kind::TRAFFIC_POLICY;
    let spec = json!({
        "from": [{"group": policy.group, "kind": policy.name, "namespace": from}],
        "to": [{"group": "", "kind": "Service", "name": service.name}],
    });
    Some(object(Kind::REFERENCE_GRANT, &metadata, &spec))
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

/// The name of the policy and its `Backend`, and the start of the `ReferenceGrant`'s.
const NAME: &str = "identity-provider";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{HostPort, KeysFrom, of};
    use crate::idp::setup::Setup;

    const PATH: &str = "/realms/master/protocol/openid-connect/certs";

    /// The kinds of the manifests for a Gateway in namespace `shop`, and where the policy's keys are.
    fn manifests(chosen: Option<&str>, url: &str) -> (Vec<&'static str>, Value) {
        let chosen: Option<HostPort> = chosen.map(|it| it.parse().expect("HOST:PORT"));
        let keys_from = KeysFrom::of(
            chosen.as_ref(),
            &url.parse().expect("a URL"),
            &format!("{url}{PATH}"),
        );
        let target = "gateway/edge".parse().expect("a target");
        let manifests = of(&Setup::of_keys_at(PATH), &keys_from, &target, "shop");
        let kinds = manifests.iter().map(|it| it.kind.name).collect();
        let policy = &manifests.last().expect("a policy").object;
        let keys = policy["spec"]["jwt"]["providers"][0]["jwks"]["remote"].clone();
        (kinds, keys)
    }

    #[test]
    fn keys_of_a_service_come_with_a_reference_grant() {
        let service = |namespace| {
            json!({
                "backendRef":
                    {"kind": "Service", "namespace": namespace, "name": "keycloak", "port": 8080},
                "path": PATH,
            })
        };
        for (chosen, url) in [
            (Some("keycloak.idp.svc:8080"), "http://127.0.0.1:8180"),
            (None, "http://keycloak.idp.svc.cluster.local:8080"),
        ] {
            let (kinds, keys) = manifests(chosen, url);
            assert_eq!(kinds, ["ReferenceGrant", "TrafficPolicy"], "{url}");
            assert_eq!(keys, service("idp"), "{url}");
        }
        let (kinds, keys) = manifests(Some("keycloak.shop.svc:8080"), "http://127.0.0.1:8180");
        assert_eq!((kinds, keys), (vec!["TrafficPolicy"], service("shop")));
    }

    #[test]
    fn keys_over_tls_are_fetched_from_the_url() {
        for (url, expected) in [
            (
                "https://keycloak.idp.svc:8443",
                &["ReferenceGrant", "TrafficPolicy"][..],
            ),
            ("https://keycloak.shop.svc:8443", &["TrafficPolicy"]),
            ("https://keycloak.example.com", &["TrafficPolicy"]),
        ] {
            let (kinds, keys) = manifests(None, url);
            assert_eq!(kinds, expected, "{url}");
            assert_eq!(keys, json!({"url": format!("{url}{PATH}")}));
        }
    }

    #[test]
    fn other_hosts_become_a_backend() {
        for (chosen, url) in [
            (Some("keycloak.example.com:8080"), "http://127.0.0.1:8180"),
            (Some("pod.keycloak.idp.svc:8080"), "http://127.0.0.1:8180"),
            (None, "http://127.0.0.1:8180"),
        ] {
            let (kinds, keys) = manifests(chosen, url);
            assert_eq!(kinds, ["Backend", "TrafficPolicy"], "{chosen:?} {url}");
            assert_eq!(keys["backendRef"]["kind"], "Backend");
        }
    }
}
