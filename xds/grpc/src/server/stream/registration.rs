//! Registration of a stream with its Gateway, removed however the stream ends.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tonic::Status;
use tracing::info;
use xds::delta::{Derivation, Poll, ProxySession};
use xds::model::Features;

use crate::NodeId;
use crate::server::observer::{Event, Proxy};
use crate::server::registry::SharedSession;
use crate::server::{Server, locked};

pub(super) struct StreamRegistration {
    server: Arc<Server>,
    proxy: Proxy,
    session: SharedSession,
    /// Reports changes for this stream; `None` once it is removed.
    wake: Option<watch::Receiver<()>>,
    reason: String,
}

impl StreamRegistration {
    /// Registers a stream, unless the proxy has too many.
    pub(super) fn take(
        server: &Arc<Server>,
        node: NodeId,
        features: Features,
        address: SocketAddr,
    ) -> Result<Self, Status> {
        let mut registry = locked(&server.registry);
        if registry.streams(&node) >= server.limits.streams {
            let text = format!("{node} has too many streams; a proxy needs one");
            return Err(Status::resource_exhausted(text));
        }
        let gateway = node.gateway.clone();
        let wake = server.published.follow(&gateway);
        let session = ProxySession::begin(&mut server.published.views(), gateway, features);
        let proxy = Proxy {
            stream: session.number(),
            node,
            address,
        };
        let session = Arc::new(Mutex::new(session));
        registry.add(proxy.clone(), Arc::clone(&session));
        drop(registry);
        info!(proxy = %proxy.node, %address, "a proxy connected");
        server.observer.observe(&proxy, &Event::Connected);
        Ok(Self {
            server: Arc::clone(server),
            proxy,
            session,
            wake: Some(wake),
            reason: "the controller is shutting down".to_owned(),
        })
    }

    pub(super) fn node(&self) -> &NodeId {
        &self.proxy.node
    }

    pub(super) fn session(&self) -> &Mutex<ProxySession> {
        &self.session
    }

    pub(super) fn observe(&self, event: &Event<'_>) {
        self.server.observer.observe(&self.proxy, event);
    }

    pub(super) fn poll(&self, session: &mut ProxySession, now: Instant) -> Poll {
        session.poll(&mut self.server.published.views(), now)
    }

    /// Derives what the stream waits for, beside the tasks of other streams, and wakes those that wait for it too.
    pub(super) async fn derive(&self, derivation: Derivation) -> Result<(), Status> {
        let server = Arc::clone(&self.server);
        let derive = spawn_blocking(move || server.published.install(derivation.run()));
        derive.await.map_err(|error| {
            // One of the others has to begin again.
            self.server.published.wake(&self.proxy.node.gateway);
            Status::internal(error.to_string())
        })
    }

    /// Completes when something was published since the last call.
    pub(super) async fn published(&mut self) {
        let is_published = match &mut self.wake {
            Some(wake) => wake.changed().await.is_ok(),
            None => false,
        };
        if !is_published {
            std::future::pending::<()>().await;
        }
    }

    /// Unregisters with this reason.
    pub(super) fn leave(mut self, reason: &str) {
        reason.clone_into(&mut self.reason);
    }
}

impl Drop for StreamRegistration {
    fn drop(&mut self) {
        let Self {
            server,
            proxy,
            reason,
            ..
        } = self;
        locked(&server.registry).remove(proxy);
        self.wake = None;
        locked(&self.session).end(&mut server.published.views());
        server.published.remove_if_unused(&proxy.node.gateway);
        info!(proxy = %proxy.node, reason, "a proxy disconnected");
        let event = Event::Disconnected { reason };
        server.observer.observe(proxy, &event);
    }
}
