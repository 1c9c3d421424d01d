//! How long it takes from a route's change to serving it: from the API server's answer to a write, to the
//! first response by the new rule, at the proxy's pod. Run by `e2e measure`.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hyper::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

use super::ControlPlane;
use super::proxy::pods;
use super::site::Site;
use crate::process::say;
use crate::test::http::Connection;
use crate::test::scope::Scope;

/// Writes at the same time while routes are created.
const WRITERS: usize = 8;

/// How long one change may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Between two requests of the client that waits for a change.
const POLL: Duration = Duration::from_micros(300);

/// Upper bounds of the classes of the histogram, in milliseconds.
const CLASSES: [f64; 9] = [2.0, 3.0, 5.0, 7.5, 10.0, 20.0, 50.0, 100.0, f64::INFINITY];

/// What is measured.
pub(crate) struct Plan {
    /// Numbers of routes that there are.
    pub(crate) routes: Vec<usize>,
    /// Changes at each of them.
    pub(crate) samples: usize,
    /// Changes of other routes per second meanwhile.
    pub(crate) churn: u32,
}

/// Measures, and prints a line and a histogram for each number of routes.
pub(in crate::test) async fn measure(scope: &Scope, plan: &Plan) -> Result<()> {
    Site::open(scope).await?;
    let routes = scope.objects("HTTPRoute")?;
    let proxy = pods(scope, "edge").await?.pop().context("a proxy")?;
    let proxies: Api<Pod> = scope.api();
    let proxy = proxies.get(&proxy).await?;
    let control_plane = ControlPlane::of(scope);
    let replica = control_plane.pods().await?.pop().context("a replica")?;
    let replicas: Api<Pod> = control_plane.scope.api();
    let replica = replicas.get(&replica).await?;
    let mut made = 0;
    for wanted in &plan.routes {
        create(&routes, made..*wanted).await?;
        made = made.max(*wanted);
        let mut client = Connection::over(scope.connect(&proxy, 80).await?).await?;
        serves(&mut client, made - 1, 0).await?;
        // Their statuses are written after that.
        scope
            .until("the statuses to be written", async || {
                let backlog = control_plane
                    .metric("gateway_controller_status_backlog")
                    .await?;
                Ok((backlog < 1.0).then_some(()))
            })
            .await?;
        let (before, began) = (both(&replica, &proxy)?, Instant::now());
        let mut took = changes(&routes, &mut client, made, plan).await?;
        let (after, elapsed) = (both(&replica, &proxy)?, began.elapsed());
        took.sort_unstable();
        let share = |of: usize| (after[of].cpu - before[of].cpu) / elapsed.as_secs_f64() * 100.0;
        say(&format!(
            "{made} routes, {} changes: p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, longest {:.1} ms; \
             controller {:.0} % CPU, {:.0} MB; proxy {:.0} % CPU, {:.0} MB",
            took.len(),
            at(&took, 0.5),
            at(&took, 0.9),
            at(&took, 0.99),
            at(&took, 1.0),
            share(0),
            after[0].memory / 1e6,
            share(1),
            after[1].memory / 1e6,
        ))?;
        say(&histogram(&took))?;
    }
    Ok(())
}

/// Changes one route after the other, each of them another, and waits for each. Returns how long each took.
async fn changes(
    routes: &Api<DynamicObject>,
    client: &mut Connection,
    made: usize,
    plan: &Plan,
) -> Result<Vec<Duration>> {
    let measured = async {
        let mut took = Vec::with_capacity(plan.samples);
        for sample in 1..=plan.samples {
            let number = (sample * 7_919 * 2) % (made + made % 2);
            change(routes, number, sample).await?;
            let written = Instant::now();
            serves(client, number, sample).await?;
            took.push(written.elapsed());
        }
        Ok(took)
    };
    tokio::select! {
        took = measured => took,
        failed = churn(routes, made, plan.churn) => Err(failed.context("other routes cannot be changed")),
    }
}

/// Changes routes of odd numbers, which are not measured, so often per second. Ends with an error alone.
async fn churn(routes: &Api<DynamicObject>, made: usize, per_second: u32) -> anyhow::Error {
    if per_second == 0 || made < 2 {
        return std::future::pending().await;
    }
    let mut due = interval(Duration::from_secs(1) / per_second);
    for state in 1.. {
        due.tick().await;
        let number = (state * 2 + 1) % (made - made % 2);
        if let Err(error) = change(routes, number, state).await {
            return error;
        }
    }
    std::future::pending().await
}

