//! How often a request was tried, and whether it is tried again.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::config::{Cluster, Rule};
use crate::failure::{Failure, FailureKind};
use crate::request::Exchange;
use crate::upstream::health::ServiceState;
use crate::upstream::retry::{
    Ending, NoRetry, Replay, RequestInFlight, RetryInFlight, backoff, may_retry,
};

/// The tries of one request.
pub(crate) struct Tries<'a> {
    rule: &'a Rule,
    cluster: &'a Cluster,
    service: Rc<ServiceState>,
    retries: u32,
    /// When the client's patience, as the rule has it, ends.
    pub(crate) until: Option<Instant>,
    retry: Option<RetryInFlight>,
    _request: RequestInFlight,
}

impl<'a> Tries<'a> {
    /// Books the request with its service.
    pub(crate) fn begin(exchange: &Exchange<'_>, rule: &'a Rule, cluster: &'a Cluster) -> Self {
        let service = exchange.shard.endpoints.service(cluster.id);
        Self {
            rule,
            cluster,
            retries: 0,
            until: patience(exchange, rule).map(|timeout| exchange.record.started + timeout),
            retry: None,
            _request: RequestInFlight::book(&service),
            service,
        }
    }

    /// Whether a response of this status is dropped for another try; books that try.
    pub(crate) fn retries_status(&mut self, status: u16, replay: Replay) -> bool {
        self.rule.retry.is_some() && self.ask(Ending::Answered(status), replay).is_ok()
    }

    /// Books another try after a failure.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn book(&mut self, kind: FailureKind, replay: Replay) -> Result<(), NoRetry> {
        self.ask(Ending::Failed(kind), replay)
    }

    fn ask(&mut self, ending: Ending, replay: Replay) -> Result<(), NoRetry> {
        // The one before is over, whatever becomes of this one.
        self.retry = None;
        let budget = self.cluster.retry_budget;
        let policy = self.rule.retry.as_ref();
        let booked = may_retry(policy, ending, self.retries, replay, &self.service, budget)?;
        self.retry = Some(booked);
        self.retries += 1;
        Ok(())
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// The request's time is over.
    pub(crate) async fn back_off(&self, exchange: &mut Exchange<'_>) -> Result<(), Failure> {
        exchange.record.retries = self.retries;
        let policy = self.rule.retry.as_ref();
        let mut wait = exchange
            .shard
            .with_rng(|rng| backoff(policy, self.retries, rng));
        if let Some(left) = self.left() {
            wait = wait.min(left);
        }
        if wait > Duration::ZERO {
            // In a box: the runtime's timer is large, and few requests are tried again.
            Box::pin(monoio::time::sleep(wait)).await;
        }
        match self.left() {
            Some(Duration::ZERO) => Err(FailureKind::RequestTimeout.into()),
            _ => Ok(()),
        }
    }

    fn left(&self) -> Option<Duration> {
        self.until
            .map(|until| until.saturating_duration_since(Instant::now()))
    }
}

/// For how long the client waits: as the rule has it, and as a call of gRPC says itself.
fn patience(exchange: &Exchange<'_>, rule: &Rule) -> Option<Duration> {
    let own = if exchange.record.is_grpc {
        exchange.received.grpc_timeout()
    } else {
        None
    };
    match (rule.request_timeout, own) {
        (Some(rule), Some(own)) => Some(rule.min(own)),
        (rule, own) => rule.or(own),
    }
}
