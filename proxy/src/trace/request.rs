//! Trace events of a request: start, listener and route, and end.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use admin::watch::RequestInfo;
use admin_types::trace::{
    Finished, ListenerCandidate, Message, Request, RouteCandidate, RouteOutcome, Severity,
};
use xds::secret;

use super::{Tracer, Watches, text};
use crate::config::{Bind, BindSettings, ChunkedEntries, Listener, PlacedRule, Rule};
use crate::failure::Failure;
use crate::http::head::{Fields, RequestHead, Version};
use crate::http::known::KnownHeader;
use crate::limits::TRACE_CANDIDATES;
use crate::policy::credentials::Credentials;
use crate::route::{ConsideredMatch, Mismatch, Outcome};

/// The start of a request.
pub(crate) struct RequestBegun<'a> {
    pub(crate) head: &'a RequestHead,
    /// The bytes that the head points into.
    pub(crate) bytes: &'a [u8],
    /// Normalised host and path, if valid.
    pub(crate) host: &'a [u8],
    pub(crate) path: &'a [u8],
    /// Its id, unless the request has one.
    pub(crate) id: &'a str,
    pub(crate) client: IpAddr,
    pub(crate) bind: &'a BindSettings,
    /// What is hidden of it.
    pub(crate) credentials: &'a Arc<Credentials>,
    /// Number of the configuration.
    pub(crate) configuration: u64,
    pub(crate) started: Instant,
}

impl Tracer {
    /// A tracer for a request that a watch matches.
    #[cold]
    pub(crate) fn begin_request(
        watches: &Watches,
        shard: u16,
        begun: &RequestBegun<'_>,
    ) -> Option<Box<Self>> {
        let (head, bytes) = (begun.head, begun.bytes);
        let sent_id = head.fields.value(KnownHeader::XRequestId, bytes);
        let request = RequestInfo {
            method: head.method.of(bytes),
            host: begun.host,
            path: begun.path,
            request_id: sent_id,
        };
        let id = sent_id.map_or_else(|| begun.id.to_owned(), text);
        let mut tracer = Self::begin(watches, shard, &request, id, begun.started)?;
        tracer.credentials = Arc::clone(begun.credentials);
        let start = Message::RequestStarted {
            client: begun.client.to_string(),
            bind: begun.bind.key.to_string(),
            configuration: begun.configuration,
        };
        tracer.emit_since(tracer.started, Severity::Info, start);
        let target = text(head.target.of(bytes));
        let snapshot = Request {
            method: text(head.method.of(bytes)),
            host: text(head.authority.of(bytes)),
            path: secret::target(&tracer.hides(&target)).into_owned(),
            protocol: match head.version {
                Version::Http10 => "HTTP/1.0",
                Version::Http11 => "HTTP/1.1",
                Version::Http2 => "HTTP/2",
            }
            .to_owned(),
            headers: tracer.headers(&head.fields, bytes),
        };
        tracer.emit(Severity::Info, Message::RequestSnapshot(snapshot));
        Some(Box::new(tracer))
    }

    /// The listener of the host.
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
        self.emit(found(selected.is_some()), message);
    }

    /// Most candidates that [`Self::route`] reports.
    pub(crate) const ROUTES: usize = TRACE_CANDIDATES;

    /// The rule of the request.
    #[cold]
    pub(crate) fn route(
        &self,
        rules: &ChunkedEntries<PlacedRule>,
        considered: &[ConsideredMatch<'_>],
        selected: Option<&Rule>,
    ) {
        let candidate = |it: &ConsideredMatch<'_>| {
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
        self.emit(found(selected.is_some()), message);
    }

    /// Header fields, with secret values masked.
    pub(super) fn headers(&self, fields: &Fields, bytes: &[u8]) -> Vec<(String, String)> {
        let shown = fields.iter().map(|field| {
            let (name, value) = (text(field.name.of(bytes)), text(field.value.of(bytes)));
            let value = if self.credentials.has_header(&name) {
                secret::MASK.to_owned()
            } else {
                secret::header_value(&name, &self.hides(&value)).into_owned()
            };
            (name, value)
        });
        shown.collect()
    }

    /// A text without the tokens in its query.
    fn hides<'t>(&self, text: &'t str) -> Cow<'t, str> {
        secret::parameters(text, &|name| self.credentials.has_parameter(name))
    }

    /// The end of the request.
    #[cold]
    pub(crate) fn request_finished(&self, finished: Finished, failure: Option<Failure>) {
        let severity = match (failure, finished.status) {
            (Some(_), _) | (None, 500..) => Severity::Error,
            (None, 400..) => Severity::Warn,
            (None, _) => Severity::Success,
        };
        self.settle_policies(finished.retries, failure);
        self.emit_since(self.started, severity, Message::RequestFinished(finished));
    }
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
        Mismatch::NotCompared => {
            "not compared: regular expressions take more work than a request may".to_owned()
        }
        Mismatch::Method(method) => format!("the method is not {method}"),
        Mismatch::HeaderMissing(name) => format!("there is no header {name}"),
        Mismatch::HeaderValue(name) => format!("the header {name} has another value"),
        Mismatch::QueryMissing(name) => format!("there is no query parameter {name}"),
        Mismatch::QueryValue(name) => format!("the query parameter {name} has another value"),
    }
}
