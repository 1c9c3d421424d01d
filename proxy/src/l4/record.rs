//! The facts about a connection or UDP session for metrics and the access log.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use admin_types::trace::ConnectionFinished;
use rand::rngs::SmallRng;

use crate::config::{Bind, L4Rule, Listener, Snapshot};
use crate::exchange::Proxy;
use crate::failure::Failure;
use crate::names::Interned;
use crate::observe::access_log::{self, ConnectionEntry};
use crate::observe::series::{MethodClass, Owner, Series};
use crate::shard::Shard;
use crate::trace::{ConnectionBegun, Tracer};
use xds::model::AccessLog;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    /// TLS that is passed through; only the ClientHello is read.
    Tls,
    Udp,
}

impl Protocol {
    fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Udp => "UDP",
        }
    }
}

/// The facts about a connection.
pub(crate) struct ConnectionRecord<'a> {
    started: Instant,
    protocol: Protocol,
    server_name: Option<&'a str>,
    /// Access log and owner for connections without a rule.
    defaults: ListenerDefaults,
    rule: Option<Arc<L4Rule>>,
    pub(super) cluster: Option<(Interned, Arc<str>)>,
    pub(super) endpoint: Option<Arc<str>>,
    pub(super) connect_time: Option<Duration>,
    pub(super) retries: u32,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    /// Reports to active traces that match.
    pub(super) trace: Option<Box<Tracer>>,
}

/// Settings for connections without a rule.
struct ListenerDefaults {
    gateway: Arc<str>,
    listener: Option<(Interned, String)>,
    access_log: AccessLog,
}

impl<'a> ConnectionRecord<'a> {
    /// The record of a connection that begins now.
    pub(crate) fn begin(
        protocol: Protocol,
        server_name: Option<&'a str>,
        bind: &Bind,
        listener: Option<&Listener>,
    ) -> Self {
        let access_log = listener.map_or(&bind.access_log, |listener| &listener.access_log);
        Self {
            started: Instant::now(),
            protocol,
            server_name,
            defaults: ListenerDefaults {
                gateway: Arc::clone(&bind.gateway),
                listener: listener.map(|it| (it.id, it.key.as_str().to_owned())),
                access_log: access_log.clone(),
            },
            rule: None,
            cluster: None,
            endpoint: None,
            connect_time: None,
            retries: 0,
            bytes_in: 0,
            bytes_out: 0,
            trace: None,
        }
    }

    /// Starts traces that match the connection.
    #[cold]
    pub(crate) fn begin_trace(
        &mut self,
        proxy: &Proxy,
        client: IpAddr,
        snapshot: &Snapshot,
        (bind, listener): (&Bind, Option<&Listener>),
    ) {
        let begun = ConnectionBegun {
            protocol: self.protocol.as_str(),
            server_name: self.server_name,
            client,
            bind,
            configuration: snapshot.version,
            started: self.started,
        };
        self.trace = Tracer::begin_connection(&proxy.watches, &proxy.shard, &begun);
        if let Some(trace) = &self.trace {
            trace.listener(self.server_name.unwrap_or_default(), bind, listener);
            if let Some(listener) = listener {
                trace.connection_route(&listener.l4, self.server_name);
            }
        }
    }

    pub(super) fn takes(&mut self, shard: &Shard, rule: &Arc<L4Rule>) {
        shard.counters.routes.of(rule.id).active.up();
        self.rule = Some(Arc::clone(rule));
    }

    /// Counts and logs it.
    pub(super) fn finish(&self, shard: &Rc<Shard>, client: IpAddr, failure: Option<Failure>) {
        let duration = self.started.elapsed();
        self.count(shard, failure, duration);
        self.log(shard, client, failure, duration);
        self.end_trace(failure);
    }

    pub(crate) fn end_trace(&self, failure: Option<Failure>) {
        let Some(trace) = &self.trace else { return };
        let micros = self.started.elapsed().as_micros();
        trace.connection_finished(ConnectionFinished {
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            reason: failure.map(|failure| failure.to_string()),
            route: self.rule.as_ref().map(|rule| rule.name.to_string()),
            backend: self.cluster.as_ref().map(|(_, name)| name.to_string()),
            endpoint: self.endpoint.as_ref().map(ToString::to_string),
            retries: self.retries,
            duration_micros: u64::try_from(micros).unwrap_or(u64::MAX),
        });
    }

    fn count(&self, shard: &Shard, failure: Option<Failure>, duration: Duration) {
        let counters = &shard.counters;
        let owner = match (&self.rule, &self.defaults.listener) {
            (Some(rule), _) => {
                // Its id may belong to another rule by now.
                let Some(route) = counters.routes.read(rule.id) else {
                    return;
                };
                route.active.down();
                route.duration.observe(duration);
                route.bytes_in.add(self.bytes_in);
                route.bytes_out.add(self.bytes_out);
                route.retries.add(u64::from(self.retries));
                Owner::Route(rule.id)
            }
            (None, Some((listener, _))) => Owner::Listener(*listener),
            (None, None) => {
                if let Some(failure) = failure {
                    counters.refused.count(failure.kind);
                }
                return;
            }
        };
        counters.connections.count(&Series {
            owner,
            backend: self.cluster.as_ref().map(|(id, _)| *id),
            method: MethodClass::Other,
            status: None,
            reason: failure.map(|failure| failure.kind.into()),
        });
    }

    fn log(&self, shard: &Shard, client: IpAddr, failure: Option<Failure>, duration: Duration) {
        let rule = self.rule.as_deref();
        let log = rule.map_or(&self.defaults.access_log, |rule| &rule.access_log);
        let status = failure.map_or(0, |failure| failure.kind.status());
        let is_logged = |rng: &mut SmallRng| access_log::wants(log, status, duration, rng);
        if !shard.with_rng(is_logged) {
            return;
        }
        let listener = self.defaults.listener.as_ref();
        let line = ConnectionEntry {
            time: SystemTime::now() - duration,
            gateway: &self.defaults.gateway,
            listener: rule
                .map(|rule| &*rule.listener)
                .or(listener.map(|(_, key)| key.as_str())),
            route: rule.map(|rule| &*rule.name),
            backend: self.cluster.as_ref().map(|(_, name)| &**name),
            endpoint: self.endpoint.as_deref(),
            client,
            protocol: self.protocol.as_str(),
            server_name: self.server_name,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            duration,
            connect: self.connect_time,
            reason: failure.map(|failure| failure.kind),
            retries: self.retries,
        };
        shard
            .log
            .borrow_mut()
            .append(|out| line.write(log.format, out));
    }
}
