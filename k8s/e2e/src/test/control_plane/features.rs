//! Features that no conformance suite tests: enabled, used and changed, as a client sees them.

use std::cell::Cell;

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::edge_gateway::{EdgeGateway, HOST, TIMEOUT, pod_of, send, send_get};
use crate::test::http::{self, HttpResponse, request};
use crate::test::manifests::{gateway, listener, route};
use crate::test::objects::expected_condition;
use crate::test::scope::Scope;
use crate::test::tls;

/// Requests of a session, of which none may reach another pod.
const REQUESTS: usize = 30;

pub(in crate::test) async fn a_session_stays_with_its_pod(scope: &Scope) -> Result<()> {
    let site = EdgeGateway::open_with(scope, gateway(&[listener(80, "HTTP")]), 3).await?;
    for (persistence, answered, asks) in [
        (
            json!({"type": "Cookie", "cookie": {"name": "seat"}}),
            "set-cookie",
            "cookie",
        ),
        (
            json!({"type": "Header", "header": {"name": "x-seat"}}),
            "x-seat",
            "x-seat",
        ),
    ] {
        let mut sticky = route("HTTPRoute", 80, "echo");
        sticky["spec"]["rules"][0]["sessionPersistence"] = persistence;
        scope.apply(&[sticky]).await?;
        let begun = begin_session(&site, answered, None).await?;
        // Without a session, requests reach others.
        begin_session(&site, answered, Some(&begun.1)).await?;
        assert_session_stays_with_pod(&site, asks, &begun).await?;

        let (session, pod) = begun;
        scope.kubectl(&["delete", "pod", &pod], "").await?;
        let answer = scope
            .until("a session to go on elsewhere", async || {
                let answer = get_with_header(&site, (asks, &session)).await.ok();
                let is_elsewhere = |it: &HttpResponse| pod_of(it).is_some_and(|it| it != pod);
                Ok(answer.filter(is_elsewhere))
            })
            .await?;
        ensure!(
            !answer.header(answered).is_empty(),
            "the client did not get its new session"
        );
    }
    Ok(())
}

/// A policy of a Service enables sessions for rules without their own, as long as it exists.
pub(in crate::test) async fn a_service_policy_enables_session_persistence(
    scope: &Scope,
) -> Result<()> {
    let site = EdgeGateway::open_with(scope, gateway(&[listener(80, "HTTP")]), 3).await?;
    let policy = json!({
        "apiVersion": "gateway.networking.x-k8s.io/v1alpha1", "kind": "XBackendTrafficPolicy",
        "metadata": {"name": "seats"},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": "echo"}],
            "sessionPersistence": {"type": "Cookie", "cookie": {"name": "seat"}},
        },
    });
    scope.apply(&[policy]).await?;
    let accepted = expected_condition("Accepted", "True", "Accepted");
    scope
        .condition("XBackendTrafficPolicy", "seats", accepted)
        .await?;
    let begun = begin_session(&site, "set-cookie", None).await?;
    begin_session(&site, "set-cookie", Some(&begun.1)).await?;
    assert_session_stays_with_pod(&site, "cookie", &begun).await?;
    scope.delete("XBackendTrafficPolicy", "seats").await?;
    scope
        .until("requests to begin no session", async || {
            let answer = send_get(site.address, HOST, "/").await.ok();
            let is_free =
                |it: &HttpResponse| pod_of(it).is_some() && it.header("set-cookie").is_empty();
            Ok(answer.filter(is_free).map(drop))
        })
        .await
}

/// Sends requests of a session, and checks that each reaches its pod.
pub(super) async fn assert_session_stays_with_pod(
    site: &EdgeGateway<'_>,
    asks: &str,
    (session, pod): &(String, String),
) -> Result<()> {
    for _ in 0..REQUESTS {
        let answer = get_with_header(site, (asks, session)).await?;
        let reached = pod_of(&answer).unwrap_or_default();
        ensure!(reached == *pod, "a session of {pod} reached {reached}");
    }
    Ok(())
}

