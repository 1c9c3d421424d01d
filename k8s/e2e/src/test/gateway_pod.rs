//! The data plane in a pod, configured by a ConfigMap.

use std::fs;
use std::sync::LazyLock;

use anyhow::{Context as _, Result, bail, ensure};
use hyper::StatusCode;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::http::Connection;
use super::load::Load;
use super::manifests::{EchoProtocol, GatewayPod, config_map, echo, http_to, on_node};
use super::scope::{Scope, address};
use super::{http, tls};
use crate::args::{ComponentArgs, StopArgs};
use crate::cluster::component::Component;
use crate::cluster::network_namespace::NetworkNamespace;
use crate::home;

/// Number of concurrent client connections.
const CLIENTS: usize = 16;

/// Concurrent connections of the tests of memory.
const MANY_CLIENTS: usize = 1_000;

/// Kubelet's default profile allows io_uring.
pub(super) async fn uses_io_uring_without_a_seccomp_profile(scope: &Scope) -> Result<()> {
    let pod = serve(scope, &GatewayPod::named(&scope.images, "gateway")).await?;
    expect_driver(scope, &pod, "io_uring").await
}

/// The container runtime's profile denies io_uring, and the pod falls back to epoll.
pub(super) async fn falls_back_to_epoll_under_runtime_default(scope: &Scope) -> Result<()> {
    let profile = json!({"type": "RuntimeDefault"});
    let pod = serve(
        scope,
        &GatewayPod::named(&scope.images, "gateway").seccomp(profile),
    )
    .await?;
    expect_driver(scope, &pod, "epoll").await
}

/// A namespace that enforces `restricted` admits this profile, and the pod uses io_uring.
pub(super) async fn uses_io_uring_under_the_installed_seccomp_profile(scope: &Scope) -> Result<()> {
    let cluster = scope.ours()?;
    let text = fs::read(home::repository().join("k8s/seccomp/gateway.json"))
        .context("cannot read the profile")?;
    for node in cluster.nodes() {
        let folder = cluster.folder_of(node).join("lib/kubelet/seccomp");
        fs::create_dir_all(&folder).context("cannot create the folder of profiles")?;
        fs::write(folder.join("gateway.json"), &text).context("cannot write the profile")?;
    }
    let enforced = "pod-security.kubernetes.io/enforce=restricted";
    scope
        .kubectl(&["label", "namespace", &scope.namespace, enforced], "")
        .await?;
    let profile = json!({"type": "Localhost", "localhostProfile": "gateway.json"});
    let gateway = GatewayPod::named(&scope.images, "gateway").seccomp(profile);
    let pod = serve(scope, &gateway).await?;
    expect_driver(scope, &pod, "io_uring").await
}

/// Port 443, with a certificate from a Secret in the ConfigMap; all other tests use port 80.
pub(super) async fn serves_tls_on_port_443(scope: &Scope) -> Result<()> {
    let backend = start_echo(scope).await?;
    let (secret, authority) = tls::certificate("shop.example.com")?;
    let mut objects = http_to(&backend)?;
    objects[0]["spec"]["listeners"] = json!([
        {"name": "https", "port": 443, "protocol": "HTTPS",
         "tls": {"certificateRefs": [{"name": "shop"}]}},
    ]);
    objects[1]["spec"]["parentRefs"] = json!([{"name": "edge"}]);
    objects.push(secret);
    let gateway = GatewayPod::named(&scope.images, "gateway");
    scope
        .apply(&[config_map(&objects), gateway.object()])
        .await?;
    let pod = scope.ready(gateway.name()).await?;
    let stream = scope.connect(&pod, 443).await?;
    let stream = tls::client(stream, "shop.example.com", authority).await?;
    http::get(stream, "shop.example.com", "/").await.map(drop)
}

