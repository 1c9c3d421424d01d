//! Many ListenerSets, each with an HTTPS listener for a host of its own, routes and a Service:
//! their cost, how long a change of one route takes, and how long after its start a controller
//! serves a change, beside the time that the API server needs to list the routes.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_lite::AsyncBufReadExt as _;
use kube::api::DeleteParams;
use rustls::pki_types::ServerName;
use serde_json::Value;

use super::route_scale::at_rest;
use super::settled::settled;
use crate::control_plane::cluster::Cluster;
use crate::control_plane::context::Context;
use crate::control_plane::http::Tls;
use crate::control_plane::meter::Meter;
use crate::control_plane::objects::{
    Parent, Route, address, certificate, listener_set, service, slice,
};
use crate::control_plane::peer::uids;
use crate::control_plane::prober::{LONG_PERIOD, Prober};
use crate::control_plane::record::{Measured, Propagation, millis};
use crate::control_plane::serving_gateway::ServingGateway;
use crate::control_plane::usage::processes;
use crate::stats::{Spread, count};
use crate::tls::Certificate;

/// Changes that are waited for.
const CHANGES: usize = 100;

/// Cold starts of the controller: one of them may meet a garbage collection of the API server.
const COLD_STARTS: usize = 5;

/// After a start of that length, no more are measured.
const LONG_START: Duration = Duration::from_mins(1);

/// How long a controller may take to end and to start.
const TIMEOUT: Duration = Duration::from_mins(5);

pub(super) async fn run(context: &Context<'_>) -> Result<Measured> {
    let site = ServingGateway::open(context).await?;
    let sets = Sets::plan(context, &site).await?;
    let client = sets.certificate.client(false)?;
    let meter = Meter::start(context).await?;
    let cluster = context.cluster;
    cluster.create_all(sets.secrets()?).await?;
    cluster.create_all(sets.objects(context)).await?;
    let created = Instant::now();
    let probe = async |set: usize, path: &str| -> Result<Prober> {
        let host = Sets::host(set);
        let tls: Tls = (ServerName::try_from(host.clone())?, Arc::clone(&client));
        let address = std::net::SocketAddr::new(site.address.ip(), 443);
        let prober = Prober::new(address, Some(tls))?;
        Ok(prober.until_served(&host, path).await?.0)
    };
    probe(sets.count - 1, "/0/state-0").await?;
    let served = created.elapsed();
    settled(context).await?;
    let mut measured = meter.stop().await?;
    measured.figure("ListenerSets", count(sets.count), "");
    measured.figure("routes", count(sets.count * sets.routes), "");
    measured.figure(
        "last one serves after its creation",
        served.as_secs_f64(),
        "s",
    );
    at_rest(context, &mut measured).await?;

    let started = Instant::now();
    for number in 1..=CHANGES {
        let set = number * 7_919 % sets.count;
        // The connection is opened before the change.
        let prober = probe(set, &format!("/1/state-{}", sets.state_before(number, set))).await?;
        let asking = prober.ask(Sets::host(set), format!("/1/state-{number}"));
        cluster.patch(&sets.route(set, 1, number)).await?;
        let written = Instant::now();
        let (_, outcome) = asking.end().await?;
        measured.changes.push(Propagation {
            at: (written - started).as_secs_f64(),
            took: millis(outcome.served.saturating_duration_since(written)),
        });
        for (error, times) in outcome.errors {
            *measured.errors.entry(error).or_insert(0) += times;
        }
    }
    measured.figure_changes();
    measured.figure("errors", measured.error_count(), "");
    let prober = probe(0, "/0/state-0").await?;
    cold_starts(context, &sets, prober, &mut measured).await?;
    Ok(measured)
}

async fn cold_starts(
    context: &Context<'_>,
    sets: &Sets,
    mut prober: Prober,
    measured: &mut Measured,
) -> Result<()> {
    let mut starts = Vec::new();
    for state in 1..=COLD_STARTS {
        settled(context).await?;
        let (took, next) = cold_start(context, sets, prober, state).await?;
        prober = next;
        starts.push(took);
        if took > LONG_START.as_secs_f64() {
            break;
        }
    }
    // Each list leaves garbage in the API server, which would slow down a start.
    let mut lists = Vec::new();
    for _ in 0..COLD_STARTS {
        lists.push(time_to_list_routes(context.cluster).await?.as_secs_f64());
    }
    let starts = Spread::of(starts).context("no cold start was measured")?;
    let lists = Spread::of(lists).context("no list was measured")?;
    let figures = [
        (
            "cold start of the controller to a change that serves",
            starts.median,
        ),
        ("shortest cold start", starts.min),
        ("longest cold start", starts.max),
        (
            "list of all routes, only received by the bench",
            lists.median,
        ),
    ];
    for (name, seconds) in figures {
        measured.figure(name, seconds, "s");
    }
    Ok(())
}

/// How long the list of all routes takes alone, for comparison.
async fn time_to_list_routes(cluster: &Cluster) -> Result<Duration> {
    let started = Instant::now();
    let request = http::Request::get("/apis/gateway.networking.k8s.io/v1/httproutes");
    let response = cluster
        .client
        .request_stream(request.body(Vec::new())?)
        .await;
    let mut body = pin!(response.context("cannot list routes")?);
    while let received = body.fill_buf().await?.len()
        && received > 0
    {
        body.consume(received);
    }
    Ok(started.elapsed())
}

