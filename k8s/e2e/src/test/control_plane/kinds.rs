//! Every kind of object that a Gateway's traffic depends on, except those of `life`: created,
//! changed and deleted, as a client sees it.

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::edge_gateway::{EdgeGateway, HOST, backend, until};
use crate::test::manifests::{EchoProtocol, gateway, listener, route};
use crate::test::objects::expected_condition;
use crate::test::scope::Scope;
use crate::test::tls;

/// An object of Gateway API.
pub(super) fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "spec": spec,
    })
}

/// An object of one of our kinds.
pub(super) fn own(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "gateway-system.io/v1alpha1", "kind": kind, "metadata": {"name": name},
        "spec": spec,
    })
}

pub(in crate::test) async fn routes_of_each_kind_are_served_until_deleted(
    scope: &Scope,
) -> Result<()> {
    let listeners = [
        listener(80, "HTTP"),
        listener(8080, "HTTP"),
        listener(7000, "TCP"),
        listener(7001, "UDP"),
        json!({"name": "port-7443", "port": 7443, "protocol": "TLS", "tls": {"mode": "Passthrough"}}),
    ];
    let site = EdgeGateway::open_with(scope, gateway(&listeners), 1).await?;
    for (kind, speech, port) in [
        ("GRPCRoute", EchoProtocol::Grpc, 8080),
        ("TCPRoute", EchoProtocol::Tcp, 7000),
        ("UDPRoute", EchoProtocol::Udp, 7001),
        ("TLSRoute", EchoProtocol::Tcp, 7443),
    ] {
        let name = kind.to_lowercase();
        let mut objects = backend(scope, &name, speech, 1);
        let mut created = route(kind, port, &name);
        if kind == "TLSRoute" {
            created["spec"]["hostnames"] = json!(["other.example.com"]);
        }
        objects.push(created.clone());
        scope.apply(&objects).await?;
        let named = format!("{name}-{port}");
        let accepted = expected_condition("Accepted", "True", "Accepted");
        scope.condition(kind, &named, accepted).await?;
        attached(scope, port, 1).await?;
        created["spec"]["rules"][0]["backendRefs"][0]["name"] = json!("missing");
        scope.apply(&[created]).await?;
        let missing = expected_condition("ResolvedRefs", "False", "BackendNotFound");
        scope.condition(kind, &named, missing).await?;
        scope.delete(kind, &named).await?;
        attached(scope, port, 0).await?;
    }
    site.until(HOST, "/", StatusCode::OK).await.map(drop)
}

/// Waits until this many routes are attached to a listener of `edge`.
async fn attached(scope: &Scope, port: u16, routes: u64) -> Result<()> {
    scope
        .until(&format!("{routes} routes at port {port}"), async || {
            let edge = scope.object("Gateway", "edge").await?.unwrap_or_default();
            let listeners = edge["status"]["listeners"].as_array().into_iter().flatten();
            let mut found = listeners.filter(|it| it["name"] == format!("port-{port}"));
            let count = found.next().and_then(|it| it["attachedRoutes"].as_u64());
            Ok((count == Some(routes)).then_some(()))
        })
        .await
}

pub(in crate::test) async fn certificates_and_listener_sets_take_effect_until_deleted(
    scope: &Scope,
) -> Result<()> {
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["allowedListeners"] = json!({"namespaces": {"from": "Same"}});
    let site = EdgeGateway::open_with(scope, edge, 1).await?;
    let set = |port: u16| {
        object(
            "ListenerSet",
            "more",
            &json!({
                "parentRef": {"name": "edge"},
                "listeners": [{"name": "https", "port": port, "protocol": "HTTPS",
                               "tls": {"certificateRefs": [{"name": "shop"}]}}],
            }),
        )
    };
    let mut secure = route("HTTPRoute", 80, "echo");
    secure["metadata"]["name"] = json!("secure");
    secure["spec"]["parentRefs"] = json!([{"kind": "ListenerSet", "name": "more"}]);
    let (first, trusted) = tls::certificate(HOST)?;
    scope.apply(&[first, set(443), secure]).await?;
    served_over_tls(&site, 443, &trusted).await?;

    let (second, trusted) = tls::certificate(HOST)?;
    scope.apply(&[second]).await?;
    served_over_tls(&site, 443, &trusted).await?;

    scope.apply(&[set(8443)]).await?;
    served_over_tls(&site, 8443, &trusted).await?;

    scope.delete("Secret", "shop").await?;
    let missing = expected_condition("ResolvedRefs", "False", "InvalidCertificateRef");
    scope.condition("ListenerSet", "more", missing).await?;
    scope.delete("ListenerSet", "more").await?;
    site.until(HOST, "/", StatusCode::OK).await.map(drop)
}

