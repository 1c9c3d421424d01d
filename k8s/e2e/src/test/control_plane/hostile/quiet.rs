//! The quiet tenant, and the observation of all that must stay as it is: its requests, the time
//! that its changes take, its statuses, and the processes that serve it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures_lite::StreamExt as _;
use hyper::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::tenant::conditions;
use crate::test::control_plane::edge_gateway::{EdgeGateway, HOST, address, until};
use crate::test::control_plane::proxy::pods;
use crate::test::control_plane::{ControlPlane, NAMESPACE};
use crate::test::http::{self, Connection};
use crate::test::manifests::{gateway, listener, route};
use crate::test::scope::{self, Scope};

/// The shared Gateways: with io_uring where the kernel has it, and with epoll.
const GATEWAYS: [(&str, &str); 2] = [("edge", "Auto"), ("epoll", "Epoll")];

/// Of the proxies' readiness and metrics, and of the controller's health and metrics.
const PROXY_PORTS: [u16; 2] = [15_021, 15_020];
const CONTROLLER_PORTS: [u16; 2] = [9_093, 9_092];

/// Between two requests that look whether a change serves: the precision of the measurement.
const LOOK: Duration = Duration::from_millis(1);

/// Between two changes: the same load in all parts of a run.
const CHANGE: Duration = Duration::from_millis(60);

/// A change that takes longer than this failed.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The quiet tenant's Gateways, which others may attach routes and ListenerSets to.
pub(super) struct Quiet<'a> {
    scope: &'a Scope,
    sites: [SocketAddr; 2],
}

/// The time that changes took to serve, in the order of their length.
pub(super) struct Changes(Vec<Duration>);

/// The state of everything that the hostile tenant must not reach.
pub(super) struct Observation {
    /// Conditions of the quiet tenant's objects, by object.
    conditions: BTreeMap<String, Vec<Value>>,
    /// Restarts and resident memory in bytes of each pod.
    processes: BTreeMap<String, (i32, f64)>,
}

impl<'a> Quiet<'a> {
    /// Creates the Gateways with a route of everything, and waits until they serve.
    pub(super) async fn open(scope: &'a Scope) -> Result<Self> {
        let mut objects = Vec::new();
        for (name, driver) in GATEWAYS {
            objects.push(json!({
                "apiVersion": "gateway-system.io/v1alpha1", "kind": "GatewayParameters",
                "metadata": {"name": name}, "spec": {"driver": driver},
            }));
            objects.push(shared(name));
        }
        scope.apply(&objects).await?;
        EdgeGateway::open_with(scope, shared("edge"), 2).await?;
        let everything = at_both(route("HTTPRoute", 80, "echo"));
        scope.apply(&[moved("/0"), everything]).await?;
        let sites = [
            address(scope, "edge", 80).await?,
            address(scope, "epoll", 80).await?,
        ];
        for site in sites {
            until(scope, site, (HOST, "/"), StatusCode::OK).await?;
        }
        Ok(Self { scope, sites })
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sites.into_iter()
    }