/// A client that obeys `Connection: close` and follows a Service's endpoints sees no failure when a
/// gateway is replaced.
pub(super) async fn sigterm_under_load_loses_no_request(scope: &Scope) -> Result<()> {
    let backend = start_echo(scope).await?;
    let pod = |name| GatewayPod::named(&scope.images, name);
    let epoll = json!({"type": "RuntimeDefault"});
    let gateways = [
        pod("on-io-uring"),
        pod("on-epoll").seccomp(epoll),
        pod("remaining"),
    ];
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "edge"},
        "spec": {"selector": {"app": "gateway"}, "ports": [{"port": 80}]},
    });
    let objects = gateways.each_ref().map(GatewayPod::object);
    scope
        .apply(&[config_map(&http_to(&backend)?), service])
        .await?;
    scope.apply(&objects).await?;
    for gateway in &gateways {
        scope.ready(gateway.name()).await?;
    }
    let address = scope.service_address("edge").await?;
    let load = Load::start(address, CLIENTS);
    load.until_answers(50 * CLIENTS).await?;
    let pods: Api<Pod> = scope.api();
    for name in ["on-io-uring", "on-epoll"] {
        pods.delete(name, &DeleteParams::default()).await?;
        scope
            .until(&format!("pod {name} to be gone"), async || {
                Ok(pods.get_opt(name).await?.is_none().then_some(()))
            })
            .await?;
        load.until_answers(50 * CLIENTS).await?;
    }
    let counts = load.stop().await;
    ensure!(
        counts.failed.is_empty(),
        "of {} requests: {:?}",
        counts.answered,
        counts.failed
    );
    Ok(())
}

/// A shard throttled by the quota would stall all of its connections.
pub(super) async fn shards_follow_the_cpu_quota(scope: &Scope) -> Result<()> {
    let limited = json!({"requests": {"cpu": "10m"}, "limits": {"cpu": "1"}});
    let gateway = GatewayPod::named(&scope.images, "gateway").resources(limited);
    let pod = serve(scope, &gateway).await?;
    expect_shards(scope, &pod, 1).await?;

    let free = GatewayPod::named(&scope.images, "free");
    scope.apply(&[free.object()]).await?;
    let pod = scope.ready("free").await?;
    let node = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.node_name.clone())
        .context("a node")?;
    let nodes: Api<Node> = Api::all(scope.client.clone());
    let status = nodes
        .get(&node)
        .await?
        .status
        .context("a node has a status")?;
    let cpus: usize = status.capacity.context("a capacity")?["cpu"].0.parse()?;
    expect_shards(scope, &pod, cpus).await
}

/// With kubelet's static CPU policy, a shard is pinned to each exclusive CPU.
pub(super) async fn a_shard_is_bound_to_an_exclusive_cpu(scope: &Scope) -> Result<()> {
    let cluster = scope.ours()?;
    let node = *cluster.nodes().last().context("a cluster has nodes")?;
    let before = reconfigure_kubelet(scope, node, EXCLUSIVE_CPUS)?;
    let outcome = async {
        let resources = json!({"limits": {"cpu": "1", "memory": "64Mi"}});
        let gateway = GatewayPod::named(&scope.images, "gateway").resources(resources);
        let backend = start_echo(scope).await?;
        until_cpus_are_free(scope, &node.to_string()).await?;
        let object = on_node(gateway.object(), &node.to_string());
        scope
            .apply(&[config_map(&http_to(&backend)?), object])
            .await?;
        runtime(scope, &scope.ready(gateway.name()).await?).await
    };
    let outcome = outcome.await;
    reconfigure_kubelet(scope, node, &before)?;
    let runtime = outcome?;
    let cpus = runtime["cpus"].as_array().context("the dump has CPUs")?;
    ensure!(cpus.len() == 1, "expected one CPU: {runtime}");
    let shards = runtime["shards"]
        .as_array()
        .context("the dump has shards")?;
    ensure!(
        shards.len() == 1 && shards[0]["core"] == cpus[0],
        "expected one shard on it: {runtime}"
    );
    Ok(())
}

