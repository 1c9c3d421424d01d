//! How often a request was tried, and whether it is tried again.

use std::time::{Duration, Instant};

use crate::config::{Cluster, Rule};
use crate::exchange::Exchange;
use crate::failure::{Failure, FailureKind};
use crate::upstream::retry::{Ending, NoRetry, Replay};
use crate::upstream::tries as upstream;

/// The tries of one request.
pub(crate) struct Tries<'a> {
    booked: upstream::Tries<'a>,
    /// Whether responses of some statuses are dropped for another try.
    retries_statuses: bool,
    /// Endpoints that a picker named beside the first one.
    others: Option<usize>,
    /// When the client's patience, as the rule has it, ends.
    pub(crate) until: Option<Instant>,
}

impl<'a> Tries<'a> {
    /// Books the request with its service.
    pub(crate) fn begin(exchange: &Exchange<'_>, rule: &'a Rule, cluster: &Cluster) -> Self {
        let (states, policy) = (&exchange.proxy.upstreams.endpoints, rule.retry.as_ref());
        Self {
            booked: upstream::Tries::begin(states, cluster, policy),
            retries_statuses: policy.is_some(),
            others: exchange
                .picked
                .as_ref()
                .and_then(|picked| picked.tries())
                .map(|tries| tries.saturating_sub(1)),
            until: patience(exchange, rule).map(|timeout| exchange.record.started + timeout),
        }
    }

    /// Whether a response of this status is dropped for another try; books that try.
    pub(crate) fn retries_status(&mut self, status: u16, replay: Replay) -> bool {
        self.retries_statuses && self.try_other(Ending::Answered(status), replay).is_ok()
    }

    /// Books another try after a failure.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn book(&mut self, kind: FailureKind, replay: Replay) -> Result<(), NoRetry> {
        self.try_other(Ending::Failed(kind), replay)
    }

    fn try_other(&mut self, ending: Ending, replay: Replay) -> Result<(), NoRetry> {
        if self.others == Some(0) {
            return Err(NoRetry::Exhausted);
        }
        self.booked.book(ending, replay)?;
        self.others = self.others.map(|others| others.saturating_sub(1));
        Ok(())
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// The request's time is over.
    pub(crate) async fn back_off(&self, exchange: &mut Exchange<'_>) -> Result<(), Failure> {
        exchange.record.retries = self.booked.retries();
        let mut wait = exchange.shard.with_rng(|rng| self.booked.backoff(rng));
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
