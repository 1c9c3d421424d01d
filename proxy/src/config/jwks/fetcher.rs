//! Fetches the JWKS of the current configuration.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::task::{JoinError, JoinSet};
use tracing::{error, warn};

use super::fetch::{FetchError, Fetched, fetch};
use super::key_requests::{KeyRequests, key_requests};
use super::key_sets::{KeySets, SetId};
use super::origin::Origin;
use crate::config::Snapshot;
use crate::config::compile::RemoteKeys;
use crate::config::dns::Resolver;
use crate::config::in_force::MissingKeys;
use crate::policy::jwt::FetchWaker;

type Fetch = (SetId, Result<Fetched, FetchError>);

/// Fetches key sets. Needs a Tokio runtime around it.
#[derive(Debug)]
pub struct Fetcher {
    key_sets: KeySets,
    fetches: JoinSet<Fetch>,
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
            fetches: JoinSet::new(),
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
    pub async fn wait_for_first(&mut self, deadline: Instant) {
        while !self.key_sets.settled() {
            match tokio::time::timeout_at(deadline.into(), self.fetches.join_next()).await {
                Ok(Some(fetch)) => self.take(fetch),
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
            self.fetches.spawn(async move {
                let fetched = match origin {
                    Ok(origin) => fetch(origin, resolver).await,
                    Err(error) => Err(error),
                };
                (id, fetched)
            });
        }
    }

    /// Waits until a fetch may be due. Cancel safe.
    pub async fn changed(&mut self) {
        tokio::select! {
            Some(fetch) = self.fetches.join_next() => self.take(fetch),
            () = self.requests.notified() => {}
        }
    }

    /// When to fetch again.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.key_sets.next_due()
    }

    fn take(&mut self, fetch: Result<Fetch, JoinError>) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix_time = since.map_or(0, |since| since.as_secs().cast_signed());
        match fetch {
            Ok((id, fetched)) => self.key_sets.take(id, fetched, Instant::now(), unix_time),
            Err(error) => error!(%error, "a JWKS fetch panicked; please report it"),
        }
    }
}
