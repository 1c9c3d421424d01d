//! The controller's side: accepts connections of proxies, asks who they are, and serves each the
//! view of its own Gateway from [`xds::delta::Views`]. It knows nothing of Kubernetes: who may see
//! what is decided by the caller ([`Authorize`]), who is also told what the proxies answer
//! ([`Observer`]).
//!
//! A connection is accepted and secured ([`Server::serve`], `listener`), speaks HTTP/2 with bounds
//! on everything that costs memory or time (`connection`), and makes a call (`call`), which becomes
//! a stream (`stream`): a task that passes requests to a [`xds::delta::Session`] and sends what the
//! session says. Responses are encoded once for all proxies of a Gateway, and a stream only has
//! references to them (`response`).

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

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use xds::delta::{Acknowledged, Refusal};
use xds::model::{Kind, ObjectName};

use admission::Admission;
pub use authorize::{Answer, Authorize, Denied, Identity};
pub use limits::Limits;
pub use listener::Transport;
pub use observer::{Event, Observer, Proxy, Standing};
pub use published::Published;
use registry::Registry;

/// Serves proxies what is published.
pub struct Server {
    limits: Limits,
    authorize: Arc<dyn Authorize>,
    observer: Arc<dyn Observer>,
    /// Its views are locked after a session, where both are needed.
    published: Arc<Published>,
    registry: Mutex<Registry>,
    admission: Admission,
    closing: watch::Sender<bool>,
}

impl Server {
    /// A server of what is published. Streams wait until something is.
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
        })
    }

    /// What the connected proxies of a Gateway say of its current configuration: which of its
    /// resources of this kind are in force, and what is refused of any kind. A proxy that has
    /// several streams counts once, by the latest.
    #[must_use]
    pub fn standing(&self, gateway: &ObjectName, kind: Kind) -> Standing {
        let streams = locked(&self.registry).latest(gateway);
        let mut standing = Standing {
            versions: self.published.views().versions(gateway, kind),
            ..Standing::default()
        };
        for (_, session) in streams {
            standing.connected = standing.connected.saturating_add(1);
            let session = locked(&session);
            let views = self.published.views();
            for (key, version) in views.versions(gateway, kind) {
                // Another may have been published meanwhile: that is told by the next call.
                let is_told = standing.versions.get(&key) == Some(&version);
                if is_told && session.acknowledged(&views, &key) == Acknowledged::Yes {
                    let count = standing.accepted.entry(key).or_insert(0_usize);
                    *count = count.saturating_add(1);
                }
            }
            for Refusal { key, text } in session.refused(&views) {
                standing.refused.entry(key).or_insert(text);
            }
        }
        standing
    }

    /// All streams, in the order in which they began.
    #[must_use]
    pub fn connected(&self) -> Vec<Proxy> {
        locked(&self.registry).all()
    }

    /// Ends everything: [`Server::serve`] accepts no more, and returns when the streams have
    /// finished what is under way.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }
}

/// Ends when this is true.
async fn is_set(mut flag: watch::Receiver<bool>) {
    // Without a sender, nobody will need to know.
    let _ = flag.wait_for(|it| *it).await;
}

/// Locks, also where a panic has poisoned the lock: what it holds is changed in single steps.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
