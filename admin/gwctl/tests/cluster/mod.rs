//! Gateways in a cluster: found by name, reached by port-forward, and the messages if they are not
//! found.

mod api_server;
mod port_forward;
mod status;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use self::api_server::ApiServer;
use crate::support::Gateway;

const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";

/// A cluster with Gateway `default/edge`, whose two ready pods are the same proxy, and pods that are not to
/// be used.
struct Cluster {
    api: ApiServer,
    proxy: Gateway,
}

impl Cluster {
    fn start() -> Self {
        let (api, proxy) = (ApiServer::start(), Gateway::start());
        api.put(GATEWAY_API, "gateways", gateway("default", "edge"));
        api.put("v1", "pods", pod("edge-a", "starting"));
        api.put("v1", "pods", pod("edge-b", "ready"));
        api.put("v1", "pods", pod("edge-c", "ready"));
        api.put("v1", "pods", pod("edge-d", "terminating"));
        for pod in ["edge-b", "edge-c"] {
            api.forward(pod, 15000, &proxy.admin);
            api.forward(pod, proxy.port, &format!("127.0.0.1:{}", proxy.port));
        }
        let labels = json!({"gateway.networking.k8s.io/gateway-name": "edge"});
        let metadata = json!({"name": "edge", "namespace": "default"});
        let selector = json!({"metadata": metadata, "spec": {"selector": labels}});
        api.put("v1", "services", selector);
        let selector = json!({"metadata": metadata, "spec": {"selector": {"matchLabels": labels},
            "template": {}}});
        api.put("apps/v1", "deployments", selector.clone());
        api.put("apps/v1", "daemonsets", selector);
        Self { api, proxy }
    }

    /// Runs a command line; returns its exit code, stdout and stderr.
    fn gwctl(&self, line: &str) -> (Option<i32>, String, String) {
        let kubeconfig = self.api.kubeconfig(&json!({}));
        run(
            &kubeconfig,
            &line.replace("PORT", &self.proxy.port.to_string()),
        )
    }

    fn stdout(&self, line: &str) -> String {
        let (code, out, err) = self.gwctl(line);
        assert_eq!(code, Some(0), "{line}: {err}");
        out
    }

    fn error(&self, line: &str) -> String {
        let (code, out, err) = self.gwctl(line);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{line}: {err}");
        err
    }
}

fn gwctl(kubeconfig: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gwctl"));
    command.env("KUBECONFIG", kubeconfig);
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        command.env_remove(proxy);
    }
    command
}

fn run(kubeconfig: &Path, line: &str) -> (Option<i32>, String, String) {
    let output = gwctl(kubeconfig)
        .args(line.split_whitespace())
        .output()
        .expect("it runs");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn gateway(namespace: &str, name: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name}, "kind": "Gateway",
        "spec": {"gatewayClassName": "gateway"}})
}

fn pod(name: &str, state: &str) -> Value {
    let time = "2026-01-01T00:00:00Z";
    let container = match state {
        "starting" => json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}),
        _ => json!({"running": {"startedAt": time}}),
    };
    let ready = if state == "ready" { "True" } else { "False" };
    json!({
        "metadata": {
            "name": name, "namespace": "default",
            "labels": {"gateway.networking.k8s.io/gateway-name": "edge"},
            "deletionTimestamp": (state == "terminating").then_some(time),
        },
        "spec": {"containers": [], "nodeName": "one"},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "gateway", "image": "", "imageID": "",
                "ready": state == "ready", "restartCount": 0, "state": container}],
        },
    })
}

#[test]
fn the_documented_commands_work() {
    let cluster = Cluster::start();
    let yaml = cluster.stdout("config all gateway/edge -n default -o yaml");
    assert!(yaml.contains("gateway: default/edge"), "{yaml}");
    let backends = cluster.stdout("config backends gateway/edge -n default");
    assert!(backends.starts_with("TYPE     NAME"), "{backends}");
    let trace = "trace gateway/edge -n default --port PORT -- http://shop.example/a";
    let text = cluster.stdout(trace);
    assert!(text.contains("GET shop.example/a"), "{text}");
    let lines = cluster.stdout(&trace.replace("--port", "--raw --port"));
    let last = lines.lines().last().expect("events");
    let last: Value = serde_json::from_str(last).expect("JSON Lines");
    assert_eq!(last["message"]["type"], "requestFinished");
    assert_eq!(last["message"]["status"], 200);
}