/// Waits until no pod of a node requests CPU time. Pods of an earlier test are still terminating,
/// and a pod that requests a whole CPU in that time is permanently rejected, with `OutOfcpu`.
async fn until_cpus_are_free(scope: &Scope, node: &str) -> Result<()> {
    let pods: Api<Pod> = Api::all(scope.client.clone());
    let there = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let what = format!("pods on {node} that request CPU time to be gone");
    scope
        .until(&what, async || {
            let pods = pods.list(&there).await?;
            let busy = pods.iter().any(requests_cpu);
            Ok((!busy).then_some(()))
        })
        .await
}

fn requests_cpu(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut resources = containers.filter_map(|container| container.resources.as_ref());
    resources.any(|resources| {
        let requests = resources.requests.as_ref();
        requests.is_some_and(|requests| requests.contains_key("cpu"))
    })
}

/// Kubelet's static CPU policy gives a container with a whole number of CPUs exclusive use of them.
const EXCLUSIVE_CPUS: &str = "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n";

/// Restarts a node's kubelet with these lines at the end of its configuration, and returns the
/// previous ones.
fn reconfigure_kubelet(scope: &Scope, node: NetworkNamespace, lines: &str) -> Result<String> {
    let cluster = scope.ours()?;
    let NetworkNamespace::Node(number) = node else {
        bail!("{node} has no kubelet");
    };
    let kubelet = || ComponentArgs {
        component: Component::Kubelet,
        node: number,
    };
    cluster.stop(&StopArgs {
        component: kubelet(),
        kill: false,
    })?;
    let file = cluster.folder_of(node).join("kubelet.yaml");
    let text = fs::read_to_string(&file).context("cannot read kubelet's configuration")?;
    let (common, own) = text.split_once(OWN_LINES).unwrap_or((&text, ""));
    fs::write(&file, format!("{common}{OWN_LINES}{lines}")).context("cannot write it")?;
    // Kubelet does not start if this file names another policy.
    let state = cluster
        .folder_of(node)
        .join("lib/kubelet/cpu_manager_state");
    fs::remove_file(state).context("kubelet keeps no state of CPUs")?;
    cluster.start(&kubelet())?;
    Ok(own.to_owned())
}

/// Marks the lines that a test appended.
const OWN_LINES: &str = "# Of a test:\n";

/// No request of a thousand clients is rejected.
pub(super) async fn many_clients_fit_into_the_memory_limit(scope: &Scope) -> Result<()> {
    let limited = json!({"limits": {"memory": "128Mi"}});
    let gateway = GatewayPod::named(&scope.images, "gateway").resources(limited);
    let pod = serve(scope, &gateway).await?;
    let load = Load::start(format!("{}:80", address(&pod)?).parse()?, MANY_CLIENTS);
    load.until_answers(5 * MANY_CLIENTS).await?;
    let counts = load.stop().await;
    ensure!(
        counts.failed.is_empty(),
        "of {} requests: {:?}",
        counts.answered,
        counts.failed
    );
    never_restarted(scope, gateway.name()).await
}

/// Clients that fill its buffers cause rejected requests, but the pod is not killed.
pub(super) async fn requests_are_rejected_before_the_pod_is_oom_killed(
    scope: &Scope,
) -> Result<()> {
    let limited = json!({"limits": {"memory": "64Mi"}});
    let gateway = GatewayPod::named(&scope.images, "gateway").resources(limited);
    let pod = serve(scope, &gateway).await?;
    let ask = async || {
        let stream = scope.connect(&pod, 80).await?;
        Connection::over(stream)
            .await?
            .get("shop.example.com", "/")
            .await
    };
    let mut heads = Vec::new();
    let refused = loop {
        let answer = ask().await?;
        if answer.status != StatusCode::OK {
            break answer;
        }
        ensure!(heads.len() < MANY_CLIENTS, "{} buffers fit", heads.len());
        let mut head = scope.connect(&pod, 80).await?;
        head.write_all(&LONG_HEAD).await?;
        heads.push(head);
    };
    ensure!(
        refused.status == StatusCode::SERVICE_UNAVAILABLE,
        "{refused:?}"
    );
    let metrics = http::get(scope.connect(&pod, 15_020).await?, "gateway", "/metrics").await?;
    let mut lines = metrics.lines();
    let is_counted = lines.any(|line| {
        line.starts_with("gateway_shard_shed_requests_total{")
            && line.contains("reason=\"buffers\"")
            && !line.ends_with(" 0")
    });
    ensure!(is_counted, "it was not counted: {metrics}");
    drop(heads);
    scope
        .until("requests to be served again", async || {
            Ok((ask().await?.status == StatusCode::OK).then_some(()))
        })
        .await?;
    never_restarted(scope, gateway.name()).await
}

