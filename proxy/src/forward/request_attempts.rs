//! Attempts of a request, and the decision to retry.

use std::time::{Duration, Instant};

use crate::config::{Cluster, Rule};
use crate::exchange::Exchange;
use crate::failure::{Failure, FailureKind};
use crate::limits::STALE_CONNECTIONS;
use crate::upstream::attempts as upstream;
use crate::upstream::retry::{AttemptOutcome, NoRetryReason, Replay};

/// The attempts of one request.
pub(crate) struct RequestAttempts<'a> {
    attempts: upstream::Attempts<'a>,
    /// Whether some response statuses are retried.
    retries_statuses: bool,
    /// Number of further endpoints named by a picker.
    others: Option<usize>,
    /// How often a reused connection was stale.
    stale: u32,
    /// Deadline of the request.
    pub(crate) until: Option<Instant>,
    /// The same, if the client chose it.
    own_deadline: Option<Instant>,
}

impl<'a> RequestAttempts<'a> {
    /// Registers the request with its service's retry budget.
    pub(crate) fn begin(exchange: &Exchange<'_>, rule: &'a Rule, cluster: &'a Cluster) -> Self {
        let (states, policy) = (&exchange.proxy.upstreams.endpoints, rule.retry.as_deref());
        let started = exchange.record.started;
        let own_timeout = own_timeout(exchange);
        let until = earlier(rule.request_timeout(), own_timeout).map(|timeout| started + timeout);
        let own_deadline = own_timeout.map(|timeout| started + timeout);
        Self {
            attempts: upstream::Attempts::begin(states, cluster, policy),
            retries_statuses: policy.is_some(),
            others: exchange
                .picked
                .as_ref()
                .and_then(|picked| picked.tries())
                .map(|tries| tries.saturating_sub(1)),
            stale: 0,
            until,
            own_deadline: own_deadline.filter(|own| until == Some(*own)),
        }
    }

    /// Whether the client chose this deadline of an attempt.
    pub(crate) fn is_own_deadline(&self, until: Instant) -> bool {
        self.own_deadline == Some(until)
    }

    /// Registers a retry after a response of this status.
    ///
    /// # Errors
    ///
    /// The request is not retried; contains the reason.
    pub(crate) fn reserve_retry_of_status(
        &mut self,
        status: u16,
        replay: Replay,
    ) -> Result<(), NoRetryReason> {
        if !self.retries_statuses {
            return Err(NoRetryReason::NotConfigured);
        }
        self.try_other(AttemptOutcome::Answered(status), replay)
    }

    /// Registers a retry after a failure.
    ///
    /// # Errors
    ///
    /// The request is not retried; contains the reason.
    pub(crate) fn reserve_retry_of_failure(
        &mut self,
        kind: FailureKind,
        replay: Replay,
    ) -> Result<(), NoRetryReason> {
        self.try_other(AttemptOutcome::Failed(kind), replay)
    }

    fn try_other(&mut self, ending: AttemptOutcome, replay: Replay) -> Result<(), NoRetryReason> {
        if self.others == Some(0) {
            return Err(NoRetryReason::Exhausted);
        }
        self.attempts.reserve_retry(ending, replay)?;
        self.others = self.others.map(|others| others.saturating_sub(1));
        Ok(())
    }

    /// Counts a reused connection that was stale. Whether the request may be sent again for it, without
    /// being a retry: the endpoint has not seen it.
    pub(crate) fn note_stale(&mut self) -> bool {
        self.stale += 1;
        self.stale <= STALE_CONNECTIONS
    }

    /// Whether a connection was stale: others may be as well.
    pub(crate) fn was_stale(&self) -> bool {
        self.stale > 0
    }

    /// Waits before the retry.
    ///
    /// # Errors
    ///
    /// The request's deadline has passed.
    pub(crate) async fn back_off(&self, exchange: &mut Exchange<'_>) -> Result<(), Failure> {
        exchange.record.retries = self.attempts.retries();
        let mut wait = exchange.shard.with_rng(|rng| self.attempts.backoff(rng));
        if let Some(left) = self.left() {
            wait = wait.min(left);
        }
        if wait > Duration::ZERO {
            // Boxed: the runtime's timer is large, and retries are rare.
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

/// The timeout that the client of a gRPC call chose.
fn own_timeout(exchange: &Exchange<'_>) -> Option<Duration> {
    exchange
        .received
        .grpc_timeout()
        .filter(|_| exchange.record.is_grpc)
}

/// The earlier of two timeouts or deadlines.
pub(super) fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
