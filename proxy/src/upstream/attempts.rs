//! The attempts of one request or connection at the endpoints of a service.

use std::rc::Rc;
use std::time::Duration;

use rand::Rng;
use xds::model::Retry;

use super::health::{EndpointStates, ServiceState};
use super::retry::{
    AttemptOutcome, NoRetryReason, Replay, RequestInFlight, RetryInFlight, backoff, may_retry,
};
use crate::config::{Cluster, RetryLimit};

/// Counts attempts, and decides on retries.
pub(crate) struct Attempts<'a> {
    policy: Option<&'a Retry>,
    limit: &'a RetryLimit,
    service: Rc<ServiceState>,
    retries: u32,
    retry: Option<RetryInFlight>,
    _request: RequestInFlight,
}

impl<'a> Attempts<'a> {
    /// Registers a request with its service. Without a policy it is retried only if no endpoint has
    /// received it.
    pub(crate) fn begin(
        states: &EndpointStates,
        cluster: &'a Cluster,
        policy: Option<&'a Retry>,
    ) -> Self {
        let service = states.service(cluster.id);
        Self {
            policy,
            limit: &cluster.retry_limit,
            retries: 0,
            retry: None,
            _request: RequestInFlight::begin(&service, &cluster.retry_limit),
            service,
        }
    }

    /// Registers a retry.
    ///
    /// # Errors
    ///
    /// The request must not be retried.
    pub(crate) fn reserve_retry(
        &mut self,
        ending: AttemptOutcome,
        replay: Replay,
    ) -> Result<(), NoRetryReason> {
        // The previous one has ended, whatever happens to this one.
        self.retry = None;
        let (retries, service) = (self.retries, &self.service);
        let retry = may_retry(self.policy, ending, retries, replay, service, self.limit)?;
        self.retry = Some(retry);
        self.retries += 1;
        Ok(())
    }

    pub(crate) fn retries(&self) -> u32 {
        self.retries
    }

    /// The wait before the registered retry.
    pub(crate) fn backoff(&self, rng: &mut impl Rng) -> Duration {
        backoff(self.policy, self.retries, rng)
    }
}