/// Waits until a request without a session begins one, at another pod than this. Returns what a client
/// shows of it, and its pod.
pub(super) async fn begin_session(
    site: &EdgeGateway<'_>,
    answered: &str,
    not: Option<&str>,
) -> Result<(String, String)> {
    let what = format!("a session by {answered} that is not of {not:?}");
    site.scope
        .until(&what, async || {
            let answer = send_get(site.address, HOST, "/").await.ok();
            let found = answer.and_then(|answer| {
                let value = answer.header(answered).split(';').next()?.to_owned();
                Some((value, pod_of(&answer)?))
            });
            Ok(found.filter(|(value, pod)| !value.is_empty() && Some(&**pod) != not))
        })
        .await
}

async fn get_with_header(site: &EdgeGateway<'_>, header: (&str, &str)) -> Result<HttpResponse> {
    send(site.address, request(HOST, "/", &[header])?).await
}

pub(in crate::test) async fn regular_expressions_match_whole_values(scope: &Scope) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let mut by_pattern = route("HTTPRoute", 80, "echo");
    let pattern = |name: &str, value: &str| json!({"type": "RegularExpression", "name": name, "value": value});
    by_pattern["spec"]["rules"][0]["matches"] = json!([{
        "path": {"type": "RegularExpression", "value": "/v[0-9]+/(cart|order)"},
        "headers": [pattern("x-build", "canary-.*")],
        "queryParams": [pattern("id", "[a-f0-9]{4}")],
    }]);
    scope.apply(&[by_pattern.clone()]).await?;
    site.until(HOST, "/", StatusCode::NOT_FOUND).await?;
    for (path, build, expected) in [
        ("/v12/cart?id=00ff", "canary-7", StatusCode::OK),
        ("/v1/order?n=1&id=beef", "canary-", StatusCode::OK),
        ("/v12/cart/more?id=00ff", "canary-7", StatusCode::NOT_FOUND),
        ("/a/v12/cart?id=00ff", "canary-7", StatusCode::NOT_FOUND),
        ("/v12/cart?id=00ff0", "canary-7", StatusCode::NOT_FOUND),
        ("/v12/cart?id=00ff", "a-canary-7", StatusCode::NOT_FOUND),
        ("/v12/cart", "canary-7", StatusCode::NOT_FOUND),
    ] {
        let answer = send(site.address, request(HOST, path, &[("x-build", build)])?).await?;
        ensure!(
            answer.status == expected,
            "{path} of {build}: {} and not {expected}",
            answer.status
        );
    }

    by_pattern["spec"]["rules"][0]["matches"][0]["path"]["value"] = json!("/(?=look)");
    scope.apply(&[by_pattern]).await?;
    let refused = expected_condition("Accepted", "False", "UnsupportedValue");
    let message = scope.condition("HTTPRoute", "echo-80", refused).await?;
    ensure!(
        message.contains("does not compile"),
        "the message is {message}"
    );
    Ok(())
}

pub(in crate::test) async fn retries_stay_within_their_budget(scope: &Scope) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let budget = json!({
        "apiVersion": "gateway-system.io/v1alpha1", "kind": "TrafficPolicy", "metadata": {"name": "budget"},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": "echo"}],
            "retryBudget": {"percent": 0, "floor": 0},
        },
    });
    scope.apply(&[retrying()]).await?;
    let requests = Cell::new(0);
    until_retried_request_gets(&site, &requests, StatusCode::OK).await?;
    scope.apply(&[budget]).await?;
    until_retried_request_gets(&site, &requests, StatusCode::INTERNAL_SERVER_ERROR).await?;
    scope.delete("TrafficPolicy", "budget").await?;
    until_retried_request_gets(&site, &requests, StatusCode::OK).await
}

pub(in crate::test) async fn retries_stay_within_their_rate(scope: &Scope) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let policy = |name: &str, service: &str| {
        json!({
            "apiVersion": "gateway.networking.x-k8s.io/v1alpha1", "kind": "XBackendTrafficPolicy",
            "metadata": {"name": name},
            "spec": {
                "targetRefs": [{"group": "", "kind": "Service", "name": service}],
                "retryConstraint": {
                    "budget": {"percent": 0, "interval": "10s"},
                    "minRetryRate": {"count": 1, "interval": "1h"},
                },
            },
        })
    };
    let accepted = async |name: &str, status: &str, reason: &str| {
        let expected = expected_condition("Accepted", status, reason);
        scope
            .condition("XBackendTrafficPolicy", name, expected)
            .await
            .map(drop)
    };
    scope.apply(&[retrying()]).await?;
    let requests = Cell::new(0);
    until_retried_request_gets(&site, &requests, StatusCode::OK).await?;
    scope.apply(&[policy("rate", "echo")]).await?;
    accepted("rate", "True", "Accepted").await?;
    until_retried_request_gets(&site, &requests, StatusCode::SERVICE_UNAVAILABLE).await?;

    // The second is younger by a second at least, or later by name.
    scope
        .apply(&[policy("same", "echo"), policy("typo", "ecko")])
        .await?;
    accepted("same", "False", "Conflicted").await?;
    accepted("typo", "False", "TargetNotFound").await?;
    scope.delete("XBackendTrafficPolicy", "rate").await?;
    accepted("same", "True", "Accepted").await?;
    scope.delete("XBackendTrafficPolicy", "same").await?;
    until_retried_request_gets(&site, &requests, StatusCode::OK).await
}

