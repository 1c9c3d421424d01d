//! The controller's side: accepts connections of proxies, authorizes them, and serves each the view
//! of its own Gateway from [`xds::delta::Views`]. It knows nothing of Kubernetes: the caller
//! authorizes ([`Authorize`]) and observes the proxies' acknowledgements ([`Observer`]).
//!
//! [`Server::serve`] and `listener` accept and secure a connection; `connection` speaks HTTP/2 with
//! bounds on memory and time; `call` handles a call, which becomes a `stream`: a task that passes
//! requests to an [`xds::delta::ProxySession`] and sends what the session returns. Responses are encoded
//! once for all proxies of a Gateway and shared by reference (`response`).

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod admission;
mod authorize;
mod budget;
mod call;
mod connection;
mod limits;
mod listener;
mod observer;
mod published;
mod registry;
mod response;
mod stream;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use tokio::sync::watch;
use xds::delta::{Acknowledged, ProxySession, Refusal, Standing, Version, Views};
use xds::model::{Kind, ObjectName, ResourceKey};

use admission::Admission;
pub use authorize::{Authorize, AuthorizeError, AuthorizeFuture, ProxyIdentity};
pub use limits::Limits;
pub use listener::Transport;
pub use observer::{AckSummary, Event, Observer, Proxy, SeenSymptom};
pub use published::Published;
use registry::Registry;

/// Serves published configuration to proxies.
pub struct Server {
    limits: Limits,
    authorize: Arc<dyn Authorize>,
    observer: Arc<dyn Observer>,
    /// Lock order: a session before the views.
    published: Arc<Published>,
    registry: Mutex<Registry>,
    admission: Admission,
    closing: watch::Sender<bool>,
    sends_away: watch::Sender<bool>,
    /// The same moment, of this process and of the clock.
    started: (Instant, SystemTime),
}

impl Server {
    /// A server without anything published yet: streams wait for the first publication.
    #[must_use]
    pub fn new(
        limits: Limits,
        published: Arc<Published>,
        authorize: Arc<dyn Authorize>,
        observer: Arc<dyn Observer>,
    ) -> Arc<Self> {
        Arc::new(Self {
            admission: Admission::new(&limits),
            limits,
            authorize,
            observer,
            published,
            registry: Mutex::default(),
            closing: watch::Sender::new(false),
            sends_away: watch::Sender::new(false),
            started: (Instant::now(), SystemTime::now()),
        })
    }

    /// The connected proxies' acknowledgements of their Gateway's current configuration: how many
    /// have applied each resource of this kind, and what is rejected of any kind. A proxy with
    /// several streams counts once, by its latest.
    #[must_use]
    pub fn ack_summary(&self, gateway: &ObjectName, kind: Kind) -> AckSummary {
        let streams = locked(&self.registry).latest(gateway);
        let mut summary = AckSummary {
            versions: self.published.views().versions(gateway, kind),
            ..AckSummary::default()
        };
        // A hundred proxies are mostly in one or two states.
        let mut by_standing: BTreeMap<Standing, (usize, Vec<ResourceKey>)> = BTreeMap::new();
        for (_, session) in streams {
            summary.connected = summary.connected.saturating_add(1);
            let session = locked(&session);
            let views = self.published.views();
            summary.add_symptoms(session.symptoms(&views), |at| self.time(at));
            let own = || applied(&session, &views, (gateway, kind), &summary.versions);
            if let Some(standing) = session.standing(&views) {
                let proxies = by_standing.entry(standing);
                let (count, _) = proxies.or_insert_with(|| (0, own()));
                *count = count.saturating_add(1);
                continue;
            }
            let own = own();
            summary.accept(own, 1);
            for Refusal { key, text } in session.refused(&views) {
                if let Some(version) = views.version(gateway, &key) {
                    summary.refused.entry(key).or_insert((version, text));
                }
            }
        }
        for (count, applied) in by_standing.into_values() {
            summary.accept(applied, count);
        }
        summary
    }

    /// The current version of a resource of a Gateway, and how many of the connected proxies have applied it; `None`
    /// if there is no such resource.
    #[must_use]
    pub fn applied_by(&self, gateway: &ObjectName, key: &ResourceKey) -> Option<(Version, usize)> {
        let version = self.published.views().version(gateway, key)?;
        let streams = locked(&self.registry).latest(gateway);
        let has_applied = |session: &Mutex<ProxySession>| {
            let session = locked(session);
            let views = self.published.views();
            // A newer version may have been published since: the next call reports it.
            let is_current = views.version(gateway, key) == Some(version);
            is_current && session.acknowledged(&views, key) == Acknowledged::Yes
        };
        let applied = streams.iter().filter(|(_, it)| has_applied(it));
        Some((version, applied.count()))
    }

    /// The time of the clock at a moment: the same whenever it is asked.
    fn time(&self, at: Instant) -> SystemTime {
        let (begun, time) = self.started;
        let later = at.saturating_duration_since(begun);
        let earlier = begun.saturating_duration_since(at);
        let time = time.checked_add(later).unwrap_or(time);
        time.checked_sub(earlier).unwrap_or(time)
    }

    /// All streams, oldest first.
    #[must_use]
    pub fn connected(&self) -> Vec<Proxy> {
        locked(&self.registry).all()
    }

    /// Sets whether proxies are sent to another server: their connections retire soon, each at a random moment
    /// ([`Limits::sent_away`]). That new ones are rejected is left to [`Authorize`].
    pub fn send_away(&self, sends_away: bool) {
        self.sends_away
            .send_if_modified(|current| std::mem::replace(current, sends_away) != sends_away);
    }

    /// Shuts down: [`Server::serve`] stops accepting and returns once the streams have finished
    /// their batches.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }
}

/// The resources of a kind that a proxy has applied in these versions.
fn applied(
    session: &ProxySession,
    views: &Views,
    (gateway, kind): (&ObjectName, Kind),
    versions: &BTreeMap<ResourceKey, Version>,
) -> Vec<ResourceKey> {
    let mut applied = Vec::new();
    for (key, version) in views.versions(gateway, kind) {
        // A newer version may have been published since: the next call reports it.
        let is_current = versions.get(&key) == Some(&version);
        if is_current && session.acknowledged(views, &key) == Acknowledged::Yes {
            applied.push(key);
        }
    }
    applied
}

/// Completes when the flag is true.
async fn is_set(mut flag: watch::Receiver<bool>) {
    // If the sender is gone, so is the server.
    let _ = flag.wait_for(|it| *it).await;
}

/// Locks even if poisoned by a panic: the data is changed in single steps.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
