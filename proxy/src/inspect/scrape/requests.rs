//! Requests by result, client connections, and rejected heads.

use std::collections::BTreeMap;

use admin::metrics::{Exposition, Labels};

use super::Scrape;
use super::names::Names;
use super::table::{Table, by_cause, by_reason, durations, ids};
use crate::observe::external_auth::AuthResult;
use crate::observe::hashes::HashResult;
use crate::observe::picks::{PickResult, ReviewFailure};
use crate::observe::series::Series;
use crate::policy::answer::{Decision, PageResult, PageSource};
use crate::policy::api_keys::KeyRefusal;
use crate::policy::authorization::Forbidden;
use crate::policy::basic_auth::PasswordRefusal;
use crate::policy::client_networks::Outside;
use crate::policy::path_rewrite::RewriteResult;

impl Scrape<'_> {
    pub(super) fn requests(&self, names: &Names<'_>, out: &mut Exposition) {
        let mut sums: BTreeMap<Series, u64> = BTreeMap::new();
        for shard in self.shards {
            shard.requests.for_each(|series, count| {
                *sums.entry(series).or_default() += count;
            });
        }
        let mut family = out.counter("requests", "Requests by route, backend and result.");
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
        let help = "Requests in no other series, because the limit of series is reached.";
        out.counter("requests_uncounted", help)
            .number(&Labels::none(), overflow);
    }

    pub(super) fn routes(&self, names: &Names<'_>, out: &mut Exposition) {
        let routes = Table {
            ids: ids(&names.routes),
            blocks: self.shards.iter().map(|shard| &shard.routes).collect(),
        };
        let name = "request_duration_seconds";
        let help = "Time from the request head to the end of the response.";
        routes.histogram(out, name, help, |it| &it.duration);
        let help = "Bytes of request bodies.";
        routes.counter(out, "request_bytes", help, |it| it.bytes_in.value());
        let help = "Bytes of response bodies.";
        routes.counter(out, "response_bytes", help, |it| it.bytes_out.value());
        let help = "Requests in flight.";
        routes.gauge(out, "active_requests", help, |it| it.active.value());
        // The metrics that byte-proxied rules have as well.
        let carried = names.carried.iter().map(|it| (it.id, &it.labels));
        let rules = Table {
            ids: routes.ids.into_iter().chain(carried).collect(),
            ..routes
        };
        let name = "upstream_connect_duration_seconds";
        let help = "Duration of connection attempts to endpoints, failed ones included.";
        rules.histogram(out, name, help, |it| &it.connect);
        let help = "Retries.";
        rules.counter(out, "retries", help, |it| it.retries.value());
    }

    pub(super) fn listeners(&self, names: &Names<'_>, out: &mut Exposition) {
        let binds = Table {
            ids: ids(&names.binds),
            blocks: self.shards.iter().map(|shard| &shard.binds).collect(),
        };
        let help = "Client connections accepted.";
        binds.counter(out, "connections_accepted", help, |it| it.accepted.value());
        let help = "Client connections open.";
        binds.gauge(out, "active_connections", help, |it| it.connections.value());
        let help = "Client connections closed because their client had as many as limits.clientConnections.";
        binds.counter(out, "connections_over_client_limit", help, |it| {
            it.client_limit_refusals.value()
        });
        let help = "Client connections closed when they were accepted, since networks that the Gateway enforces \
            refuse their address, by reason.";
        let mut family = out.counter("connections_refused_by_network", help);
        for (id, labels) in &binds.ids {
            for outside in Outside::ALL {
                let count = binds.sum(*id, |it| it.network_refusals.of(*outside));
                family.number(&labels.with("reason", outside.reason()), count);
            }
        }
        let help = "Streams open on HTTP/2 connections of clients.";
        binds.gauge(out, "active_streams", help, |it| it.streams.value());
        let listeners = Table {
            ids: ids(&names.listeners),
            blocks: self.shards.iter().map(|shard| &shard.listeners).collect(),
        };
        let help = "Requests in flight, including those without a route.";
        listeners.gauge(out, "listener_active_requests", help, |it| {
            it.requests.value()
        });
        self.handshakes(out);
    }

    fn handshakes(&self, out: &mut Exposition) {
        let help = "Successful TLS handshakes, by whether a session was resumed.";
        let mut family = out.counter("tls_handshakes", help);
        let full = self.sum(|shard| shard.handshakes.full.value());
        let resumed = self.sum(|shard| shard.handshakes.resumed.value());
        family.number(&Labels::none().with("kind", "full"), full);
        family.number(&Labels::none().with("kind", "resumed"), resumed);
        let help = "Failed TLS handshakes.";
        let shards = || self.shards.iter().map(|shard| &shard.handshakes);
        by_cause(
            out,
            "tls_handshakes_failed",
            help,
            shards().map(|it| &it.failed),
        );
        let help = "Client TLS connections ended by an error after the handshake.";
        by_cause(
            out,
            "tls_connections_broken",
            help,
            shards().map(|it| &it.broken),
        );
    }

    /// Results of JWT policies.
    pub(super) fn tokens(&self, out: &mut Exposition) {
        let help = "Requests checked by a JWT policy, by result.";
        let mut family = out.counter("jwt_results", help);
        let mut result = |result, reason, count| {
            let labels = Labels::none().with("result", result);
            family.number(&labels.with("reason", reason), count);
        };
        let verified = self.sum(|shard| shard.tokens.verified.value());
        result("allowed", "verified", verified);
        let cached = self.sum(|shard| shard.tokens.cached.value());
        result("allowed", "verified_before", cached);
        let absent = self.sum(|shard| shard.tokens.absent.value());
        result("allowed", "optional", absent);
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (refusal, count) in self.shards.iter().flat_map(|it| it.tokens.refused.iter()) {
            *sums.entry(refusal.reason()).or_default() += count;
        }
        for (reason, count) in sums {
            result("denied", reason, count);
        }
    }

    /// Results of API keys.
    pub(super) fn api_keys(&self, out: &mut Exposition) {
        let help = "Requests checked by API keys, by result.";
        let mut family = out.counter("api_key_results", help);
        let mut result = |result, reason, count| {
            let labels = Labels::none().with("result", result);
            family.number(&labels.with("reason", reason), count);
        };
        let known = self.sum(|shard| shard.api_keys.known.value());
        result("allowed", "known_key", known);
        // Other credentials decide.
        let absent = self.sum(|shard| shard.api_keys.absent.value());
        result("absent", "no_key", absent);
        for refusal in KeyRefusal::ALL {
            let count = self.sum(|shard| shard.api_keys.refused.of(*refusal));
            result("denied", refusal.reason(), count);
        }
    }

    /// Results of passwords.
    pub(super) fn passwords(&self, out: &mut Exposition) {
        let help = "Requests checked by passwords, by result.";
        let mut family = out.counter("basic_auth_results", help);
        let mut result = |result, reason, count| {
            let labels = Labels::none().with("result", result);
            family.number(&labels.with("reason", reason), count);
        };
        let checked = self.sum(|shard| shard.passwords.checked.value());
        result("allowed", "verified", checked);
        let known = self.sum(|shard| shard.passwords.known.value());
        result("allowed", "verified_before", known);
        // Other credentials decide, or none is needed.
        let absent = self.sum(|shard| shard.passwords.absent.value());
        result("absent", "no_password", absent);
        for refusal in PasswordRefusal::ALL {
            let count = self.sum(|shard| shard.passwords.refused.of(*refusal));
            result("denied", refusal.reason(), count);
        }
    }

    /// Results of authorization policies.
    pub(super) fn authorizations(&self, out: &mut Exposition) {
        let help = "Requests checked by an authorization policy, by result.";
        let mut family = out.counter("authorization_results", help);
        let mut result = |result, reason, count| {
            let labels = Labels::none().with("result", result);
            family.number(&labels.with("reason", reason), count);
        };
        let allowed = self.sum(|shard| shard.authorizations.allowed.value());
        result("allowed", "allowed", allowed);
        for forbidden in Forbidden::ALL {
            let count = self.sum(|shard| shard.authorizations.forbidden.of(*forbidden));
            result("denied", forbidden.reason(), count);
        }
    }

    /// Results of networks of clients.
    pub(super) fn networks(&self, out: &mut Exposition) {
        let help = "Requests, connections and datagrams without a session, checked by networks of clients, by result.";
        let mut family = out.counter("network_results", help);
        let mut result = |result, reason, count| {
            let labels = Labels::none().with("result", result);
            family.number(&labels.with("reason", reason), count);
        };
        let allowed = self.sum(|shard| shard.networks.allowed.value());
        result("allowed", "allowed", allowed);
        for outside in Outside::ALL {
            let count = self.sum(|shard| shard.networks.outside.of(*outside));
            result("denied", outside.reason(), count);
        }
    }

    /// Endpoints that were chosen by hash.
    pub(super) fn hashes(&self, out: &mut Exposition) {
        let help = "Requests, connections and sessions of datagrams that are spread by hash, by whether they went to the \
            endpoint of their key, to another one, or have no key.";
        let mut family = out.counter("hash_results", help);
        for result in HashResult::ALL {
            let count = self.sum(|shard| shard.hashes.of(*result));
            family.number(&Labels::none().with("result", result.reason()), count);
        }
    }

    /// What policies with answers decided.
    pub(super) fn responds(&self, out: &mut Exposition) {
        let help = "Requests that a policy with `respond` decided about, by result. `except_not_evaluated`: they \
            were answered, since its exception cannot be evaluated.";
        let mut family = out.counter("respond_results", help);
        for decision in Decision::ALL {
            let count = self.sum(|shard| shard.responds.of(*decision));
            family.number(&Labels::none().with("result", decision.reason()), count);
        }
    }

    /// Paths that policies rewrite.
    pub(super) fn path_rewrites(&self, out: &mut Exposition) {
        let help = "Requests that a policy with `pathRewrite` is for, by result. `refused`: with status 500, since the \
            new path is none that a backend may get.";
        let mut family = out.counter("path_rewrites", help);
        for result in RewriteResult::ALL {
            let count = self.sum(|shard| shard.path_rewrites.of(*result));
            family.number(&Labels::none().with("result", result.reason()), count);
        }
    }

    /// Pages in the place of the contents of errors.
    pub(super) fn error_pages(&self, out: &mut Exposition) {
        let help =
            "Errors whose content was replaced by a page of a policy, by the source of the error.";
        let mut family = out.counter("error_pages", help);
        for source in PageSource::ALL {
            let count = self.sum(|shard| shard.error_pages.of(*source));
            family.number(&Labels::none().with("source", source.reason()), count);
        }
    }

    /// Requests for pages to page servers.
    pub(super) fn page_requests(&self, out: &mut Exposition) {
        let help = "Errors whose page a server has, by result. Without `received`, they got a text of the gateway.";
        let mut family = out.counter("error_page_requests", help);
        for result in PageResult::ALL {
            let count = self.sum(|shard| shard.page_requests.of(*result));
            family.number(&Labels::none().with("result", result.reason()), count);
        }
    }

    /// Results of rate limits. A rule has one series of each result for all targets of its policy.
    pub(super) fn rate_limits(&self, out: &mut Exposition) {
        let mut rules = BTreeMap::new();
        for counter in &*self.snapshot.rate_limits {
            // Those of several targets share their counts.
            rules.insert((counter.policy(), counter.name()), counter.results());
        }
        let help = "Requests counted by a rule of a rate limit, by result. `replaced`: keys that were forgotten \
            although they owed something.";
        let mut family = out.counter("rate_limit", help);
        for ((policy, rule), results) in rules {
            let labels = Labels::none().with("policy", policy);
            let labels = labels.with("rule", rule);
            for (result, count) in results {
                family.number(&labels.with("result", result), count);
            }
        }
    }

    /// Results of endpoint pickers.
    pub(super) fn picks(&self, out: &mut Exposition) {
        let help = "Endpoint picker calls, by result.";
        let mut family = out.counter("endpoint_picks", help);
        for result in PickResult::ALL.iter().copied() {
            let count = self.sum(|shard| shard.picks.results.of(result));
            family.number(&Labels::none().with("result", result.reason()), count);
        }
        let help = "Responses whose endpoint picker failed, by result.";
        let mut family = out.counter("endpoint_picker_response_failures", help);
        for result in ReviewFailure::ALL.iter().copied() {
            let count = self.sum(|shard| shard.picks.review_failures.of(result));
            family.number(&Labels::none().with("result", result.reason()), count);
        }
        let help = "Duration of endpoint picker calls, including sending the request body.";
        let took = self.shards.iter().map(|it| &it.picks.took);
        durations(out, "endpoint_pick_duration_seconds", help, took);
    }

    /// Results of external authorization.
    pub(super) fn external_auth(&self, out: &mut Exposition) {
        let help = "External authorization calls, by result.";
        let mut family = out.counter("external_auth_results", help);
        for result in AuthResult::ALL.iter().copied() {
            let count = self.sum(|shard| shard.external_auth.results.of(result));
            family.number(&Labels::none().with("result", result.reason()), count);
        }
        let help = "Duration of external authorization calls.";
        let took = self.shards.iter().map(|it| &it.external_auth.took);
        durations(out, "external_auth_duration_seconds", help, took);
    }

    /// Rejected heads and connections.
    pub(super) fn refused(&self, out: &mut Exposition) {
        let shards = || self.shards.iter();
        let help = "Request heads rejected before a listener was selected.";
        by_cause(out, "refused", help, shards().map(|it| &it.refused));
        let help = "Connections closed because of their PROXY protocol header.";
        let failed = shards().map(|it| &it.proxy_headers);
        by_cause(out, "proxy_protocol_failed", help, failed);
        let help = "HTTP/2 connections closed because the client exceeded a flood limit.";
        by_cause(out, "http2_abuses", help, shards().map(|it| &it.abuses));
        let help = "HTTP/2 connections closed because the endpoint exceeded a flood limit.";
        let abuses = shards().map(|it| &it.upstream_abuses);
        by_cause(out, "upstream_http2_abuses", help, abuses);
        let help = "HTTP/2 client connections closed for a protocol error or oversized \
            header blocks, by error code; or ended within a frame.";
        let errors = shards().flat_map(|shard| shard.http2_errors.iter());
        by_reason(out, "http2_errors", help, errors);
        let failed = self.sum(|shard| shard.accept_errors.value());
        out.counter("accept_errors", "Failed accepts.")
            .number(&Labels::none(), failed);
    }
}
