//! The controller's permissions, compared with its requests in the API server's audit log: none is
//! missing, and none is granted that it does not use.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use xds::model::Kind;

use super::edge_gateway::{EdgeGateway, HOST, service};
use super::kinds::{object, own};
use super::mistakes;
use super::proxy::{AUDIENCE, ControllerTunnel, pods, token};
use super::{ControlPlane, NAMESPACE};
use crate::test::manifests::{EchoProtocol, gateway, listener, route};
use crate::test::objects::expected_condition;
use crate::test::scope::Scope;
use crate::test::tls::xds_authority;

const ACCOUNT: &str = "system:serviceaccount:gateway-system:gateway";

/// Names the pod of a token in the audit log.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";

/// The class that the controller creates.
const CLASS: &str = "gateway";

/// Life of an authority that the controller replaces.
const A_DAY: Duration = Duration::from_hours(24);

/// Permissions that this controller does not use: `get` of Namespaces is for controllers of before 0.1.0 during
/// an upgrade, until release 0.2.0.
const UNUSED: [&str; 1] = ["get /namespaces"];

/// A definition that is deleted for a while. Tests run one after another, so no other one needs it.
const DEFINITION: &str = "xbackendtrafficpolicies.gateway.networking.x-k8s.io";

/// The request for a definition whose kind the API server no longer serves.
const GET_DEFINITION: &str = "get apiextensions.k8s.io/customresourcedefinitions";

/// Permissions in the controller's namespace that the test does not depend on. A replica deletes its report to
/// the leader, which it may not have in this test, and the session keys of a Gateway ten minutes after it.
const UNUSED_OF_NAMESPACE: [&str; 2] = ["delete /configmaps", "delete /secrets"];

/// Permissions as `VERB GROUP/RESOURCE`, or `VERB PATH`.
type Permissions = BTreeSet<String>;

pub(in crate::test) async fn every_permission_is_used_and_none_is_missing(
    scope: &Scope,
) -> Result<()> {
    create_the_class_again(scope).await?;
    replace_an_old_authority(scope).await?;
    let of_cluster = role(scope, "clusterrole/gateway-gateway-system").await?;
    let since = of_cluster["metadata"]["creationTimestamp"].as_str();
    // Times of requests have fractions of a second.
    let since = since.context("a role has a time")?.trim_end_matches('Z');
    let pods = ControlPlane::of(scope).pods().await?;
    create_a_definition_again(scope, since, &pods).await?;
    let site = open_everything(scope).await?;
    for text in ["first", "second"] {
        refuse_a_listener(&site, text).await?;
    }
    use_an_autoscaler(scope).await?;
    change_the_workload(scope).await?;
    mistakes::an_image_is_missing(scope).await?;
    let mut of_cluster = granted(&of_cluster);
    of_cluster.retain(|it| !UNUSED.contains(&&**it));
    let mut of_namespace = granted(&role(scope, "role/gateway").await?);
    of_namespace.retain(|it| !UNUSED_OF_NAMESPACE.contains(&&**it));
    let mut unused = Vec::new();
    let found = scope.until("the controller to use every permission", async || {
        let Requests {
            own,
            elsewhere,
            forbidden,
        } = Requests::since(scope, since, &pods)?;
        ensure!(forbidden.is_empty(), "it is forbidden to {forbidden:?}");
        let of_cluster = of_cluster.difference(&elsewhere);
        let all = of_cluster.chain(of_namespace.difference(&own));
        unused = all.cloned().collect();
        Ok(unused.is_empty().then_some(()))
    });
    let found = found.await;
    scope.delete("GatewayClass", &class_of(scope)).await?;
    found.with_context(|| format!("it may, but did not: {unused:?}"))
}

/// Deletes the controller's class and has a new replica create it, as the first one in a cluster does.
async fn create_the_class_again(scope: &Scope) -> Result<()> {
    scope.delete("GatewayClass", CLASS).await?;
    ControlPlane::of(scope).restart().await?;
    let created = async || scope.object("GatewayClass", CLASS).await;
    let created = scope.until("the controller to create its class", created);
    created.await.map(drop)
}