/// A route of one path, which tells its state by where it leads to.
fn route(number: usize, state: usize) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": format!("route-{number}")},
        "spec": {
            "parentRefs": [{"name": "edge"}], "hostnames": ["routes.example.com"],
            "rules": [{
                "matches": [{"path": {"value": format!("/{number}")}}],
                "filters": [{"type": "RequestRedirect",
                             "requestRedirect": {"hostname": format!("state-{state}")}}],
            }],
        },
    })
}

async fn create(routes: &Api<DynamicObject>, numbers: std::ops::Range<usize>) -> Result<()> {
    let params = PostParams::default();
    let mut under_way = JoinSet::new();
    for number in numbers {
        if under_way.len() >= WRITERS {
            under_way
                .join_next()
                .await
                .context("writes are under way")???;
        }
        let (routes, params) = (routes.clone(), params.clone());
        under_way.spawn(async move {
            let object = serde_json::from_value(route(number, 0))?;
            routes.create(&params, &object).await?;
            anyhow::Ok(())
        });
    }
    while let Some(done) = under_way.join_next().await {
        done??;
    }
    Ok(())
}

async fn change(routes: &Api<DynamicObject>, number: usize, state: usize) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": route(number, state)["spec"]}));
    let name = format!("route-{number}");
    routes.patch(&name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Asks until a route is in this state.
async fn serves(client: &mut Connection, number: usize, state: usize) -> Result<()> {
    let began = Instant::now();
    let expected = format!("http://state-{state}/{number}");
    loop {
        let answer = client
            .get("routes.example.com", &format!("/{number}"))
            .await?;
        if answer.status == StatusCode::FOUND && answer.header("location") == expected {
            return Ok(());
        }
        ensure!(
            began.elapsed() < PATIENCE,
            "route {number} answers {} {} and not {expected}",
            answer.status,
            answer.header("location")
        );
        sleep(POLL).await;
    }
}

fn at(sorted: &[Duration], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a few hundred samples"
    )]
    let place = (sorted.len() as f64 * share).ceil() as usize;
    let found = sorted.get(place.saturating_sub(1)).or(sorted.last());
    found.map_or(0.0, |it| it.as_secs_f64() * 1e3)
}

fn histogram(sorted: &[Duration]) -> String {
    let mut text = String::new();
    let mut rest = sorted;
    for class in CLASSES {
        let count = rest.partition_point(|it| it.as_secs_f64() * 1e3 <= class);
        rest = &rest[count..];
        if count > 0 {
            let name = if class.is_finite() {
                format!("≤ {class} ms")
            } else {
                "more".to_owned()
            };
            let bar = "#".repeat((count * 60).div_ceil(sorted.len()));
            // A String takes whatever is written.
            let _ = writeln!(text, "  {name:>9} {count:>5} {bar}");
        }
    }
    text.trim_end().to_owned()
}

/// What a process has used.
#[derive(Debug, Clone, Copy)]
struct Usage {
    /// Seconds.
    cpu: f64,
    /// Bytes.
    memory: f64,
}

/// Of the controller and of the proxy.
fn both(controller: &Pod, proxy: &Pod) -> Result<[Usage; 2]> {
    Ok([usage(controller, "controller")?, usage(proxy, "gateway")?])
}

/// Of the process of a pod with this name. The cluster's processes are this machine's.
fn usage(pod: &Pod, name: &str) -> Result<Usage> {
    let uid = pod.metadata.uid.as_deref().context("a pod has a UID")?;
    for entry in fs::read_dir("/proc")?.flatten() {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        if read("comm").trim() != name || !read("cgroup").contains(uid) {
            continue;
        }
        let stat = read("stat");
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split(' ')
            .collect();
        // utime, stime and rss: fields 14, 15 and 24 of proc_pid_stat(5); the third follows the name.
        let number = |field: usize| -> Result<f64> {
            let text = fields.get(field - 2).context("the field is missing")?;
            Ok(text.parse()?)
        };
        return Ok(Usage {
            cpu: (number(14)? + number(15)?) / TICKS,
            memory: number(24)? * PAGE,
        });
    }
    bail!("no process {name} of the pod {uid} was found")
}

/// Clock ticks per second, and bytes of a page, on every Linux that this runs on.
const TICKS: f64 = 100.0;
const PAGE: f64 = 4096.0;