/// A route to the echo backend that retries a failed request twice.
fn retrying() -> Value {
    let mut retrying = route("HTTPRoute", 80, "echo");
    retrying["spec"]["rules"][0]["retry"] = json!({"attempts": 2, "codes": [500]});
    retrying
}

/// Waits until a request whose first two attempts fail gets this status.
async fn until_retried_request_gets(
    site: &EdgeGateway<'_>,
    requests: &Cell<u32>,
    status: StatusCode,
) -> Result<()> {
    let what = format!("a request whose first two attempts fail to come to {status}");
    let found = site.scope.until(&what, async || {
        requests.set(requests.get() + 1);
        let uuid = requests.get();
        let path = format!("/retry/?uuid={uuid}&succeedAfter=2&responseCode=500");
        let answer = send_get(site.address, HOST, &path).await.ok();
        Ok(answer.filter(|it| it.status == status))
    });
    found.await.map(drop)
}

pub(in crate::test) async fn routes_attach_to_default_gateways(scope: &Scope) -> Result<()> {
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["defaultScope"] = json!("All");
    let site = EdgeGateway::open_with(scope, edge.clone(), 1).await?;
    let is_default = expected_condition("DefaultGateway", "True", "DefaultGateway");
    scope.condition("Gateway", "edge", is_default).await?;
    scope.delete("HTTPRoute", "echo-80").await?;
    site.until(HOST, "/", StatusCode::NOT_FOUND).await?;

    let mut asks = route("HTTPRoute", 80, "echo");
    asks["spec"]
        .as_object_mut()
        .and_then(|spec| spec.remove("parentRefs"));
    asks["spec"]["useDefaultGateways"] = json!("All");
    scope.apply(&[asks]).await?;
    site.until(HOST, "/", StatusCode::OK).await?;
    let accepted = expected_condition("Accepted", "True", "Accepted");
    scope.condition("HTTPRoute", "echo-80", accepted).await?;

    edge["spec"]["defaultScope"] = json!("None");
    scope.apply(&[edge]).await?;
    site.until(HOST, "/", StatusCode::NOT_FOUND).await?;
    scope
        .until("the route to have no parent", async || {
            let route = scope.object("HTTPRoute", "echo-80").await?;
            let route = route.context("the route is the user's")?;
            let parents = route["status"]["parents"].as_array();
            Ok(parents.is_none_or(Vec::is_empty).then_some(()))
        })
        .await
}

pub(in crate::test) async fn addresses_have_the_requested_routability(scope: &Scope) -> Result<()> {
    let asking = |addresses: Value| {
        let mut edge = gateway(&[listener(80, "HTTP")]);
        edge["spec"]["addresses"] = addresses;
        edge
    };
    let both = asking(json!([{"routability": "Cluster"}, {}]));
    let mut site = EdgeGateway::open_with(scope, both, 1).await?;
    let assigned = expected_condition("AddressesAssigned", "True", "AddressesAssigned");
    scope.condition("Gateway", "edge", assigned).await?;
    let [in_cluster, outside] = &*addresses(scope).await? else {
        anyhow::bail!("two addresses were requested");
    };
    ensure!(in_cluster["routability"] == "Cluster" && outside["routability"] == "");
    let service = scope.object("Service", "edge").await?;
    let service = service.context("the Gateway's Service")?;
    ensure!(service["spec"]["clusterIP"] == in_cluster["value"]);
    for address in [in_cluster, outside] {
        let ip = address["value"].as_str().context("an address")?;
        site.address.set_ip(ip.parse()?);
        site.until(HOST, "/", StatusCode::OK).await?;
    }

    scope
        .apply(&[asking(json!([{"routability": "example.com/Vpc"}]))])
        .await?;
    let unassigned = expected_condition("AddressesAssigned", "False", "NotAssigned");
    let message = scope.condition("Gateway", "edge", unassigned).await?;
    ensure!(
        message.contains("example.com/Vpc"),
        "the message is {message}"
    );
    let not_programmed = expected_condition("Programmed", "False", "AddressNotAssigned");
    scope.condition("Gateway", "edge", not_programmed).await?;

    scope
        .apply(&[asking(json!([{"routability": "Cluster"}]))])
        .await?;
    scope.condition("Gateway", "edge", assigned).await?;
    let remaining = addresses(scope).await?;
    ensure!(
        remaining.len() == 1 && remaining[0]["routability"] == "Cluster",
        "{remaining:?} are its addresses"
    );
    let ip = remaining[0]["value"].as_str().context("an address")?;
    site.address.set_ip(ip.parse()?);
    site.until(HOST, "/", StatusCode::OK).await.map(drop)
}

