//! Fetches the JWKS of the current configuration.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::task::JoinError;
use tracing::warn;

use super::fetch::{FetchError, Fetched, fetch};
use super::key_requests::{KeyRequests, key_requests};
use super::key_sets::{KeySets, SetId};
use super::origin::Origin;
use crate::config::Snapshot;
use crate::config::compile::RemoteKeys;
use crate::config::dns::Resolver;
use crate::config::in_force::MissingKeys;
use crate::config::jobs::Jobs;
use crate::policy::jwt::FetchWaker;

type Fetch = Result<Fetched, FetchError>;

/// Fetches key sets. Needs a Tokio runtime around it.
#[derive(Debug)]
pub struct Fetcher {
    key_sets: KeySets,
    fetches: Jobs<SetId, Fetch>,
    requests: KeyRequests,
}

impl Fetcher {
    /// A fetcher, and the handle by which shards request newer keys.
    #[must_use]
    pub fn new() -> (Self, Option<FetchWaker>) {
        let (wake, requests) = match key_requests() {
            Ok((wake, requests)) => (Some(wake), requests),
            Err(error) => {
                warn!(%error, "on-demand JWKS refresh unavailable; using the schedule");
                (None, KeyRequests::disabled())
            }
        };
        let fetcher = Self {
            key_sets: KeySets::default(),
            fetches: Jobs::new(),
            requests,
        };
        (fetcher, wake)
    }

    /// Sets the JWKS of a configuration, and starts fetching new ones.
    pub fn set_desired(&mut self, remote: &[RemoteKeys], snapshot: &Snapshot, resolver: &Resolver) {
        self.key_sets.set_desired(remote, Instant::now());
        self.fetch_due(snapshot, resolver);
    }

    /// Waits until the first fetch of each key set has ended, or until a deadline.
    pub async fn wait_for_first(
        &mut self,
        deadline: Instant,
        snapshot: &Snapshot,
        resolver: &Resolver,
    ) {
        while !self.key_sets.settled() {
            match tokio::time::timeout_at(deadline.into(), self.fetches.next()).await {
                Ok(Some((id, fetch))) => {
                    self.take(id, fetch);
                    self.fetch_due(snapshot, resolver);
                }
                Ok(None) => break,
                Err(_) => {
                    tracing::info!(
                        "the configuration is applied before all keys are fetched; requests that need a \
                         missing one get 503 until then"
                    );
                    break;
                }
            }
        }
    }

    /// The key sets whose current keys are not known.
    #[must_use]
    pub fn missing(&self) -> Vec<MissingKeys> {
        self.key_sets.missing()
    }

    /// Starts the fetches that are due.
    pub fn fetch_due(&mut self, snapshot: &Snapshot, resolver: &Resolver) {
        for (id, location) in self.key_sets.take_due(Instant::now()) {
            let origin = Origin::of(&location, snapshot);
            let resolver = resolver.clone();
            self.fetches.start(id, async move {
                match origin {
                    Ok(origin) => fetch(origin, resolver).await,
                    Err(error) => Err(error),
                }
            });
        }
    }

    /// Waits until a fetch may be due. Cancel safe.
    pub async fn changed(&mut self) {
        tokio::select! {
            Some((id, fetch)) = self.fetches.next() => self.take(id, fetch),
            () = self.requests.notified() => {}
        }
    }

    /// When to fetch again.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.key_sets.next_due()
    }

    fn take(&mut self, id: SetId, fetch: Result<Fetch, JoinError>) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix_time = since.map_or(0, |since| since.as_secs().cast_signed());
        let fetched = fetch.unwrap_or_else(|error| Err(FetchError::Panicked(error.to_string())));
        self.key_sets.take(id, fetched, Instant::now(), unix_time);
    }
}
