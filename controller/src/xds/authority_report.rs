//! Reports whether the Secret of the certificate authority is valid: in metrics, and each problem once
//! in the log and as an Event of the Secret.

use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use prometheus_client::metrics::gauge::Gauge;
use tracing::{debug, warn};

use crate::context::Context;
use crate::leadership::Leadership;

pub(super) struct AuthorityReport {
    recorder: Recorder,
    leadership: Leadership,
    invalid: Gauge,
    expiry: Gauge,
    /// The problem reported last, unless it is solved.
    problem: Option<String>,
    /// Whether an Event tells of it.
    is_published: bool,
}

impl AuthorityReport {
    pub(super) fn register(context: &Context) -> Self {
        let reporter = Reporter {
            controller: context.args.controller_name.clone(),
            instance: Some(context.args.pod_name.clone()),
        };
        let (invalid, expiry) = (Gauge::default(), Gauge::default());
        context.metrics.register(|registry| {
            let help = "1 if the Secret of the xDS server's CA is invalid";
            registry.register("xds_ca_invalid", help, invalid.clone());
            let help = "When the CA of the xDS server expires, in seconds since 1970; 0 if unknown";
            registry.register("xds_ca_expiry_timestamp_seconds", help, expiry.clone());
        });
        Self {
            recorder: Recorder::new(context.client.clone(), reporter),
            leadership: context.leadership.clone(),
            invalid,
            expiry,
            problem: None,
            is_published: false,
        }
    }

    pub(super) fn valid(&mut self, not_after: SystemTime) {
        let seconds = not_after.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(seconds.as_secs()).unwrap_or(i64::MAX);
        self.expiry.set(seconds);
        self.invalid.set(0);
        self.problem = None;
    }

    /// Reports a problem unless it is the one reported last. The Event is repeated until it is published.
    pub(super) async fn invalid(&mut self, secret: &ObjectReference, problem: String) {
        self.invalid.set(1);
        if self.problem.as_ref() != Some(&problem) {
            warn!(%problem, "the CA of the xDS server is invalid");
            self.problem = Some(problem.clone());
            self.is_published = false;
        }
        if self.is_published || !self.leadership.is_leader() {
            return;
        }
        let event = Event {
            type_: EventType::Warning,
            reason: "InvalidCA".to_owned(),
            note: Some(problem),
            action: "ReadCA".to_owned(),
            secondary: None,
        };
        match self.recorder.publish(&event, secret).await {
            Ok(()) => self.is_published = true,
            Err(error) => debug!(%error, "an event could not be published, which is tried again"),
        }
    }
}
