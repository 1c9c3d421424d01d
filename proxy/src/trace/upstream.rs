//! Trace events of the upstream: selection, attempts, retries, and the response head.

use std::time::{Duration, Instant};

use admin_types::trace::{EndpointScore, Message, PolicyOutcome, Severity};
use xds::model::InvalidBackend;

use super::Tracer;
use crate::config::{Cluster, Endpoint, Hashed, Picker, Preference};
use crate::failure::Failure;
use crate::http::head::ResponseHead;
use crate::limits::TRACE_CANDIDATES;
use crate::names::Interned;
use crate::observe::picks::{PickResult, ReviewFailure};
use crate::policy::hash_key::RequestKey;
use crate::upstream::health::EndpointStates;
use crate::upstream::retry::NoRetryReason;

impl Tracer {
    /// The endpoint of an attempt, and the other candidates. `tried` has the earlier ones.
    #[cold]
    pub(crate) fn endpoint(
        &self,
        states: &EndpointStates,
        cluster: &Cluster,
        selected: Option<&Endpoint>,
        tried: &[Interned],
    ) {
        let scored = states.explain(&cluster.set, Instant::now(), TRACE_CANDIDATES);
        let locality = cluster.set.locality();
        let locality = locality.filter(|it| it.preference() != Preference::Nothing);
        let of = |id| cluster.endpoint(id);
        let endpoints = scored.into_iter().enumerate();
        let endpoints = endpoints.map(|(position, it)| EndpointScore {
            endpoint: of(it.endpoint.id).map_or_else(String::new, |it| it.name.to_string()),
            zone: of(it.endpoint.id).and_then(|it| Some(it.zone.as_ref()?.to_string())),
            preferred: locality.map(|it| it.distance(position) == Some(0)),
            weight: it.endpoint.weight.get(),
            score: it.score,
            health: it.report.health,
            latency_ms: it.report.latency.unwrap_or_default().as_secs_f64() * 1e3,
            in_flight: it.report.in_flight,
            ejected: it.report.ejected_for.is_some(),
            probed_out: it.is_probed_out,
            tried: tried.contains(&it.endpoint.id),
        });
        let message = Message::BackendSelection {
            backend: cluster.name.to_string(),
            unresolved: None,
            selected: selected.map(|endpoint| endpoint.name.to_string()),
            endpoints: endpoints.collect(),
            truncated: cluster.set.serving().len() > TRACE_CANDIDATES,
        };
        let severity = if selected.is_some() {
            Severity::Success
        } else {
            Severity::Error
        };
        self.emit(severity, message);
    }

    /// What the endpoint is chosen by, where requests are spread by hash.
    #[cold]
    pub(crate) fn hashed(&self, hashed: &Hashed, key: Option<(RequestKey, &str)>) {
        let (severity, outcome, detail) = if let Some((key, of)) = key {
            let detail = match hashed.table.slot(key) {
                (_, 0) => format!("by the {of}: there is no choice of endpoints"),
                (slot, slots) => format!("by the {of}: slot {slot} of {slots}"),
            };
            (Severity::Success, PolicyOutcome::Applied, detail)
        } else {
            let detail = "the request has none of the keys: it is balanced by load".to_owned();
            (Severity::Info, PolicyOutcome::Skipped, detail)
        };
        let message = Message::Policy {
            kind: "balance.hash".to_owned(),
            outcome,
            detail,
        };
        self.emit(severity, message);
    }

