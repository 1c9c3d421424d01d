//! Byte-proxied connections and UDP sessions.

use std::collections::BTreeMap;

use admin::metrics::{Exposition, Labels};

use super::Scrape;
use super::names::Names;
use super::table::{Table, by_cause};
use crate::observe::series::Series;

impl Scrape<'_> {
    pub(super) fn connections(&self, names: &Names<'_>, out: &mut Exposition) {
        self.ended_sessions(names, out);
        let carried = names.carried.iter();
        let rules = Table {
            ids: carried.map(|it| (it.id, &it.with_protocol)).collect(),
            blocks: self.shards.iter().map(|shard| &shard.routes).collect(),
        };
        let help = "Open L4 connections and UDP sessions.";
        rules.gauge(out, "l4_active_sessions", help, |it| it.active.value());
        let help = "Duration of L4 connections and UDP sessions.";
        let name = "l4_session_duration_seconds";
        rules.histogram(out, name, help, |it| &it.duration);
        let help = "Bytes received from clients, in ended sessions.";
        rules.counter(out, "l4_received_bytes", help, |it| it.bytes_in.value());
        let help = "Bytes sent to clients, in ended sessions.";
        rules.counter(out, "l4_sent_bytes", help, |it| it.bytes_out.value());
        let dropped = self.shards.iter().map(|shard| &shard.dropped_datagrams);
        let help = "Datagrams dropped.";
        by_cause(out, "l4_dropped_datagrams", help, dropped);
    }

    fn ended_sessions(&self, names: &Names<'_>, out: &mut Exposition) {
        let mut sums: BTreeMap<Series, u64> = BTreeMap::new();
        for shard in self.shards {
            shard.connections.for_each(|series, count| {
                *sums.entry(series).or_default() += count;
            });
        }
        let help = "L4 connections and UDP sessions ended, by route, backend \
                    and reason of failure.";
        let mut family = out.counter("l4_sessions", help);
        for (series, count) in sums {
            let Some(labels) = names.carriers.get(&series.owner) else {
                continue;
            };
            let backend = series.backend.and_then(|id| names.backends.get(&id));
            let labels = labels.with("backend", backend.copied().unwrap_or_default());
            let reason = series.reason.map_or("", |reason| reason.as_str());
            family.number(&labels.with("reason", reason), count);
        }
        let overflow = self.sum(|shard| shard.connections.overflow());
        let help = "Sessions in no other series, because the limit of series is reached.";
        out.counter("l4_sessions_uncounted", help)
            .number(&Labels::none(), overflow);
    }
}