/// Waits until a port serves this certificate.
async fn served_over_tls(
    site: &EdgeGateway<'_>,
    port: u16,
    trusted: &CertificateDer<'static>,
) -> Result<()> {
    let mut address = site.address;
    address.set_port(port);
    site.scope
        .until(&format!("the certificate at port {port}"), async || {
            let served = async {
                let stream = TcpStream::connect(address).await?;
                let stream = tls::client(Box::new(stream), HOST, trusted.clone()).await?;
                crate::test::http::get(stream, HOST, "/").await
            };
            let served = tokio::time::timeout(std::time::Duration::from_secs(2), served).await;
            Ok(served.ok().and_then(Result::ok).map(drop))
        })
        .await
}

pub(in crate::test) async fn policies_and_backends_take_effect_until_deleted(
    scope: &Scope,
) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let keys = json!({"keys": [{"kty": "oct", "k": "AAAA"}]}).to_string();
    let policy = |mode: &str| {
        own(
            "TrafficPolicy",
            "jwt",
            &json!({
                "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "echo-80"}],
                "jwt": {"mode": mode, "providers": [
                    {"name": "a", "issuer": "https://issuer.example", "jwks": {"inline": keys}}]},
            }),
        )
    };
    scope.apply(&[policy("Strict")]).await?;
    site.until(HOST, "/", StatusCode::UNAUTHORIZED).await?;
    scope.apply(&[policy("Optional")]).await?;
    site.until(HOST, "/", StatusCode::OK).await?;
    scope.apply(&[policy("Strict")]).await?;
    site.until(HOST, "/", StatusCode::UNAUTHORIZED).await?;
    scope.delete("TrafficPolicy", "jwt").await?;
    site.until(HOST, "/", StatusCode::OK).await?;

    let addresses = |host: &str, port: u16| {
        own(
            "Backend",
            "static",
            &json!({"addresses": [{"host": host, "port": port}]}),
        )
    };
    let service = scope
        .object("Service", "echo")
        .await?
        .context("a Service")?;
    let ip = service["spec"]["clusterIP"]
        .as_str()
        .context("an address")?;
    let mut to_backend = route("HTTPRoute", 80, "echo");
    to_backend["spec"]["rules"][0]["backendRefs"] =
        json!([{"group": "gateway-system.io", "kind": "Backend", "name": "static"}]);
    scope.apply(&[addresses(ip, 80), to_backend]).await?;
    site.until(HOST, "/", StatusCode::OK).await?;
    // The proxy's own admin server.
    scope.apply(&[addresses("127.0.0.1", 15000)]).await?;
    site.until(HOST, "/", StatusCode::INTERNAL_SERVER_ERROR)
        .await?;
    // A pod refuses connections to a port that nothing listens on; the address of a Service without
    // such a port does not respond.
    let pod = echo_pod_address(scope).await?;
    scope.apply(&[addresses(&pod, 9)]).await?;
    site.until(HOST, "/", StatusCode::SERVICE_UNAVAILABLE)
        .await?;
    scope.delete("Backend", "static").await?;
    site.until(HOST, "/", StatusCode::INTERNAL_SERVER_ERROR)
        .await
        .map(drop)
}

async fn echo_pod_address(scope: &Scope) -> Result<String> {
    let selector = "--selector=kubernetes.io/service-name=echo";
    let path = "--output=jsonpath={.items[0].endpoints[0].addresses[0]}";
    let words = ["get", "endpointslices", selector, path];
    let address = scope.kubectl(&words, "").await?;
    Ok(address.trim().to_owned())
}

pub(in crate::test) async fn grants_and_labels_permit_cross_namespace_references(
    scope: &Scope,
) -> Result<()> {
    let other = scope.another().await?;
    let outcome = assert_cross_namespace_access(scope, &other).await;
    other.close().await?;
    outcome
}

