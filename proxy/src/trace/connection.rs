//! Trace events of byte-proxied connections and UDP sessions.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use admin::watch::RequestInfo;
use admin_types::trace::{ConnectionFinished, Message, RouteCandidate, RouteOutcome, Severity};
use rand::RngExt;

use super::request::found;
use super::{Tracer, Watches};
use crate::config::{BindSettings, L4Routes, L4Rule};
use crate::limits::TRACE_CANDIDATES;
use crate::policy::client_networks::ClientNetworks;
use crate::policy::request_id::RequestId;
use crate::shard::Shard;

/// The start of a connection.
pub(crate) struct ConnectionBegun<'a> {
    /// `TCP`, `TLS` or `UDP`, in place of a method.
    pub(crate) protocol: &'static str,
    pub(crate) server_name: Option<&'a str>,
    pub(crate) client: IpAddr,
    pub(crate) bind: &'a BindSettings,
    /// Number of the configuration.
    pub(crate) configuration: u64,
    pub(crate) started: Instant,
}

impl Tracer {
    /// A tracer for a connection that a watch matches.
    #[cold]
    pub(crate) fn begin_connection(
        watches: &Watches,
        shard: &Shard,
        begun: &ConnectionBegun<'_>,
    ) -> Option<Box<Self>> {
        let request = RequestInfo {
            method: begun.protocol.as_bytes(),
            host: begun.server_name.unwrap_or_default().as_bytes(),
            path: b"",
            request_id: None,
        };
        // Generated: connections have no id of their own.
        let id = RequestId::new(shard.with_rng(RngExt::random));
        let id = id.as_str().to_owned();
        let tracer = Self::begin(watches, shard.id, &request, id, begun.started)?;
        let start = Message::ConnectionStarted {
            client: begun.client.to_string(),
            bind: begun.bind.key.to_string(),
            protocol: begun.protocol.to_owned(),
            server_name: begun.server_name.map(str::to_owned),
            configuration: begun.configuration,
        };
        tracer.emit_since(tracer.started, Severity::Info, start);
        Some(Box::new(tracer))
    }

    /// Reports a connection that is refused when it is accepted, before it can be one of a listener, to the watches
    /// that match it: by these networks, if they refuse it.
    #[cold]
    pub(crate) fn refused_connection(
        (watches, shard): (&Watches, &Shard),
        (bind, configuration): (&BindSettings, u64),
        client: IpAddr,
        (networks, reason): (Option<&Arc<ClientNetworks>>, &str),
    ) {
        let begun = ConnectionBegun {
            protocol: "TCP",
            server_name: None,
            client,
            bind,
            configuration,
            started: Instant::now(),
        };
        let Some(trace) = Self::begin_connection(watches, shard, &begun) else {
            return;
        };
        if let Some(networks) = networks {
            trace.networks(client, std::slice::from_ref(networks));
        }
        trace.connection_finished(ConnectionFinished {
            reason: Some(reason.to_owned()),
            ..ConnectionFinished::default()
        });
    }

    /// The rule of the connection.
    #[cold]
    pub(crate) fn connection_route(&self, rules: &L4Routes, server_name: Option<&str>) {
        let selected = rules.find(server_name);
        let mut is_found = false;
        let candidates = rules.iter().take(TRACE_CANDIDATES).map(|(hostname, rule)| {
            let is_match = hostname.is_none_or(|hostname| {
                server_name.is_some_and(|server_name| hostname.matches(server_name))
            });
            let is_selected =
                is_match && !is_found && selected.is_some_and(|it| Arc::ptr_eq(it, rule));
            is_found |= is_selected;
            candidate(rule, is_match, is_selected)
        });
        let message = Message::RouteSelection {
            selected: selected.map(|rule| rule.name.to_string()),
            candidates: candidates.collect(),
            truncated: rules.iter().nth(TRACE_CANDIDATES).is_some(),
        };
        self.emit(found(selected.is_some()), message);
    }

    /// The end of the connection.
    #[cold]
    pub(crate) fn connection_finished(&self, finished: ConnectionFinished) {
        let severity = if finished.reason.is_some() {
            Severity::Error
        } else {
            Severity::Success
        };
        let message = Message::ConnectionFinished(finished);
        self.emit_since(self.started, severity, message);
    }
}

fn candidate(rule: &L4Rule, is_match: bool, is_selected: bool) -> RouteCandidate {
    let (outcome, reason) = match (is_match, is_selected) {
        (_, true) => (RouteOutcome::Selected, ""),
        (true, false) => (
            RouteOutcome::Shadowed,
            "a more specific or older rule takes the connection",
        ),
        (false, false) => (RouteOutcome::Lost, "the server name differs"),
    };
    RouteCandidate {
        route: rule.name.to_string(),
        match_index: 0,
        outcome,
        reason: reason.to_owned(),
    }
}
