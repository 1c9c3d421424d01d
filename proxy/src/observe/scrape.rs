//! The counters of all shards as metrics.
//!
//! Runs on a thread of the admin server. Label values come from the configuration and from closed
//! sets, so the number of series grows with the configuration alone. What belongs to routes,
//! listeners or endpoints that are gone is passed over.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use admin::Live;
use admin::metrics::{Exposition, Labels};

use super::counters::{Block, Blocks, Histogram, HistogramSum, ShardCounters};
use super::handshakes::HandshakeFailure;
use super::series::{Owner, Series};
use crate::config::Snapshot;
use crate::driver::DriverReport;
use crate::shard::interned::Interned;

/// All that metrics are made of.
pub struct Scrape<'a> {
    /// The configuration in force.
    pub snapshot: &'a Snapshot,
    /// What each shard counts.
    pub shards: &'a [Arc<ShardCounters>],
    /// What each shard runs on.
    pub drivers: &'a [Option<DriverReport>],
    /// How endpoints fare.
    pub live: &'a Live,
}

/// What of the configuration is named in labels, by id.
struct Names<'a> {
    binds: Vec<(Interned, Labels)>,
    listeners: Vec<(Interned, Labels)>,
    routes: Vec<(Interned, Labels)>,
    owners: HashMap<Owner, usize>,
    owner_labels: Vec<Labels>,
    backends: HashMap<Interned, &'a str>,
}

impl<'a> Names<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let mut names = Self {
            binds: Vec::new(),
            listeners: Vec::new(),
            routes: Vec::new(),
            owners: HashMap::new(),
            owner_labels: Vec::new(),
            backends: HashMap::new(),
        };
        for (id, bind) in (0..).zip(&snapshot.binds) {
            let Some(bind) = bind else { continue };
            let gateway = Labels::none().with("gateway", &bind.gateway);
            let labels = gateway.with("bind", bind.key.as_str());
            names.binds.push((Interned::bind(id), labels));
            for listener in &bind.listeners {
                let labels = gateway.with("listener", listener.key.as_str());
                names.own(Owner::Listener(listener.id), labels.with("route", ""));
                for rule in &listener.rules {
                    let labels = labels.with("route", &rule.name);
                    names.own(Owner::Route(rule.id), labels.clone());
                    names.routes.push((rule.id, labels));
                }
                names.listeners.push((listener.id, labels));
            }
        }
        let clusters = snapshot.clusters.iter();
        names.backends = clusters
            .map(|cluster| (cluster.id, &*cluster.name))
            .collect();
        names
    }

    fn own(&mut self, owner: Owner, labels: Labels) {
        self.owners.insert(owner, self.owner_labels.len());
        self.owner_labels.push(labels);
    }
}

