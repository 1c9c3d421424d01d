//! What is told of a request itself: how it came, listener and route, and how it ended.

use std::cell::RefCell;

use admin::watch::Offer;
use admin_types::secret;
use admin_types::trace::{
    Finished, ListenerCandidate, Message, Request, RouteCandidate, RouteOutcome, Severity,
};

use super::{Tracer, text};
use crate::config::{Bind, Listener, Rule};
use crate::failure::Failure;
use crate::http::head::{Fields, Version};
use crate::http::known::Known;
use crate::limits::TRACE_CANDIDATES;
use crate::request::{Exchange, Record};
use crate::route::{Considered, Mismatch, Outcome};

impl Tracer {
    /// A tracer for a request that somebody watches.
    #[cold]
    pub(crate) fn begin(exchange: &Exchange<'_>, host: &[u8], path: &[u8]) -> Option<Box<Self>> {
        let (received, shard) = (exchange.received, exchange.shard);
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        let sent_id = fields.value(Known::XRequestId, bytes);
        let claims = shard.watches.claim(&Offer {
            method: received.method(),
            host,
            path,
            request_id: sent_id,
        });
        if claims.is_empty() {
            return None;
        }
        let own_id = || {
            exchange
                .record
                .id
                .as_ref()
                .map_or("", |id| id.as_str())
                .to_owned()
        };
        let tracer = Self {
            claims,
            shard: shard.id,
            started: exchange.record.started,
            request_id: sent_id.map_or_else(own_id, text),
            attempts: 0,
            attempt_began: exchange.record.started,
            untold: RefCell::default(),
        };
        let start = Message::RequestStarted {
            client: exchange.client.hop.address().to_string(),
            bind: exchange.bind.key.to_string(),
            configuration: exchange.snapshot.version,
        };
        tracer.tell_since(tracer.started, Severity::Info, start);
        let target = text(received.head.target.of(bytes));
        let snapshot = Request {
            method: text(received.method()),
            host: text(received.authority()),
            path: secret::target(&target).into_owned(),
            protocol: match received.head.version {
                Version::Http10 => "HTTP/1.0",
                Version::Http11 => "HTTP/1.1",
                Version::Http2 => "HTTP/2",
            }
            .to_owned(),
            headers: headers(fields, bytes),
        };
        tracer.tell(Severity::Info, Message::RequestSnapshot(snapshot));
        Some(Box::new(tracer))
    }

    /// Which listener owns the host.
    #[cold]
    pub(crate) fn listener(&self, host: &str, bind: &Bind, selected: Option<&Listener>) {
        let is_selected =
            |it: &Listener| selected.is_some_and(|selected| std::ptr::eq(it, selected));
        let listeners = bind.listeners.iter().take(TRACE_CANDIDATES);
        let candidates = listeners.map(|listener| ListenerCandidate {
            listener: listener.key.to_string(),
            hostname: listener
                .hostname
                .as_ref()
                .map_or("*".to_owned(), ToString::to_string),
            selected: is_selected(listener),
        });
        let message = Message::ListenerSelection {
            host: host.to_owned(),
            selected: selected.map(|listener| listener.key.to_string()),
            candidates: candidates.collect(),
        };
        self.tell(found(selected.is_some()), message);
    }

    /// How many candidates [`Self::route`] takes.
    pub(crate) const ROUTES: usize = TRACE_CANDIDATES;

    /// Which rule serves the request.
    #[cold]
    pub(crate) fn route(
        &self,
        rules: &[Rule],
        considered: &[Considered<'_>],
        selected: Option<&Rule>,
    ) {
        let candidate = |it: &Considered<'_>| {
            let (outcome, reason) = match it.outcome {
                Outcome::Selected => (RouteOutcome::Selected, String::new()),
                Outcome::Shadowed => (
                    RouteOutcome::Shadowed,
                    "a more specific or older match serves the request".to_owned(),
                ),
                Outcome::Lost(mismatch) => (RouteOutcome::Lost, why(mismatch)),
            };
            let rule = rules.get(it.route as usize);
            RouteCandidate {
                route: rule.map_or_else(String::new, |rule| rule.name.to_string()),
                match_index: it.match_index,
                outcome,
                reason,
            }
        };
        let message = Message::RouteSelection {
            selected: selected.map(|rule| rule.name.to_string()),
            candidates: considered.iter().map(candidate).collect(),
            truncated: considered.len() >= TRACE_CANDIDATES,
        };
        self.tell(found(selected.is_some()), message);
    }

    /// How the request ended.
    #[cold]
    pub(crate) fn finished(&self, record: &Record<'_>, failure: Option<Failure>) {
        let micros =
            |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let severity = match (failure, record.status) {
            (Some(_), _) | (None, 500..) => Severity::Error,
            (None, 400..) => Severity::Warn,
            (None, _) => Severity::Success,
        };
        self.settle_policies(record, failure);
        let finished = Finished {
            status: record.status,
            reason: failure.map(|failure| failure.to_string()),
            route: record.rule.map(|rule| rule.name.to_string()),
            backend: record.cluster.map(|cluster| cluster.name.to_string()),
            endpoint: record.endpoint.map(|endpoint| endpoint.name.to_string()),
            bytes_in: record.bytes_in,
            bytes_out: record.bytes_out,
            retries: record.retries,
            upstream_micros: record.upstream_time.map(micros),
            duration_micros: micros(record.started.elapsed()),
        };
        self.tell_since(self.started, severity, Message::RequestFinished(finished));
    }
}

/// Header fields; the values that are secret are masked.
pub(super) fn headers(fields: &Fields, bytes: &[u8]) -> Vec<(String, String)> {
    let shown = fields.iter().map(|field| {
        let (name, value) = (text(field.name.of(bytes)), text(field.value.of(bytes)));
        let value = secret::header_value(&name, &value).into_owned();
        (name, value)
    });
    shown.collect()
}

pub(super) fn found(is_found: bool) -> Severity {
    if is_found {
        Severity::Success
    } else {
        Severity::Error
    }
}

fn why(mismatch: Mismatch<'_>) -> String {
    match mismatch {
        Mismatch::Host => "the host differs".to_owned(),
        Mismatch::Path => "the path differs".to_owned(),
        Mismatch::Method(method) => format!("the method is not {method}"),
        Mismatch::HeaderMissing(name) => format!("there is no header {name}"),
        Mismatch::HeaderValue(name) => format!("the header {name} has another value"),
        Mismatch::QueryMissing(name) => format!("there is no query parameter {name}"),
        Mismatch::QueryValue(name) => format!("the query parameter {name} has another value"),
    }
}