/// The beginning of a request, which takes a large buffer.
static LONG_HEAD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut head = b"GET / HTTP/1.1\r\nHost: shop.example.com\r\nX-Long: ".to_vec();
    head.resize(30 << 10, b'x');
    head
});

async fn never_restarted(scope: &Scope, pod: &str) -> Result<()> {
    let pods: Api<Pod> = scope.api();
    let status = pods.get(pod).await?.status.context("a pod has a status")?;
    let containers = status.container_statuses.unwrap_or_default();
    let restarts: i32 = containers
        .iter()
        .map(|container| container.restart_count)
        .sum();
    ensure!(
        restarts == 0,
        "it was restarted {restarts} times: {containers:?}"
    );
    Ok(())
}

/// Starts an echo backend and a gateway in front of it, and checks that it serves.
pub(super) async fn serve(scope: &Scope, gateway: &GatewayPod) -> Result<Pod> {
    let backend = start_echo(scope).await?;
    scope
        .apply(&[config_map(&http_to(&backend)?), gateway.object()])
        .await?;
    let pod = scope.ready(gateway.name()).await?;
    let body = http::get(scope.connect(&pod, 80).await?, "shop.example.com", "/cart").await?;
    let echoed: Value = serde_json::from_str(&body).context("the backend answers in JSON")?;
    ensure!(
        echoed["host"] == "shop.example.com" && echoed["path"] == "/cart",
        "got {body}"
    );
    ensure!(echoed["pod"] == "echo", "another backend answered: {body}");
    Ok(pod)
}

pub(super) async fn start_echo(scope: &Scope) -> Result<Pod> {
    let mut echo = echo(&scope.images, "echo", EchoProtocol::Http);
    // Required by a namespace that enforces `restricted`.
    echo["spec"]["containers"][0]["securityContext"] = json!({
        "runAsNonRoot": true, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    scope.apply(&[echo]).await?;
    scope.ready("echo").await
}

/// A gateway's runtime dump.
async fn runtime(scope: &Scope, pod: &Pod) -> Result<Value> {
    let admin = scope.forward(pod, 15_000).await?;
    let body = http::get(admin, "localhost", "/config_dump?type=runtime").await?;
    let dump: Value = serde_json::from_str(&body).context("the dump is JSON")?;
    Ok(dump["runtime"].clone())
}

async fn expect_driver(scope: &Scope, pod: &Pod, driver: &str) -> Result<()> {
    let runtime = runtime(scope, pod).await?;
    let shards = runtime["shards"]
        .as_array()
        .context("the dump has shards")?;
    ensure!(!shards.is_empty(), "no shards: {runtime}");
    for shard in shards {
        // Its name, and how its ring is set up.
        let used = shard["driver"].as_str().unwrap_or_default();
        ensure!(used.starts_with(driver), "expected {driver}: {runtime}");
    }
    Ok(())
}

async fn expect_shards(scope: &Scope, pod: &Pod, expected: usize) -> Result<()> {
    let runtime = runtime(scope, pod).await?;
    let shards = runtime["shards"]
        .as_array()
        .context("the dump has shards")?;
    ensure!(
        shards.len() == expected,
        "expected {expected} shards: {runtime}"
    );
    Ok(())
}
