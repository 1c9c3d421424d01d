//! Invalid objects: each is reported in its own status, with a remedy, and nothing else is
//! affected.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures_lite::StreamExt as _;
use hyper::StatusCode;
use kube::api::{DynamicObject, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::ControlPlane;
use super::edge_gateway::{EdgeGateway, HOST, address, until};
use crate::test::manifests::{gateway, listener, route};
use crate::test::objects::{ExpectedCondition, expected_condition};
use crate::test::scope::Scope;

/// How long another controller overwrites our status, and how often the controller may write it in
/// that time: immediately and after 0.5, 1, 2 and 4 s.
const FOREIGN_WRITES: Duration = Duration::from_secs(10);
const MAX_WRITES: usize = 5;

/// Timeout of reading what has already happened.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A Gateway of this name with one HTTP listener on port 80.
fn named(name: &str) -> Value {
    let mut gateway = gateway(&[listener(80, "HTTP")]);
    gateway["metadata"]["name"] = json!(name);
    gateway
}

async fn expect(
    scope: &Scope,
    (kind, name): (&str, &str),
    expected: ExpectedCondition<'_>,
    text: &str,
) -> Result<()> {
    let message = scope.condition(kind, name, expected).await?;
    ensure!(
        message.contains(text),
        "{kind} {name} has the message `{message}`, without `{text}`"
    );
    Ok(())
}

pub(in crate::test) async fn dangling_references_are_reported_in_the_status(
    scope: &Scope,
) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    scope.apply(&dangling_objects()).await?;
    let refused = expected_condition("Accepted", "False", "InvalidParameters");
    expect(scope, ("Gateway", "lost"), refused, "lost").await?;
    let unresolved = expected_condition("ResolvedRefs", "False", "InvalidCertificateRef");
    expect(scope, ("Gateway", "untrusted"), unresolved, "opaque").await?;
    let without = expected_condition("ResolvedRefs", "False", "InvalidCACertificateRef");
    expect(scope, ("BackendTLSPolicy", "policy"), without, "empty").await?;
    // A Service whose certificate cannot be verified is not used.
    site.until(HOST, "/", StatusCode::SERVICE_UNAVAILABLE)
        .await?;
    scope.delete("BackendTLSPolicy", "policy").await?;
    site.until(HOST, "/", StatusCode::OK).await?;

    let parameters = json!({
        "apiVersion": "gateway-system.io/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"name": "lost"}, "spec": {},
    });
    scope.apply(&[parameters]).await?;
    address(scope, "lost", 80).await?;
    let classless = scope.object("Gateway", "classless").await?;
    let classless = classless.context("it is there")?;
    let conditions = classless["status"]["conditions"].as_array();
    ensure!(
        conditions
            .into_iter()
            .flatten()
            .all(|it| it["status"] == "Unknown"),
        "a Gateway of nobody's class was judged: {classless}"
    );
    let deployed = scope.object("Deployment", "classless").await?;
    ensure!(deployed.is_none(), "it was deployed");
    Ok(())
}

/// Gateways `classless`, `lost` and `untrusted`, and a policy of Service `echo`.
fn dangling_objects() -> [Value; 6] {
    let mut classless = named("classless");
    classless["spec"]["gatewayClassName"] = json!("nobody");
    let mut lost = named("lost");
    lost["spec"]["infrastructure"] = json!({"parametersRef": {
        "group": "gateway-system.io", "kind": "GatewayParameters", "name": "lost"}});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": "opaque"},
        "stringData": {"password": "secret"},
    });
    let mut untrusted = gateway(&[json!({
        "name": "https", "port": 443, "protocol": "HTTPS",
        "tls": {"certificateRefs": [{"name": "opaque"}]},
    })]);
    untrusted["metadata"]["name"] = json!("untrusted");
    let empty = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "empty"},
        "data": {"other": "text"},
    });
    let policy = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
        "metadata": {"name": "policy"},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": "echo"}],
            "validation": {"hostname": HOST, "caCertificateRefs": [
                {"group": "", "kind": "ConfigMap", "name": "empty"}]},
        },
    });
    [classless, lost, secret, untrusted, empty, policy]
}

pub(in crate::test) async fn a_reserved_port_and_an_address_in_use_are_rejected(
    scope: &Scope,
) -> Result<()> {
    let mut reserved = gateway(&[listener(80, "HTTP"), listener(15_021, "HTTP")]);
    reserved["metadata"]["name"] = json!("reserved");
    let with_address = |name: &str| {
        let mut gateway = named(name);
        gateway["spec"]["addresses"] = json!([{"type": "IPAddress", "value": STATIC_ADDRESS}]);
        gateway
    };
    scope.apply(&[reserved, with_address("first")]).await?;
    let first = address(scope, "first", 80).await?;
    ensure!(first.ip().to_string() == STATIC_ADDRESS, "it got {first}");
    scope.apply(&[with_address("second")]).await?;
    let taken = expected_condition("Programmed", "False", "AddressNotUsable");
    expect(scope, ("Gateway", "second"), taken, STATIC_ADDRESS).await?;
    let refused = expected_condition("Accepted", "False", "PortUnavailable");
    expect(scope, ("Gateway", "reserved"), refused, "15021").await?;
    // Its other listener works.
    address(scope, "reserved", 80).await?;
    // The second gets the address once the first is deleted.
    scope.delete("Gateway", "first").await?;
    scope.wait_until_deleted("Service", "first").await?;
    address(scope, "second", 80).await.map(drop)
}