#[test]
fn a_gateway_is_found_by_every_resource_name() {
    let cluster = Cluster::start();
    for line in [
        "log",
        "log edge",
        "log gtw/edge",
        "log svc/edge",
        "log deploy/edge",
        "log ds/edge",
        "log pod/edge-b",
        "log --pod edge-b",
        "log edge --pod edge-c",
        "config routes",
        "config listeners edge",
        "config policies edge",
        "tasks edge",
        "memory edge",
        "profile heap edge -o -",
        "trace edge --port PORT --raw -- http://shop.example/",
        "version edge",
    ] {
        let out = cluster.stdout(line);
        assert!(!out.is_empty(), "{line}");
    }
    // The best of several pods is used, and named.
    let (_, _, err) = cluster.gwctl("log edge");
    assert_eq!(
        err,
        "Gateway default/edge has 2 pods; using edge-b (--pod chooses another)\n"
    );
    assert_eq!(cluster.gwctl("log pod/edge-b").2, "");
}

#[test]
fn a_diff_with_manifests_ignores_endpoint_slices() {
    let cluster = Cluster::start();
    let file = &cluster.proxy.file;
    let whole = std::fs::read_to_string(file).expect("our file");
    let (before, after) = whole
        .split_once("---\napiVersion: discovery")
        .expect("slices");
    let (_, after) = after.split_once("---\n").expect("more");
    let manifests = file.with_file_name("manifests.yaml");
    std::fs::write(&manifests, format!("{before}---\n{after}")).expect("a file");
    let line = format!("config diff --config {}", manifests.display());
    assert_eq!(cluster.stdout(&line), "no changes\n");
}

#[test]
fn every_pod_of_a_gateway_can_be_queried() {
    let cluster = Cluster::start();
    let levels = cluster.stdout("log edge --all-pods --level warn");
    assert_eq!(
        levels,
        "edge-b: current log level is warn\nedge-c: current log level is warn\n"
    );
    let backends = cluster.stdout("config backends --all-pods");
    assert_eq!(backends.matches("\nTYPE").count(), 2, "{backends}");
    assert!(backends.starts_with("pod edge-b\n"), "{backends}");
    let memory: Value =
        serde_json::from_str(&cluster.stdout("memory --all-pods -o json")).expect("JSON");
    assert!(memory["edge-c"]["process"]["rss"].is_u64(), "{memory}");
    let (code, _, err) = cluster.gwctl("tasks --all-pods --local");
    assert_eq!(code, Some(1));
    assert!(err.contains("--all-pods needs a cluster"), "{err}");
}

const ERRORS: &[(&str, &str)] = &[
    (
        "log nobody",
        "there is no Gateway default/nobody; there are: edge",
    ),
    (
        "log nobody -n empty",
        "other namespaces have: default/edge, shops/one, shops/two",
    ),
    (
        "log -n shops",
        "namespace shops has several Gateways; name one: one, two",
    ),
    (
        "log -n empty",
        "there is no Gateway in namespace empty; other namespaces have",
    ),
    (
        "log one -n shops",
        "has no pods; `gwctl status one -n shops` shows why",
    ),
    ("log svc/nobody", "there is no Service default/nobody"),
    ("log pod/nobody", "there is no pod default/nobody"),
    (
        "log edge --pod nobody",
        "has no pod nobody; its pods are: edge-a, edge-b",
    ),
    ("log pod/edge-a", "edge-a is ErrImagePull (no such image)"),
    ("log pod/edge-d", "edge-d is Terminating"),
    (
        "log edge --admin-port 15001",
        "127.0.0.1:15001: connect: connection refused",
    ),
    (
        "trace edge --port 7 -- http://h/",
        "has no listener on port 7",
    ),
    (
        "log --context nobody",
        "has no context nobody; it has: here, nowhere",
    ),
    (
        "log --context nowhere",
        "cannot reach the API server at http://127.0.0.1:1/",
    ),
    (
        "log --kubeconfig /nowhere",
        "cannot read the kubeconfig /nowhere",
    ),
    ("status pod/edge-b", "name one as [gateway/]NAME"),
];