/// Makes the controller's certificate authority one of its own, by its name, that expires soon, which the
/// controller replaces. It never replaces that of a user.
async fn replace_an_old_authority(scope: &Scope) -> Result<()> {
    let control_plane = ControlPlane::of(scope);
    let (certificate, key) = xds_authority("gateway xDS 0123456789abcdef", A_DAY)?;
    let old = control_plane.set_authority(&certificate, &key).await?;
    let old = &old.data["data"]["tls.crt"];
    let replaced = async || {
        let now = control_plane.authority().await?;
        Ok((now.data["data"]["tls.crt"] != *old).then_some(()))
    };
    let what = "the controller to replace an authority that expires soon";
    scope.until(what, replaced).await
}

/// Deletes a definition until the controller has seen that its kind is gone, and creates it again: the object
/// of that kind that follows gets a status.
async fn create_a_definition_again(scope: &Scope, since: &str, pods: &[String]) -> Result<()> {
    let get = [
        "get",
        "customresourcedefinition",
        DEFINITION,
        "--output=json",
    ];
    let former: Value = serde_json::from_str(&scope.kubectl(&get, "").await?)?;
    let definition = json!({
        "apiVersion": former["apiVersion"], "kind": former["kind"], "spec": former["spec"],
        "metadata": {
            "name": DEFINITION,
            "annotations": former["metadata"]["annotations"],
            "labels": former["metadata"]["labels"],
        },
    });
    let delete = ["delete", "customresourcedefinition", DEFINITION];
    scope.kubectl(&delete, "").await?;
    let what = "the controller to see that a definition is deleted";
    let seen = scope.until(what, async || {
        let requests = Requests::since(scope, since, pods)?;
        Ok(requests.elsewhere.contains(GET_DEFINITION).then_some(()))
    });
    let seen = seen.await;
    // Later tests need it.
    let create = ["apply", "--server-side", "-f", "-"];
    scope.kubectl(&create, &definition.to_string()).await?;
    let definition = format!("customresourcedefinition/{DEFINITION}");
    let established = [
        "wait",
        "--for=condition=Established",
        &definition,
        "--timeout=60s",
    ];
    scope.kubectl(&established, "").await?;
    seen
}

/// Has an autoscaler decide the number of proxies, and after its deletion the parameters of the Gateway.
async fn use_an_autoscaler(scope: &Scope) -> Result<()> {
    let parameters = |replicas: u32| {
        let spec = json!({"workload": "Deployment", "replicas": replicas});
        own("GatewayParameters", "edge", &spec)
    };
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "edge"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "edge"},
            // It scales up to the minimum without metrics, which the cluster does not have.
            "minReplicas": 2, "maxReplicas": 2,
        },
    });
    scope.apply(&[parameters(1)]).await?;
    has_replicas(scope, 1).await?;
    scope.apply(&[autoscaler]).await?;
    has_replicas(scope, 2).await?;
    scope.delete("HorizontalPodAutoscaler", "edge").await?;
    scope.apply(&[parameters(3)]).await?;
    has_replicas(scope, 3).await?;
    // One of the Gateway's, with a budget, which both change and go.
    for (least, budget) in [(2, "50%"), (4, "25%")] {
        let spec = json!({
            "autoscaling": {"minReplicas": least, "maxReplicas": 4},
            "disruptionBudget": {"maxUnavailable": budget},
            "resources": {"requests": {"cpu": "10m"}},
        });
        let scaled = own("GatewayParameters", "edge", &spec);
        scope.apply(&[scaled]).await?;
        has(
            scope,
            "HorizontalPodAutoscaler",
            "/spec/minReplicas",
            &json!(least),
        )
        .await?;
        has(
            scope,
            "PodDisruptionBudget",
            "/spec/maxUnavailable",
            &json!(budget),
        )
        .await?;
    }
    has_replicas(scope, 4).await?;
    scope.apply(&[parameters(1)]).await?;
    for kind in ["HorizontalPodAutoscaler", "PodDisruptionBudget"] {
        scope.wait_until_deleted(kind, "edge").await?;
    }
    has_replicas(scope, 1).await
}

/// Waits until the object `edge` of a kind has a value at this place.
async fn has(scope: &Scope, kind: &str, place: &str, value: &Value) -> Result<()> {
    let what = format!("{kind} edge to have {place} {value}");
    let found = async || {
        let object = scope.object(kind, "edge").await?;
        let found = object.as_ref().and_then(|it| it.pointer(place));
        Ok((found == Some(value)).then_some(()))
    };
    scope.until(&what, found).await
}

