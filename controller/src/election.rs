//! Leader election by a Lease in the controller's namespace.
//!
//! A replica that holds the Lease renews it every `RETRY`. A replica that sees it unchanged for
//! `DURATION`, by its own clock, takes it; so no two clocks are compared. A leader that could not
//! renew it for `DEADLINE` steps down before another one can take it. Writes carry the resource
//! version that was read, so of two concurrent ones one fails.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::{Api, Client};
use rand::RngExt as _;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, info, warn};

use crate::leadership::Election;
use crate::stopping::Stopping;

/// A candidate for the leadership.
pub struct Candidate {
    leases: Api<Lease>,
    /// Unique to this process, also among earlier ones of the same pod.
    identity: String,
    election: Election,
    seen: Option<ObservedLease>,
    /// The other holder of the Lease that was logged last.
    other: Option<String>,
    /// Start of the last successful renewal, while this is the leader.
    renewed: Option<Instant>,
}

/// A Lease when it last changed.
#[derive(Debug)]
struct ObservedLease {
    version: Option<String>,
    since: Instant,
}

impl Candidate {
    /// A candidate. `client` must not retry requests: waiting would delay renewals.
    #[must_use]
    pub fn new(client: Client, namespace: &str, pod: &str, election: Election) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            identity: format!("{pod}_{:08x}", rand::rng().random::<u32>()),
            election,
            seen: None,
            other: None,
            renewed: None,
        }
    }

    /// Participates in the election until the process stops, and then releases the Lease.
    pub async fn run(mut self, mut stopping: Stopping) {
        tokio::select! {
            () = stopping.stopped() => {}
            () = self.campaign() => {}
        }
        self.election.set(false);
        if self.renewed.is_some() {
            let _ = timeout(REQUEST, self.release()).await;
        }
    }

    async fn campaign(&mut self) {
        loop {
            let begun = Instant::now();
            // A leader steps down at its deadline, whatever happens to the request.
            let until = match self.renewed {
                Some(renewed) => (renewed + DEADLINE).min(begun + REQUEST),
                None => begun + REQUEST,
            };
            match timeout_at(until, self.attempt()).await {
                Ok(Ok(true)) => self.become_leader(begun),
                Ok(Ok(false)) => self.step_down("another replica holds it"),
                Ok(Err(error)) => {
                    debug!("the Lease could not be renewed: {error}");
                    self.step_down_if_overdue(&error.to_string());
                }
                Err(_) => self.step_down_if_overdue("no response from the API server"),
            }
            let jitter = rand::rng().random_range(0..=RETRY.as_millis() / 10);
            let jitter = Duration::from_millis(u64::try_from(jitter).unwrap_or_default());
            let mut next = Instant::now() + RETRY + jitter;
            if let Some(renewed) = self.renewed {
                next = next.min(renewed + DEADLINE);
            }
            sleep(next - Instant::now()).await;
            self.step_down_if_overdue("it was not renewed in time");
        }
    }

    fn become_leader(&mut self, begun: Instant) {
        self.other = None;
        if self.renewed.replace(begun).is_none() {
            info!("this replica is the leader");
        }
        self.election.set(true);
    }

    fn step_down_if_overdue(&mut self, why: &str) {
        if self
            .renewed
            .is_some_and(|renewed| renewed + DEADLINE <= Instant::now())
        {
            self.step_down(why);
        }
    }

    fn step_down(&mut self, why: &str) {
        self.election.set(false);
        if self.renewed.take().is_some() {
            warn!("this replica is no longer the leader: {why}");
        }
    }

    /// Takes or renews the Lease, if possible. Returns whether it holds it.
    async fn attempt(&mut self) -> kube::Result<bool> {
        let Some(mut lease) = self.leases.get_opt(NAME).await? else {
            let mut lease = Lease::default();
            lease.metadata.name = Some(NAME.to_owned());
            lease.spec = Some(self.claim(0));
            let params = PostParams::default();
            return has_succeeded(self.leases.create(&params, &lease).await);
        };
        let spec = lease.spec.take().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let transitions = spec.lease_transitions.unwrap_or_default();
        let now = Instant::now();
        let version = lease.metadata.resource_version.clone();
        let seen = match self.seen.take() {
            Some(seen) if seen.version == version => seen,
            _ => ObservedLease {
                version,
                since: now,
            },
        };
        let is_expired = seen.since + DURATION <= now;
        self.seen = Some(seen);
        lease.spec = Some(if holder == self.identity {
            LeaseSpec {
                acquire_time: spec.acquire_time,
                ..self.claim(transitions)
            }
        } else if holder.is_empty() || is_expired {
            self.claim(transitions.saturating_add(1))
        } else {
            self.report_other(holder);
            return Ok(false);
        });
        has_succeeded(
            self.leases
                .replace(NAME, &PostParams::default(), &lease)
                .await,
        )
    }

    /// Logs who holds the Lease. A pod of another Deployment means that two installations share the namespace.
    fn report_other(&mut self, holder: &str) {
        if self.other.as_deref() != Some(holder) {
            let namespace = self.leases.namespace().unwrap_or_default();
            info!(holder, "another replica holds the Lease {namespace}/{NAME}");
            self.other = Some(holder.to_owned());
        }
    }

    fn claim(&self, transitions: i32) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    /// Releases the Lease, so that another replica need not wait for its expiry.
    async fn release(&mut self) -> kube::Result<()> {
        let mut lease = self.leases.get(NAME).await?;
        let Some(spec) = &mut lease.spec else {
            return Ok(());
        };
        if spec.holder_identity.as_ref() == Some(&self.identity) {
            spec.holder_identity = Some(String::new());
            self.leases
                .replace(NAME, &PostParams::default(), &lease)
                .await?;
        }
        Ok(())
    }
}

/// Whether a write succeeded. A conflict means that another replica was faster.
fn has_succeeded(written: kube::Result<Lease>) -> kube::Result<bool> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Name of the Lease.
const NAME: &str = "gateway-controller";
/// Lifetime of a Lease that is not renewed.
const DURATION: Duration = Duration::from_secs(15);
/// Time without renewal after which a leader steps down.
const DEADLINE: Duration = Duration::from_secs(10);
/// Interval of renewing or checking it.
const RETRY: Duration = Duration::from_secs(2);
/// Timeout of one attempt.
const REQUEST: Duration = Duration::from_secs(3);