impl Scrape<'_> {
    /// Writes all of them.
    pub fn write(&self, out: &mut Exposition) {
        let names = Names::of(self.snapshot);
        self.requests(&names, out);
        self.routes(&names, out);
        self.listeners(&names, out);
        self.upstreams(out);
        self.refused(out);
        self.process(out);
    }

    fn requests(&self, names: &Names<'_>, out: &mut Exposition) {
        let mut sums: BTreeMap<Series, u64> = BTreeMap::new();
        for shard in self.shards {
            shard.requests.for_each(|series, count| {
                *sums.entry(series).or_default() += count;
            });
        }
        let mut family = out.counter(
            "requests",
            "Requests, by who answered them and how they ended.",
        );
        for (series, count) in sums {
            let Some(owner) = names.owners.get(&series.owner) else {
                continue;
            };
            let backend = series.backend.and_then(|id| names.backends.get(&id));
            let mut labels = names.owner_labels[*owner].clone();
            labels.push("backend", backend.copied().unwrap_or_default());
            labels.push("method", series.method.as_str());
            match series.status {
                Some(status) => labels.push("status", &status.to_string()),
                None => labels.push("status", "other"),
            }
            labels.push("reason", series.reason.map_or("", |reason| reason.as_str()));
            family.number(&labels, count);
        }
        let overflow = self.sum(|shard| shard.requests.overflow());
        let help = "Requests that are counted nowhere else, for want of room.";
        out.counter("requests_uncounted", help)
            .number(&Labels::none(), overflow);
    }

    fn routes(&self, names: &Names<'_>, out: &mut Exposition) {
        let routes = Table {
            ids: &names.routes,
            blocks: self.shards.iter().map(|shard| &shard.routes).collect(),
        };
        let name = "request_duration_seconds";
        let help = "From a request's head to the end of its response.";
        routes.histogram(out, name, help, |it| &it.duration);
        let name = "upstream_connect_duration_seconds";
        let help = "Time to connect to an endpoint, or to fail at it.";
        routes.histogram(out, name, help, |it| &it.connect);
        let help = "Bytes of requests' bodies.";
        routes.counter(out, "request_bytes", help, |it| it.bytes_in.value());
        let help = "Bytes of responses' bodies.";
        routes.counter(out, "response_bytes", help, |it| it.bytes_out.value());
        let help = "Tries after the first.";
        routes.counter(out, "retries", help, |it| it.retries.value());
        let help = "Requests under way.";
        routes.gauge(out, "active_requests", help, |it| it.active.value());
    }

    fn listeners(&self, names: &Names<'_>, out: &mut Exposition) {
        let binds = Table {
            ids: &names.binds,
            blocks: self.shards.iter().map(|shard| &shard.binds).collect(),
        };
        let help = "Client connections accepted.";
        binds.counter(out, "connections_accepted", help, |it| it.accepted.value());
        let help = "Client connections open.";
        binds.gauge(out, "active_connections", help, |it| it.connections.value());
        let listeners = Table {
            ids: &names.listeners,
            blocks: self.shards.iter().map(|shard| &shard.listeners).collect(),
        };
        let help = "Requests under way, those without a route included.";
        listeners.gauge(out, "listener_active_requests", help, |it| {
            it.requests.value()
        });
        self.handshakes(out);
    }

    fn handshakes(&self, out: &mut Exposition) {
        let help = "TLS handshakes that succeeded, by whether they took up an earlier session.";
        let mut family = out.counter("tls_handshakes", help);
        let full = self.sum(|shard| shard.handshakes.full.value());
        let resumed = self.sum(|shard| shard.handshakes.resumed.value());
        family.number(&Labels::none().with("kind", "full"), full);
        family.number(&Labels::none().with("kind", "resumed"), resumed);
        let help = "TLS handshakes that failed.";
        let mut family = out.counter("tls_handshakes_failed", help);
        for why in HandshakeFailure::ALL {
            let failed = self.sum(|shard| shard.handshakes.failures(why));
            family.number(&Labels::none().with("reason", why.reason()), failed);
        }
    }

    fn upstreams(&self, out: &mut Exposition) {
        let clusters = &self.snapshot.clusters;
        let named: Vec<Labels> = clusters
            .iter()
            .map(|cluster| Labels::none().with("backend", &cluster.name))
            .collect();
        let connections = clusters
            .iter()
            .map(|cluster| self.live.connections(cluster.id.into()));
        let connections: Vec<_> = connections.collect();
        let help = "Connections to a backend, by what they do.";
        let mut family = out.gauge("upstream_connections", help);
        for (labels, connections) in named.iter().zip(&connections) {
            let busy = connections.open.saturating_sub(connections.idle);
            family.number(&labels.with("state", "busy"), busy);
            family.number(&labels.with("state", "idle"), connections.idle);
        }
        let help = "Requests that wait for a connection.";
        let mut family = out.gauge("upstream_pending_requests", help);
        for (labels, connections) in named.iter().zip(&connections) {
            family.number(labels, connections.waiting);
        }
        self.endpoints(&named, out);
    }

    fn endpoints(&self, named: &[Labels], out: &mut Exposition) {
        let clusters = self.snapshot.clusters.iter().zip(named);
        let endpoints = clusters.flat_map(|(cluster, labels)| {
            let endpoints = cluster.endpoints.iter();
            endpoints.map(move |it| (it.id, labels.with("endpoint", &it.name)))
        });
        let ids: Vec<(Interned, Labels)> = endpoints.collect();
        let live = ids
            .iter()
            .map(|(id, labels)| (labels, self.live.endpoint((*id).into())));
        let live: Vec<_> = live.collect();
        let mut family = out.gauge("endpoint_health", "From 0 (failing) to 1 (healthy).");
        for (labels, live) in &live {
            family.fraction(labels, live.health);
        }
        let mut family = out.gauge(
            "endpoint_ejected",
            "Shards that have put the endpoint aside.",
        );
        for (labels, live) in &live {
            family.number(labels, live.ejected_shards.into());
        }
        let mut family = out.gauge("endpoint_active_requests", "Requests under way.");
        for (labels, live) in &live {
            family.number(labels, live.in_flight);
        }
        let table = Table {
            ids: &ids,
            blocks: self.shards.iter().map(|shard| &shard.endpoints).collect(),
        };
        let help = "Connections made.";
        table.counter(out, "upstream_connects", help, |it| it.connected.value());
        let help = "Connections that could not be had.";
        table.counter(out, "upstream_connect_failures", help, |it| {
            it.failed_connects.value()
        });
    }

    /// What never became a request.
    fn refused(&self, out: &mut Exposition) {
        let shards = || self.shards.iter();
        let help = "Heads that never became a request of a listener.";
        let refused = shards().flat_map(|shard| shard.refused.iter());
        by_reason(
            out,
            "refused",
            help,
            refused.map(|(it, n)| (it.reason(), n)),
        );
        let help = "Connections closed over their PROXY protocol header.";
        let failed = shards().flat_map(|shard| shard.proxy_headers.iter());
        let failed = failed.map(|(it, n)| (it.reason(), n));
        by_reason(out, "proxy_protocol_failed", help, failed);
        let help = "HTTP/2 connections ended for what their peer did too often.";
        let abuses = shards().flat_map(|shard| shard.abuses.iter());
        by_reason(
            out,
            "http2_abuses",
            help,
            abuses.map(|(it, n)| (it.reason(), n)),
        );
        let help = "Datagrams dropped.";
        let dropped = shards().flat_map(|shard| shard.dropped_datagrams.iter());
        let dropped = dropped.map(|(it, n)| (it.reason(), n));
        by_reason(out, "datagrams_dropped", help, dropped);
        let failed = self.sum(|shard| shard.accept_errors.value());
        out.counter("accept_errors", "Accepts that failed.")
            .number(&Labels::none(), failed);
    }

    /// What each shard is at, and what runs.
    fn process(&self, out: &mut Exposition) {
        let now = Instant::now();
        let shard = |id: usize| Labels::none().with("shard", &id.to_string());
        let shards: Vec<_> = self
            .shards
            .iter()
            .enumerate()
            .map(|(id, it)| (shard(id), it))
            .collect();
        let mut family = out.gauge("shard_connections", "Client connections of a shard.");
        for (labels, counters) in &shards {
            family.number(labels, counters.clients.value());
        }
        let help = "Seconds since a shard's event loop last turned.";
        let mut family = out.gauge("shard_heartbeat_age_seconds", help);
        for (labels, counters) in &shards {
            family.fraction(labels, counters.heartbeat.age(now).as_secs_f64());
        }
        let mut family = out.counter("shard_panics", "Tasks that panicked.");
        for (labels, counters) in &shards {
            family.number(labels, counters.panics.value());
        }
        let help = "Times that accepting paused for want of descriptors.";
        let mut family = out.counter("shard_accept_pauses", help);
        for (labels, counters) in &shards {
            family.number(labels, counters.accept_paused.value());
        }
        let help = "Requests refused under overload.";
        let mut family = out.counter("shard_shed_requests", help);
        for (labels, counters) in &shards {
            family.number(labels, counters.shed.value());
        }
        let help = "How late a shard's event loop comes to its tick.";
        let mut family = out.histogram("shard_loop_lag_seconds", help);
        for (labels, counters) in &shards {
            let mut sum = HistogramSum::default();
            sum.merge(&counters.loop_lag);
            family.distribution(labels, &BOUNDS, &sum.buckets, seconds(&sum));
        }
        let mut family = out.gauge("shard_driver_info", "How a shard talks to the kernel.");
        for (id, report) in self.drivers.iter().enumerate() {
            let driver = report.as_ref().map_or("none", |report| report.driver);
            family.number(&shard(id).with("driver", driver), 1);
        }
        let help = "Number of the configuration in force.";
        out.gauge("configuration_number", help)
            .number(&Labels::none(), self.snapshot.version);
        let version = Labels::none().with("version", env!("CARGO_PKG_VERSION"));
        out.gauge("build_info", "The program's version.")
            .number(&version, 1);
    }

    fn sum(&self, of: impl Fn(&ShardCounters) -> u64) -> u64 {
        self.shards.iter().map(|shard| of(shard)).sum()
    }
}