#[test]
fn a_missing_object_is_explained() {
    let cluster = Cluster::start();
    for name in ["one", "two"] {
        let gateway = gateway("shops", name);
        cluster.api.put(GATEWAY_API, "gateways", gateway);
    }
    for (line, expected) in ERRORS {
        let err = cluster.error(line);
        assert!(err.contains(expected), "{line}: {err}");
    }
}

#[test]
fn missing_permissions_are_named() {
    let cluster = Cluster::start();
    cluster.api.forbid("/portforward");
    let err = cluster.error("log svc/edge");
    assert!(
        err.contains("verbs get and create on pods/portforward"),
        "{err}"
    );
    cluster.api.forbid("/gateways/edge");
    let err = cluster.error("log edge");
    assert!(
        err.contains("you may not read Gateway default/edge"),
        "{err}"
    );
}

#[test]
fn an_error_without_a_kubeconfig_lists_the_other_sources() {
    let home = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_gwctl"))
        .args(["config", "all"])
        .env_clear()
        .env("HOME", home.path())
        .output()
        .expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    for expected in ["no cluster", "KUBECONFIG", "--local", "--file"] {
        assert!(err.contains(expected), "{err}");
    }
}

#[test]
fn a_credential_plugin_logs_in() {
    let cluster = Cluster::start();
    cluster.api.require("secret");
    let plugin = |script: &str| {
        let user = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh", "args": ["-c", script], "interactiveMode": "Never"}});
        run(&cluster.api.kubeconfig(&user), "log edge")
    };
    let credential = |token: &str| {
        let credential = json!({"apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential", "status": {"token": token}});
        format!("echo '{credential}'")
    };
    let (code, out, err) = plugin(&credential("secret"));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("current log level"), "{out}");
    for (script, expected) in [
        (
            credential("stale").as_str(),
            "does not accept your credentials: log in again",
        ),
        ("echo please log in >&2; exit 3", "please log in"),
    ] {
        let (code, _, err) = plugin(script);
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains(expected), "{script}: {err}");
    }
}

#[test]
fn the_page_is_served_on_a_local_port() {
    let cluster = Cluster::start();
    let mut page = gwctl(&cluster.api.kubeconfig(&json!({})))
        .args(["page", "edge"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut line = String::new();
    let out = page.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let address = line
        .strip_prefix("http://")
        .and_then(|it| it.split('/').next());
    let mut stream = TcpStream::connect(address.expect("a URL")).expect("it listens");
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).expect("it reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    page.kill().expect("it runs");
    page.wait().expect("it ends");
    assert!(response.contains("<!doctype html>"), "{response:.300}");
}

#[test]
fn resource_names_of_the_cluster_are_completed() {
    let cluster = Cluster::start();
    let kubeconfig = cluster.api.kubeconfig(&json!({}));
    let completed = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let output = gwctl(&kubeconfig)
            .env("COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
            .env("_CLAP_IFS", "\n")
            .arg("--")
            .args(words)
            .output()
            .expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(completed("gwctl log ed"), "edge");
    assert_eq!(completed("gwctl log gateway/"), "gateway/edge");
    assert_eq!(completed("gwctl log pod/edge-b"), "pod/edge-b");
    assert_eq!(completed("gwctl log -n nowhere ed"), "");
    assert_eq!(completed("gwctl log --context no"), "nowhere");
    assert_eq!(completed("gwctl log --context nowhere ed"), "");
    let script = run(&kubeconfig, "completion bash").1;
    assert!(script.contains("COMPLETE=\"bash\""), "{script}");
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "observedGeneration": 1})
}