    /// The endpoint picker's response, and its duration.
    #[cold]
    pub(crate) fn picked(
        &self,
        picker: &Picker,
        named: &[&Endpoint],
        (result, error): (PickResult, Option<String>),
        took: Duration,
    ) {
        let result_text = match (result, error) {
            (PickResult::Picked, _) => {
                let names: Vec<&str> = named.iter().map(|endpoint| &*endpoint.name).collect();
                format!("named {}", names.join(", "))
            }
            (PickResult::Answered, _) => "answered the request itself".to_owned(),
            (PickResult::FailedOpen, error) => format!(
                "failed ({}): load balancing selects, as set by failureMode",
                error.unwrap_or_default()
            ),
            (PickResult::FailedClosed, error) => format!("failed ({})", error.unwrap_or_default()),
        };
        let (severity, outcome) = match result {
            PickResult::Picked | PickResult::Answered => {
                (Severity::Success, PolicyOutcome::Applied)
            }
            PickResult::FailedOpen => (Severity::Warn, PolicyOutcome::Skipped),
            PickResult::FailedClosed => (Severity::Error, PolicyOutcome::Skipped),
        };
        let micros = took.as_micros();
        let message = Message::Policy {
            kind: "endpointPicker".to_owned(),
            outcome,
            detail: format!("{} {result_text} after {micros} µs", picker.cluster.name),
        };
        self.emit(severity, message);
    }

    /// The endpoint picker failed after it had answered about the request.
    #[cold]
    pub(crate) fn review_failed(&self, picker: &Endpoint, result: ReviewFailure, error: &str) {
        let (severity, consequence) = match result {
            ReviewFailure::FailedOpen => (Severity::Warn, "continues without it"),
            ReviewFailure::FailedClosed => {
                (Severity::Error, "is cut short, or replaced by an error")
            }
        };
        let message = Message::Policy {
            kind: "endpointPicker".to_owned(),
            outcome: PolicyOutcome::Skipped,
            detail: format!(
                "{} failed during the response ({error}), which {consequence}",
                picker.name
            ),
        };
        self.emit(severity, message);
    }

    /// The selected backend does not resolve, so it has no endpoints.
    #[cold]
    pub(crate) fn unresolved(&self, named: Option<&str>, why: InvalidBackend) {
        let message = Message::BackendSelection {
            backend: named.unwrap_or_default().to_owned(),
            unresolved: Some(why.reason().to_owned()),
            selected: None,
            endpoints: Vec::new(),
            truncated: false,
        };
        self.emit(Severity::Error, message);
    }

    #[cold]
    pub(crate) fn attempt(&mut self) {
        self.attempts += 1;
        self.attempt_began = Instant::now();
    }

    /// The attempt has a connection: a pooled one, or a new one with its connect time.
    #[cold]
    pub(crate) fn connected(&self, endpoint: &Endpoint, took: Option<Duration>) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let message = Message::BackendCallStart {
            attempt: self.attempts,
            endpoint: endpoint.name.to_string(),
            reused: took.is_none(),
            connect_micros: took.map(micros),
        };
        self.emit_since(self.attempt_began, Severity::Info, message);
    }

    /// The attempt has ended, or has the response head.
    #[cold]
    pub(crate) fn attempted(
        &self,
        endpoint: &Endpoint,
        status: Option<u16>,
        failure: Option<Failure>,
    ) {
        let severity = match (failure, status) {
            (Some(_), _) => Severity::Error,
            (None, Some(500..)) => Severity::Warn,
            _ => Severity::Success,
        };
        let message = Message::BackendCallResult {
            attempt: self.attempts,
            endpoint: endpoint.name.to_string(),
            status,
            reason: failure.map(|failure| failure.to_string()),
        };
        self.emit_since(self.attempt_began, severity, message);
    }

    /// Whether the request is retried.
    #[cold]
    pub(crate) fn retry(&self, after: String, refused: Option<NoRetryReason>) {
        let (severity, reason) = match refused {
            None => (Severity::Warn, after),
            Some(why) => (Severity::Info, format!("{after}: {}", why.as_str())),
        };
        let retried = refused.is_none();
        self.emit(severity, Message::Retry { retried, reason });
    }

    /// The response head as received.
    #[cold]
    pub(crate) fn response(&self, head: &ResponseHead, bytes: &[u8]) {
        let message = Message::ResponseSnapshot {
            status: head.status,
            headers: self.headers(&head.fields, bytes),
        };
        self.emit(Severity::Info, message);
    }
}