/// In the load balancer's pool, and high enough not to be assigned to another test.
const STATIC_ADDRESS: &str = "172.31.250.231";

pub(in crate::test) async fn names_of_253_characters_are_supported(scope: &Scope) -> Result<()> {
    let name = format!("{}.example", "a".repeat(245));
    let site = EdgeGateway::open(scope).await?;
    let mut long = route("HTTPRoute", 80, "echo");
    long["metadata"]["name"] = json!(name);
    long["spec"]["parentRefs"] = json!([{"name": name}]);
    scope.apply(&[named(&name), long]).await?;
    let address = address(scope, &name, 80).await?;
    until(scope, address, (HOST, "/"), StatusCode::OK).await?;
    site.until(HOST, "/", StatusCode::OK).await.map(drop)
}

pub(in crate::test) async fn another_writer_replacing_our_status_causes_few_writes(
    scope: &Scope,
) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let routes = scope.objects("HTTPRoute")?;
    let before = routes.get("echo-80").await?.resource_version();
    let before = before.context("an object has a version")?;
    let started = Instant::now();
    let (mut foreign, mut last) = (0, before.clone());
    while started.elapsed() < FOREIGN_WRITES {
        let patch = Patch::Merge(json!({"status": {"parents": []}}));
        let params = PatchParams::default();
        let patched = routes.patch_status("echo-80", &params, &patch).await?;
        last = patched.resource_version().unwrap_or(last);
        foreign += 1;
        sleep(Duration::from_millis(50)).await;
    }
    let ours = restorations(&routes, &before, &last).await?;
    ensure!(
        ours <= MAX_WRITES,
        "{foreign} foreign writes caused {ours} of ours in {FOREIGN_WRITES:?}"
    );
    let accepted = expected_condition("Accepted", "True", "Accepted");
    scope.condition("HTTPRoute", "echo-80", accepted).await?;
    let route = routes.get("echo-80").await?;
    let fields = route.managed_fields();
    let of_status = fields
        .iter()
        .filter(|it| it.subresource.as_deref() == Some("status"));
    ensure!(
        of_status
            .filter_map(|it| it.manager.as_deref())
            .any(|manager| manager == "gateway-controller"),
        "the status does not tell who wrote it: {fields:?}"
    );
    site.until(HOST, "/", StatusCode::OK).await.map(drop)
}

/// The number of our writes between two versions of route `echo-80`: only they add entries.
async fn restorations(routes: &Api<DynamicObject>, after: &str, until: &str) -> Result<usize> {
    let only = WatchParams::default().fields("metadata.name=echo-80");
    let mut changes = routes.watch(&only, after).await?.boxed();
    let mut ours = 0;
    loop {
        let change = timeout(TIMEOUT, changes.next()).await?;
        let WatchEvent::Modified(route) = change.context("the watch ended")?? else {
            bail!("the route was not just modified");
        };
        let parents = route.data["status"]["parents"].as_array();
        if parents.is_some_and(|parents| !parents.is_empty()) {
            ours += 1;
        }
        if route.resource_version().as_deref() == Some(until) {
            return Ok(ours);
        }
    }
}

pub(in crate::test) async fn unselected_namespaces_are_ignored(scope: &Scope) -> Result<()> {
    let control_plane = ControlPlane::of(scope);
    let hidden = scope.another().await?;
    let selector = json!([{"matchLabels": {"kubernetes.io/metadata.name": scope.namespace}}]);
    let variable = "CONTROLLER_DISCOVERY_NAMESPACE_SELECTORS";
    control_plane
        .set(&[(variable, Some(&selector.to_string()))])
        .await?;
    let outcome = async {
        let site = EdgeGateway::open(scope).await?;
        let grant = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
            "metadata": {"name": "all"},
            "spec": {
                "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute",
                          "namespace": scope.namespace}],
                "to": [{"group": "", "kind": "Service"}],
            },
        });
        let mut objects = super::edge_gateway::backend(
            &hidden,
            "echo",
            crate::test::manifests::EchoProtocol::Http,
            1,
        );
        objects.extend([grant, named("hidden")]);
        hidden.apply(&objects).await?;
        let mut across = route("HTTPRoute", 80, "echo");
        across["spec"]["rules"][0]["backendRefs"][0]["namespace"] = json!(hidden.namespace);
        scope.apply(&[across]).await?;
        site.until(HOST, "/", StatusCode::INTERNAL_SERVER_ERROR)
            .await?;
        ensure!(
            hidden.object("Deployment", "hidden").await?.is_none(),
            "a Gateway of a namespace that is not selected was deployed"
        );
        // It is deployed once its namespace is selected.
        scope
            .kubectl(&["label", "namespace", &hidden.namespace, "team=a"], "")
            .await?;
        let wider = json!([selector[0], {"matchExpressions": [
            {"key": "team", "operator": "In", "values": ["a"]}]}]);
        control_plane
            .set(&[(variable, Some(&wider.to_string()))])
            .await?;
        site.until(HOST, "/", StatusCode::OK).await?;
        address(&hidden, "hidden", 80).await?;
        // Applied without a restart.
        scope
            .kubectl(&["label", "namespace", &hidden.namespace, "team-"], "")
            .await?;
        site.until(HOST, "/", StatusCode::INTERNAL_SERVER_ERROR)
            .await
            .map(drop)
    };
    let outcome = outcome.await;
    control_plane.set(&[(variable, None)]).await?;
    hidden.close().await?;
    outcome
}