/// A counter with a sample for each reason, over all shards.
fn by_reason(
    out: &mut Exposition,
    name: &'static str,
    help: &str,
    counts: impl Iterator<Item = (&'static str, u64)>,
) {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, count) in counts {
        *sums.entry(reason).or_default() += count;
    }
    let mut family = out.counter(name, help);
    for (reason, count) in sums {
        family.number(&Labels::none().with("reason", reason), count);
    }
}

/// Blocks of counters over all shards, with the labels of those that are named.
struct Table<'a, T> {
    ids: &'a [(Interned, Labels)],
    blocks: Vec<&'a Blocks<T>>,
}

impl<T: Block> Table<'_, T> {
    fn counter(
        &self,
        out: &mut Exposition,
        name: &'static str,
        help: &str,
        of: impl Fn(&T) -> u64,
    ) {
        let mut family = out.counter(name, help);
        for (id, labels) in self.ids {
            family.number(labels, self.sum(*id, &of));
        }
    }

    fn gauge(&self, out: &mut Exposition, name: &'static str, help: &str, of: impl Fn(&T) -> u64) {
        let mut family = out.gauge(name, help);
        for (id, labels) in self.ids {
            family.number(labels, self.sum(*id, &of));
        }
    }

    fn sum(&self, id: Interned, of: impl Fn(&T) -> u64) -> u64 {
        let blocks = self.blocks.iter().filter_map(|blocks| blocks.read(id));
        blocks.map(of).sum()
    }

    fn histogram(
        &self,
        out: &mut Exposition,
        name: &'static str,
        help: &str,
        of: impl Fn(&T) -> &Histogram,
    ) {
        let mut family = out.histogram(name, help);
        for (id, labels) in self.ids {
            let mut sum = HistogramSum::default();
            let blocks = self.blocks.iter().filter_map(|blocks| blocks.read(*id));
            blocks.for_each(|block| sum.merge(of(block)));
            // What never happened need not be shown in twenty lines.
            if sum.count() > 0 {
                family.distribution(labels, &BOUNDS, &sum.buckets, seconds(&sum));
            }
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a sum of seconds need not be exact to the µs"
)]
fn seconds(sum: &HistogramSum) -> f64 {
    sum.sum_micros as f64 / 1e6
}

/// The bounds of histograms in seconds, as text: `BOUNDS_MICROS`.
const BOUNDS: [&str; 16] = [
    "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1",
    "2.5", "5", "10", "30", "60",
];

#[cfg(test)]
mod tests {
    use super::BOUNDS;
    use crate::observe::counters::BOUNDS_MICROS;

    #[test]
    fn bounds_say_what_is_counted() {
        for (text, micros) in BOUNDS.iter().zip(BOUNDS_MICROS) {
            let seconds: f64 = text.parse().expect("a number");
            let micros = f64::from(u32::try_from(micros).expect("a minute at most"));
            assert!((seconds * 1e6 - micros).abs() < 1e-6, "{text}");
        }
    }
}