/// Waits until the proxies' Deployment wants this many replicas.
async fn has_replicas(scope: &Scope, replicas: u32) -> Result<()> {
    let what = format!("the proxies' Deployment to have {replicas} replicas");
    let wanted = async || {
        let edge = scope.object("Deployment", "edge").await?;
        let edge = edge.context("the proxies' Deployment is gone")?;
        Ok((edge["spec"]["replicas"] == replicas).then_some(()))
    };
    scope.until(&what, wanted).await
}

/// The name of a class that the test makes.
fn class_of(scope: &Scope) -> String {
    format!("class-of-{}", scope.namespace)
}

/// An object of each kind that has a status.
async fn open_everything(scope: &Scope) -> Result<EdgeGateway<'_>> {
    let more = object(
        "ListenerSet",
        "more",
        &json!({"parentRef": {"name": "edge"}, "listeners": [listener(8080, "HTTP")]}),
    );
    let trust = object(
        "BackendTLSPolicy",
        "trust",
        &json!({
            "targetRefs": [{"group": "", "kind": "Service", "name": "secure"}],
            "validation": {"hostname": HOST, "wellKnownCACertificates": "System"},
        }),
    );
    let to_edge =
        json!([{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge"}]);
    let limits = json!({"targetRefs": to_edge, "limits": {"headTimeout": "10s"}});
    let budget = json!({
        "apiVersion": "gateway.networking.x-k8s.io/v1alpha1", "kind": "XBackendTrafficPolicy",
        "metadata": {"name": "budget"},
        "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "secure"}], "retryConstraint": {}},
    });
    let class = json!({"controllerName": "gateway-system.io/controller"});
    let backend = json!({"addresses": [{"host": "127.0.0.1", "port": 9}]});
    let mut objects = vec![
        own(
            "GatewayParameters",
            "edge",
            &json!({"workload": "Deployment"}),
        ),
        own("TrafficPolicy", "limits", &limits),
        own("Backend", "own", &backend),
        object("GatewayClass", &class_of(scope), &class),
        service("secure", "echo", EchoProtocol::Http),
        more,
        trust,
        budget,
        route("TCPRoute", 7000, "bytes"),
        route("UDPRoute", 7001, "datagrams"),
    ];
    for (kind, port, name) in [
        ("TLSRoute", 7443, "sealed"),
        ("GRPCRoute", 8081, "calls"),
        ("HTTPRoute", 80, "secure"),
    ] {
        let mut route = route(kind, port, name);
        route["spec"]["hostnames"] = json!([format!("{name}.example.com")]);
        objects.push(route);
    }
    scope.apply(&objects).await?;
    EdgeGateway::open_with(scope, all_listeners(), 1).await
}

/// A Gateway with a listener of each protocol, and parameters.
fn all_listeners() -> Value {
    let passthrough = json!({"mode": "Passthrough"});
    let mut edge = gateway(&[
        listener(80, "HTTP"),
        listener(8081, "HTTP"),
        listener(7000, "TCP"),
        listener(7001, "UDP"),
        json!({"name": "port-7443", "port": 7443, "protocol": "TLS", "tls": passthrough}),
    ]);
    edge["spec"]["allowedListeners"] = json!({"namespaces": {"from": "Same"}});
    edge["spec"]["infrastructure"] = json!({"parametersRef": {
        "group": "gateway-system.io", "kind": "GatewayParameters", "name": "edge"}});
    edge
}

/// Rejects the Gateway's listener as one of its proxies, until the Gateway's status reports it.
async fn refuse_a_listener(site: &EdgeGateway<'_>, text: &str) -> Result<()> {
    let scope = site.scope;
    let tunnel = ControllerTunnel::open(scope).await?;
    let pod = pods(scope, "edge").await?.pop().context("a proxy")?;
    let token = token(scope, "edge", AUDIENCE, Some(&pod)).await?;
    let node = format!("{}/edge/{pod}", scope.namespace);
    let mut proxy = tunnel.connect(&token, &node).await?;
    proxy.refuse(Kind::Listener, "a test refuses it").await?;
    let refused = expected_condition("Programmed", "False", "Invalid");
    let reported = scope.condition("Gateway", "edge", refused).await;
    reported.with_context(|| format!("the {text} refusal"))?;
    drop(proxy);
    let works = expected_condition("Programmed", "True", "Programmed");
    scope.condition("Gateway", "edge", works).await.map(drop)
}

/// Has the proxies run as a DaemonSet and as a Deployment again, and deletes all.
async fn change_the_workload(scope: &Scope) -> Result<()> {
    for (workload, former) in [("DaemonSet", "Deployment"), ("Deployment", "DaemonSet")] {
        let parameters = own("GatewayParameters", "edge", &json!({"workload": workload}));
        scope.apply(&[parameters]).await?;
        scope.wait_until_deleted(former, "edge").await?;
    }
    let class = json!({"spec": {"gatewayClassName": "somebody-elses"}}).to_string();
    let change = [
        "patch",
        "gateway",
        "edge",
        "--type=merge",
        "--patch",
        &class,
    ];
    scope.kubectl(&change, "").await?;
    for kind in ["Deployment", "Service", "ServiceAccount", "ConfigMap"] {
        scope.wait_until_deleted(kind, "edge").await?;
    }
    Ok(())
}

/// A role of the controller.
async fn role(scope: &Scope, name: &str) -> Result<Value> {
    let own = ControlPlane::of(scope).scope;
    let role = own.kubectl(&["get", name, "--output=json"], "").await?;
    Ok(serde_json::from_str(&role)?)
}

/// The permissions of a role.
fn granted(role: &Value) -> Permissions {
    let mut granted = Permissions::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        for verb in texts(&rule["verbs"]) {
            let paths = texts(&rule["nonResourceURLs"]);
            granted.extend(paths.map(|path| format!("{verb} {path}")));
            for group in texts(&rule["apiGroups"]) {
                let resources = texts(&rule["resources"]);
                granted.extend(resources.map(|it| format!("{verb} {group}/{it}")));
            }
        }
    }
    granted
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    let values = list.as_array().into_iter().flatten();
    values.filter_map(Value::as_str)
}

/// The requests of the controller that the audit log holds.
#[derive(Default)]
struct Requests {
    /// In its own namespace.
    own: Permissions,
    /// In others, or in none.
    elsewhere: Permissions,
    forbidden: Permissions,
}

impl Requests {
    /// Those since this time; forbidden ones of these pods alone. Earlier tests remove a controller's
    /// permissions before it ends, and restart the API server, which forbids everything until it knows
    /// its roles.
    fn since(scope: &Scope, since: &str, pods: &[String]) -> Result<Self> {
        let log = scope.ours()?.audit_log();
        let log =
            fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))?;
        let mut requests = Self::default();
        for line in log.lines() {
            // The last line may be half written.
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let began = event["requestReceivedTimestamp"].as_str();
            if event["user"]["username"] == ACCOUNT && began.is_some_and(|began| began > since) {
                requests.add(&event, pods)?;
            }
        }
        Ok(requests)
    }

    fn add(&mut self, event: &Value, pods: &[String]) -> Result<()> {
        let requests = if event["annotations"]["authorization.k8s.io/decision"] != "allow" {
            let pod = event["user"]["extra"][POD_NAME][0].as_str();
            if !pods.iter().any(|it| Some(it.as_str()) == pod) {
                return Ok(());
            }
            &mut self.forbidden
        } else if event["objectRef"]["namespace"] == NAMESPACE {
            &mut self.own
        } else {
            &mut self.elsewhere
        };
        let verb = event["verb"].as_str().context("a request has a verb")?;
        let what = target(event)?;
        // Server-side apply needs both where the object is new.
        if event["responseStatus"]["code"] == 201 {
            requests.insert(format!("create {what}"));
        }
        requests.insert(format!("{verb} {what}"));
        Ok(())
    }
}

/// `GROUP/RESOURCE`, or a path.
fn target(event: &Value) -> Result<String> {
    let object = &event["objectRef"];
    let Some(resource) = object["resource"].as_str() else {
        let uri = event["requestURI"]
            .as_str()
            .context("a request has a URI")?;
        return Ok(uri.split('?').next().unwrap_or(uri).to_owned());
    };
    let group = object["apiGroup"].as_str().unwrap_or_default();
    Ok(match object["subresource"].as_str() {
        Some(part) => format!("{group}/{resource}/{part}"),
        None => format!("{group}/{resource}"),
    })
}