/// Those in the status of `edge`.
async fn addresses(scope: &Scope) -> Result<Vec<Value>> {
    let edge = scope.object("Gateway", "edge").await?;
    let edge = edge.context("the Gateway is there")?;
    let addresses = edge["status"]["addresses"].as_array();
    Ok(addresses.cloned().unwrap_or_default())
}

pub(in crate::test) async fn client_certificates_are_verified_with_trust_bundles(
    scope: &Scope,
) -> Result<()> {
    // Its kind has no namespaces.
    let bundle = scope.namespace.clone();
    let outcome = with_bundle(scope, &bundle).await;
    // It does not exist if the test failed earlier.
    let _ = scope.delete("ClusterTrustBundle", &bundle).await;
    outcome
}

async fn with_bundle(scope: &Scope, bundle: &str) -> Result<()> {
    let secure = json!({
        "name": "port-443", "port": 443, "protocol": "HTTPS",
        "tls": {"certificateRefs": [{"name": "shop"}]},
    });
    let mut edge = gateway(&[listener(80, "HTTP"), secure]);
    edge["spec"]["tls"] = json!({"frontend": {"default": {"validation": {"caCertificateRefs": [
        {"group": "certificates.k8s.io", "kind": "ClusterTrustBundle", "name": bundle}]}}}});
    let (secret, trusted) = tls::certificate(HOST)?;
    let trusting = |authority: &tls::Authority| {
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle",
            "metadata": {"name": bundle}, "spec": {"trustBundle": authority.pem},
        })
    };
    let (first, second) = (tls::Authority::new()?, tls::Authority::new()?);
    let secured = route("HTTPRoute", 443, "echo");
    scope.apply(&[secret, trusting(&first), secured]).await?;
    let site = EdgeGateway::open_with(scope, edge, 1).await?;
    let mut address = site.address;
    address.set_port(443);
    let asks = async |shown: Option<&tls::Credential>| {
        let exchange = async {
            let stream = TcpStream::connect(address).await?;
            let stream = tls::client_with(Box::new(stream), HOST, trusted.clone(), shown).await?;
            http::get(stream, HOST, "/").await
        };
        timeout(TIMEOUT, exchange).await?
    };
    let old = first.client("old.example.com")?;
    let new = second.client("new.example.com")?;
    let served = async |shown: &tls::Credential| {
        let what = "a client of the bundle to be served";
        let looked = scope.until(what, async || Ok(asks(Some(shown)).await.ok()));
        looked.await.map(drop)
    };
    let refused = async |shown: &tls::Credential| {
        let what = "a client that the bundle does not vouch for to be refused";
        let looked = scope.until(what, async || Ok(asks(Some(shown)).await.err()));
        looked.await.map(drop)
    };
    served(&old).await?;
    for stranger in [None, Some(&new)] {
        ensure!(asks(stranger).await.is_err(), "a stranger was served");
    }

    scope.apply(&[trusting(&second)]).await?;
    served(&new).await?;
    refused(&old).await?;

    scope.delete("ClusterTrustBundle", bundle).await?;
    let missing = expected_condition("ResolvedRefs", "False", "InvalidCACertificateRef");
    scope.condition("Gateway", "edge", missing).await?;
    refused(&new).await?;
    site.until(HOST, "/", StatusCode::OK).await.map(drop)
}
