//! Endpoints and the connections to them.

use admin::metrics::{Exposition, Labels};

use super::Scrape;
use super::table::Table;
use crate::names::Interned;
use crate::observe::counters::EndpointCounters;
use crate::tls::UpstreamTlsFailure;

impl Scrape<'_> {
    pub(super) fn upstreams(&self, out: &mut Exposition) {
        let named: Vec<Labels> = (self.snapshot.all_clusters())
            .map(|cluster| Labels::none().with("backend", &cluster.name))
            .collect();
        let connections =
            (self.snapshot.all_clusters()).map(|cluster| self.live.connections(cluster.id.into()));
        let connections: Vec<_> = connections.collect();
        let help = "Connections to a backend, by state.";
        let mut family = out.gauge("upstream_connections", help);
        for (labels, connections) in named.iter().zip(&connections) {
            let busy = connections.open.saturating_sub(connections.idle);
            family.number(&labels.with("state", "busy"), busy);
            family.number(&labels.with("state", "idle"), connections.idle);
        }
        let help = "Requests waiting for a connection.";
        let mut family = out.gauge("upstream_pending_requests", help);
        for (labels, connections) in named.iter().zip(&connections) {
            family.number(labels, connections.waiting);
        }
        self.endpoints(&named, out);
        self.health_checks(out);
        self.zones(out);
    }

    fn endpoints(&self, named: &[Labels], out: &mut Exposition) {
        let clusters = self.snapshot.all_clusters().zip(named);
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
        let is_out = (self.snapshot.all_clusters())
            .flat_map(|cluster| cluster.endpoints.iter().map(|it| cluster.is_probed_out(it)));
        for ((labels, live), is_out) in live.iter().zip(is_out) {
            family.fraction(labels, if is_out { 0.0 } else { live.health });
        }
        let mut family = out.gauge("endpoint_ejected", "Shards that have ejected the endpoint.");
        for (labels, live) in &live {
            family.number(labels, live.ejected_shards.into());
        }
        let mut family = out.gauge("endpoint_active_requests", "Requests in flight.");
        for (labels, live) in &live {
            family.number(labels, live.in_flight);
        }
        let table = Table {
            ids: super::table::ids(&ids),
            blocks: self.shards.iter().map(|shard| &shard.endpoints).collect(),
        };
        let help = "Connections opened.";
        table.counter(out, "upstream_connects", help, |it| it.connected.value());
        let help = "Failed connection attempts.";
        table.counter(out, "upstream_connect_failures", help, |it| {
            it.failed_connects.value()
        });
        let help = "Failed TLS handshakes with endpoints.";
        let mut family = out.counter("upstream_tls_failures", help);
        for (id, labels) in &table.ids {
            for why in UpstreamTlsFailure::ALL.iter().copied() {
                let count = table.sum(*id, |it: &EndpointCounters| it.tls_failures.of(why));
                // Most endpoints never have any.
                if count > 0 {
                    family.number(&labels.with("reason", why.reason()), count);
                }
            }
        }
    }
}