async fn assert_cross_namespace_access(scope: &Scope, other: &Scope) -> Result<()> {
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["listeners"][0]["allowedRoutes"] =
        json!({"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "shop"}}}});
    let label = |value: &str| format!("team{value}");
    let namespace = scope.namespace.clone();
    scope
        .kubectl(&["label", "namespace", &namespace, "team=shop"], "")
        .await?;
    let site = EdgeGateway::open_with(scope, edge, 1).await?;
    let mut elsewhere = route("HTTPRoute", 80, "echo");
    elsewhere["spec"]["hostnames"] = json!(["elsewhere.example.com"]);
    elsewhere["spec"]["parentRefs"][0]["namespace"] = json!(scope.namespace);
    elsewhere["spec"]["rules"][0]["backendRefs"][0]["namespace"] = json!(scope.namespace);
    other.apply(&[elsewhere]).await?;
    let from = ("elsewhere.example.com", "/");
    let see = async |status| until(scope, site.address, from, status).await.map(drop);
    let refused = expected_condition("Accepted", "False", "NotAllowedByListeners");
    other.condition("HTTPRoute", "echo-80", refused).await?;

    other
        .kubectl(
            &["label", "namespace", &other.namespace, &label("=shop")],
            "",
        )
        .await?;
    see(StatusCode::INTERNAL_SERVER_ERROR).await?;
    let grant = |kind: &str| {
        object(
            "ReferenceGrant",
            "from-elsewhere",
            &json!({
                "from": [{"group": "gateway.networking.k8s.io", "kind": kind, "namespace": other.namespace}],
                "to": [{"group": "", "kind": "Service"}],
            }),
        )
    };
    scope.apply(&[grant("HTTPRoute")]).await?;
    see(StatusCode::OK).await?;
    scope.apply(&[grant("GRPCRoute")]).await?;
    see(StatusCode::INTERNAL_SERVER_ERROR).await?;
    scope.apply(&[grant("HTTPRoute")]).await?;
    see(StatusCode::OK).await?;
    scope.delete("ReferenceGrant", "from-elsewhere").await?;
    see(StatusCode::INTERNAL_SERVER_ERROR).await?;
    other
        .kubectl(&["label", "namespace", &other.namespace, &label("-")], "")
        .await?;
    // The route of all hosts, in the Gateway's own namespace.
    see(StatusCode::OK).await
}

pub(in crate::test) async fn classes_and_parameters_take_effect_until_deleted(
    scope: &Scope,
) -> Result<()> {
    let class = format!("class-of-{}", scope.namespace);
    let created = object(
        "GatewayClass",
        &class,
        &json!({
            "controllerName": "gateway-system.io/controller",
            "parametersRef": {"group": "gateway-system.io", "kind": "GatewayParameters",
                              "name": "all", "namespace": scope.namespace},
        }),
    );
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["gatewayClassName"] = json!(class);
    scope.apply(&[created, edge.clone()]).await?;
    let refused = expected_condition("Accepted", "False", "InvalidParameters");
    let message = scope.condition("GatewayClass", &class, refused).await?;
    ensure!(
        message.contains("does not exist: create it"),
        "the message is {message}"
    );

    let replicas = |count: u32| own("GatewayParameters", "all", &json!({"replicas": count}));
    scope.apply(&[replicas(1)]).await?;
    let accepted = expected_condition("Accepted", "True", "Accepted");
    scope.condition("GatewayClass", &class, accepted).await?;
    EdgeGateway::open_with(scope, edge.clone(), 1).await?;
    scope.apply(&[replicas(2)]).await?;
    scope
        .until("two proxies", async || {
            let deployment = scope
                .object("Deployment", "edge")
                .await?
                .unwrap_or_default();
            Ok((deployment["spec"]["replicas"] == 2).then_some(()))
        })
        .await?;

    // The class of another controller.
    edge["spec"]["gatewayClassName"] = json!("somebody-elses");
    scope.apply(&[edge]).await?;
    for kind in ["Deployment", "Service", "ServiceAccount", "ConfigMap"] {
        scope.wait_until_deleted(kind, "edge").await?;
    }
    ensure!(
        scope.object("Gateway", "edge").await?.is_some(),
        "the Gateway is the user's"
    );
    scope.delete("GatewayClass", &class).await
}