    /// Changes a route while `is_wanted` of the number of changes so far, and measures from the event of
    /// a watch until both Gateways serve it: how long the API server takes is not the gateway's.
    pub(super) async fn changes(&self, is_wanted: impl Fn(usize) -> bool) -> Result<Changes> {
        let routes = self.scope.objects("HTTPRoute")?;
        let mut took = Vec::new();
        let mut ticks = interval(CHANGE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while is_wanted(took.len()) {
            ticks.tick().await;
            let path = format!("/moved-{}", took.len());
            let changed = change_path(&routes, &path).await?;
            for site in self.sites {
                is_served(site, &path, changed).await?;
            }
            took.push(changed.elapsed());
        }
        took.sort();
        Ok(Changes(took))
    }

    /// The addresses that probes go to.
    pub(super) async fn idle_targets(
        &self,
        control_plane: &ControlPlane,
    ) -> Result<Vec<SocketAddr>> {
        let mut targets = Vec::new();
        for (pod, is_controller) in self.processes(control_plane).await? {
            let ports = if is_controller {
                CONTROLLER_PORTS
            } else {
                PROXY_PORTS
            };
            let ip = scope::address(&pod)?.parse()?;
            targets.extend(ports.map(|port| SocketAddr::new(ip, port)));
        }
        Ok(targets)
    }

    /// Looks at everything.
    pub(super) async fn observe(&self, control_plane: &ControlPlane) -> Result<Observation> {
        let mut found = BTreeMap::new();
        for (kind, name) in [
            ("Gateway", "edge"),
            ("Gateway", "epoll"),
            ("HTTPRoute", "echo-80"),
        ] {
            let object = self.scope.object(kind, name).await?;
            let object = object.with_context(|| format!("{kind} {name} is gone"))?;
            let conditions = conditions(&object["status"]).filter(|it| !is_expected(it));
            let conditions = conditions.cloned().collect();
            found.insert(format!("{kind} {name}"), conditions);
        }
        let mut processes = BTreeMap::new();
        for (pod, is_controller) in self.processes(control_plane).await? {
            let namespace = if is_controller {
                NAMESPACE
            } else {
                &self.scope.namespace
            };
            let memory = resident_memory(&self.scope.within(namespace), &pod).await?;
            let name = pod.metadata.name.clone().unwrap_or_default();
            processes.insert(name, (restarts(&pod), memory));
        }
        Ok(Observation {
            conditions: found,
            processes,
        })
    }

    /// The pods of the proxies and of the controller, and which of the two each is.
    async fn processes(&self, control_plane: &ControlPlane) -> Result<Vec<(Pod, bool)>> {
        let mut found = Vec::new();
        let own: Api<Pod> = self.scope.api();
        for (gateway, _) in GATEWAYS {
            for name in pods(self.scope, gateway).await? {
                found.push((own.get(&name).await?, false));
            }
        }
        let theirs: Api<Pod> = self.scope.within(NAMESPACE).api();
        for name in control_plane.pods().await? {
            found.push((theirs.get(&name).await?, true));
        }
        Ok(found)
    }
}

/// Changes the path of the route `moved-80`, and waits for the event of a watch about it. Returns when that
/// came.
async fn change_path(routes: &Api<DynamicObject>, path: &str) -> Result<Instant> {
    let name = "moved-80";
    let before = routes.get(name).await?;
    let version = before.metadata.resource_version.unwrap_or_default();
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = routes.watch(&params, &version).await?.boxed_local();
    let patch = json!([{"op": "replace", "path": PATH, "value": path}]);
    let patch = Patch::Json::<()>(serde_json::from_value(patch)?);
    routes.patch(name, &PatchParams::default(), &patch).await?;
    loop {
        let event = timeout(TIMEOUT, events.next()).await;
        let event = event.context("the watch has no event of the change")?;
        let event = event.context("the watch ended")??;
        if let WatchEvent::Modified(object) = event
            && object.data.pointer(PATH).and_then(Value::as_str) == Some(path)
        {
            return Ok(Instant::now());
        }
    }
}

/// The field of a route that is changed.
const PATH: &str = "/spec/rules/0/matches/0/path/value";

/// The route that is changed: it redirects this path.
pub(super) fn moved(path: &str) -> Value {
    let mut moved = route("HTTPRoute", 80, "moved");
    moved["spec"]["rules"] = json!([{
        "matches": [{"path": {"value": path}}],
        "filters": [{"type": "RequestRedirect", "requestRedirect": {"hostname": "moved"}}],
    }]);
    at_both(moved)
}

/// A route at both Gateways.
fn at_both(mut route: Value) -> Value {
    route["spec"]["hostnames"] = json!([HOST]);
    route["spec"]["parentRefs"] = json!([{"name": "edge", "sectionName": "port-80"},
                                         {"name": "epoll", "sectionName": "port-80"}]);
    route
}

/// A Gateway of this name that namespaces share.
pub(super) fn shared(name: &str) -> Value {
    let mut made = gateway(&[listener(80, "HTTP")]);
    made["metadata"]["name"] = json!(name);
    made["spec"]["allowedListeners"] = json!({"namespaces": {"from": "All"}});
    made["spec"]["listeners"][0]["allowedRoutes"] = json!({"namespaces": {"from": "All"}});
    made["spec"]["infrastructure"] = json!({"parametersRef": {
        "group": "gateway-system.io", "kind": "GatewayParameters", "name": name}});
    made
}

/// Sends requests one after the other until one is redirected.
async fn is_served(site: SocketAddr, path: &str, changed: Instant) -> Result<()> {
    let stream = TcpStream::connect(site).await.context("cannot connect")?;
    let mut connection = Connection::over(Box::new(stream)).await?;
    loop {
        let answer = connection.get(HOST, path).await?;
        if answer.status == StatusCode::FOUND {
            return Ok(());
        }
        ensure!(
            answer.status == StatusCode::OK,
            "{path} answers {}",
            answer.status
        );
        if changed.elapsed() > TIMEOUT {
            bail!("{path} is not served after {} s", TIMEOUT.as_secs());
        }
        sleep(LOOK).await;
    }
}

/// Whether a condition of a shared Gateway may come with the tenant: that its ListenerSets ask for more than the
/// Gateway takes, which its owner is told, and that an API server on a busy machine does not respond.
fn is_expected(condition: &Value) -> bool {
    let message = condition["message"].as_str().unwrap_or_default();
    let is_slow = message.contains("the API server did not respond");
    condition["type"] == "ListenerLimitExceeded"
        || condition["type"] == "DeploymentFailed" && is_slow
}

async fn resident_memory(scope: &Scope, pod: &Pod) -> Result<f64> {
    let admin = scope.forward(pod, 15_000).await?;
    let memory = http::get(admin, "localhost", "/memory").await?;
    let memory: Value = serde_json::from_str(&memory)?;
    let resident = memory["process"]["rss"].as_f64();
    resident.context("memory of the process")
}

fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.as_ref();
    let containers = status.and_then(|it| it.container_statuses.as_ref());
    containers
        .into_iter()
        .flatten()
        .map(|it| it.restart_count)
        .sum()
}