/// Ends the controller, changes a route, and returns how long the next controller takes from its start to
/// serve that, with the prober.
async fn cold_start(
    context: &Context<'_>,
    sets: &Sets,
    prober: Prober,
    state: usize,
) -> Result<(f64, Prober)> {
    let (cluster, peer) = (context.cluster, context.peer);
    let before = peer.controllers(cluster).await?;
    let pods = cluster.api("v1", "Pod", Some(&peer.namespace));
    for pod in &before {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        pods.delete(name, &DeleteParams::default().grace_period(0))
            .await?;
    }
    let before = uids(&before);
    // It would still deliver the change.
    cluster
        .until("the controller to end", TIMEOUT, async || {
            Ok(processes(&before).is_empty().then_some(()))
        })
        .await?;
    cluster.patch(&sets.route(0, 0, state)).await?;
    let prober = prober.with_period(LONG_PERIOD);
    let asking = prober.ask(Sets::host(0), format!("/0/state-{state}"));
    let started = cluster
        .until("the controller to start", TIMEOUT, async || {
            let mut pods = uids(&peer.controllers(cluster).await?);
            pods.retain(|pod| !before.contains(pod));
            Ok((!processes(&pods).is_empty()).then(Instant::now))
        })
        .await?;
    let (prober, outcome) = asking.end().await?;
    peer.ready(cluster).await?;
    wait_for_status(cluster, &sets.route(0, 0, state)).await?;
    let took = outcome.served.checked_duration_since(started);
    let took = took.context("the change served before a controller was there")?;
    Ok((took.as_secs_f64(), prober))
}

/// Waits until the status of a route is that of its current version: a controller that was killed is still
/// the leader for some seconds, and statuses are compared only then.
async fn wait_for_status(cluster: &Cluster, route: &Value) -> Result<()> {
    let text = |field: &str| route["metadata"][field].as_str().unwrap_or_default();
    let version = route["apiVersion"].as_str().unwrap_or_default();
    let routes = cluster.api(version, "HTTPRoute", Some(text("namespace")));
    cluster
        .until("the status of a changed route", TIMEOUT, async || {
            let route = routes.get(text("name")).await?;
            let parents = route.data["status"]["parents"].as_array();
            let conditions = parents.into_iter().flatten().flat_map(|parent| {
                let conditions = parent["conditions"].as_array();
                conditions.into_iter().flatten()
            });
            let mut generations = conditions.map(|it| it["observedGeneration"].as_i64());
            let is_current = |it| it == route.metadata.generation;
            Ok(generations.any(is_current).then_some(()))
        })
        .await
}

/// The ListenerSets and their routes and Services.
struct Sets {
    namespaces: Vec<String>,
    count: usize,
    /// Routes of each set.
    routes: usize,
    gateway: Parent,
    certificate: Certificate,
    _folder: tempfile::TempDir,
}

impl Sets {
    async fn plan(context: &Context<'_>, site: &ServingGateway) -> Result<Self> {
        let mut namespaces = Vec::new();
        for _ in 0..context.sizes.namespaces {
            namespaces.push(context.cluster.namespace("bench-sets").await?);
        }
        let folder = tempfile::tempdir()?;
        Ok(Self {
            count: namespaces.len() * context.sizes.sets,
            namespaces,
            routes: context.sizes.routes_per_set,
            gateway: site.parent.clone(),
            certificate: Certificate::generate_for("*.sets.example.com", folder.path())?,
            _folder: folder,
        })
    }

    fn host(set: usize) -> String {
        format!("set-{set}.sets.example.com")
    }

    fn namespace(&self, set: usize) -> &str {
        let number = set % self.namespaces.len().max(1);
        self.namespaces.get(number).map_or("", String::as_str)
    }

    /// The certificate, in each namespace.
    fn secrets(&self) -> Result<Vec<Value>> {
        let chain = std::fs::read_to_string(&self.certificate.chain)?;
        let key = std::fs::read_to_string(&self.certificate.key)?;
        let secret = |namespace: &String| certificate(namespace, &chain, &key);
        Ok(self.namespaces.iter().map(secret).collect())
    }

    fn objects(&self, context: &Context<'_>) -> impl Iterator<Item = Value> {
        let backend = context.backend;
        (0..self.count).flat_map(move |set| {
            let (namespace, name) = (self.namespace(set), format!("set-{set}"));
            let endpoints = [address(backend.range, set)];
            let mut objects = vec![
                listener_set(namespace, &name, &Self::host(set), &self.gateway),
                service(namespace, &name),
                slice(namespace, &name, 0, &endpoints, backend.port),
            ];
            objects.extend((0..self.routes).map(|route| self.route(set, route, 0)));
            objects
        })
    }

    /// One route of a set, in one of its states, which differ in a path.
    fn route(&self, set: usize, route: usize, state: usize) -> Value {
        let (namespace, name) = (self.namespace(set), format!("set-{set}"));
        let parent = Parent {
            kind: "ListenerSet",
            namespace: namespace.to_owned(),
            name: name.clone(),
        };
        let route = Route {
            namespace,
            name: &format!("{name}-{route}"),
            parent: &parent,
            host: &Self::host(set),
            path: &format!("/{route}/state-{state}"),
            service: &name,
        };
        route.object()
    }

    /// The state before a change: that of the previous change of the same set, or the first.
    fn state_before(&self, number: usize, set: usize) -> usize {
        (1..number)
            .rev()
            .find(|earlier| earlier * 7_919 % self.count == set)
            .unwrap_or(0)
    }
}