impl Changes {
    fn quantile(&self, percent: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        let index = (self.0.len() * percent)
            .div_ceil(100)
            .saturating_sub(1)
            .min(last);
        self.0.get(index).copied().unwrap_or_default()
    }

    pub(super) fn check_no_slower(
        &self,
        calm: &Self,
        factor: f64,
        precision: Duration,
    ) -> Result<()> {
        ensure!(!self.0.is_empty(), "no change was served");
        let allowed = calm.quantile(99).mul_f64(factor).max(precision);
        let slowest = self.quantile(99);
        ensure!(
            slowest <= allowed,
            "changes took {self}, and {calm} beside writes of no effect"
        );
        Ok(())
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |percent| self.quantile(percent).as_secs_f64() * 1e3;
        let (count, median, p99, longest) = (self.0.len(), ms(50), ms(99), ms(100));
        write!(
            f,
            "p50 {median:.1} ms, p99 {p99:.1} ms, longest {longest:.1} ms of {count}"
        )
    }
}

impl Observation {
    /// Checks that no condition moved, no process restarted, and none takes much more memory.
    pub(super) fn check_undisturbed(&self, before: &Self, factor: f64, more: f64) -> Result<()> {
        for (object, conditions) in &self.conditions {
            let earlier = before.conditions.get(object);
            ensure!(
                earlier == Some(conditions),
                "the conditions of {object} changed from {earlier:?} to {conditions:?}"
            );
        }
        let names = |it: &Self| it.processes.keys().cloned().collect::<Vec<_>>();
        ensure!(names(self) == names(before), "pods were replaced");
        for (pod, (restarts, memory)) in &self.processes {
            let (earlier, least) = before.processes[pod];
            ensure!(
                *restarts == earlier,
                "{pod} restarted {} times",
                restarts - earlier
            );
            let allowed = least * factor + more;
            ensure!(
                *memory <= allowed,
                "{pod} takes {:.0} MB, and {:.0} MB before",
                memory / 1e6,
                least / 1e6
            );
        }
        Ok(())
    }
}
