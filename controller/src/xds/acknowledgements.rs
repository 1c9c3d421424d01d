//! Passes the acknowledgements of proxies from the xDS server to the status writer and the metrics.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep;
use translate::session_keys;
use xds::model::{Kind, ObjectName};
use xds_grpc::server::{Event, Observer, Proxy, Server};

use super::measures::Measures;
use super::replicas::Replicas;
use super::report::{GatewayReport, merged};
use crate::outputs::Outputs;

/// Collects the Gateways with changed acknowledgements.
pub(super) struct Reporter {
    measures: Measures,
    replicas: Arc<Replicas>,
    changed: Mutex<BTreeSet<ObjectName>>,
    notify: Notify,
}

impl Observer for Reporter {
    fn observe(&self, proxy: &Proxy, event: &Event<'_>) {
        self.measures.observe(event);
        self.mark([proxy.node.gateway.clone()]);
    }

    fn too_large(&self, _: &ObjectName) {
        self.measures.too_large();
    }

    fn outdated(&self, _: &ObjectName) {
        self.measures.outdated();
    }
}

impl Reporter {
    pub(super) fn new(measures: Measures, replicas: Arc<Replicas>) -> Self {
        Self {
            measures,
            replicas,
            changed: Mutex::default(),
            notify: Notify::new(),
        }
    }

    /// Marks these Gateways as changed.
    pub(super) fn mark(&self, gateways: impl IntoIterator<Item = ObjectName>) {
        self.changed().extend(gateways);
        self.notify.notify_one();
    }

    fn changed(&self) -> MutexGuard<'_, BTreeSet<ObjectName>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports to the status writer. Never ends.
    pub(super) async fn report(&self, server: &Server, outputs: &Outputs) {
        loop {
            tokio::select! {
                () = self.notify.notified() => {}
                // The applied version may not be the current one any more.
                gateways = outputs.published.changed() => self.mark(gateways),
            }
            let begun = Instant::now();
            for gateway in std::mem::take(&mut *self.changed()) {
                let mut ack_summary = server.ack_summary(&gateway, Kind::Listener);
                let keys = session_keys::resource_key(&gateway);
                ack_summary.session_keys = server.applied_by(&gateway, &keys);
                self.replicas.set(&gateway, GatewayReport::of(&ack_summary));
                let others = self.replicas.of_others(&gateway);
                let current = |key: &_| outputs.published.views().version(&gateway, key);
                let known = merged(ack_summary, others.iter(), current).map(Arc::new);
                outputs.acknowledgements.set(&gateway, known);
            }
            // A hundred proxies acknowledge one by one: process their acknowledgements together.
            sleep((3 * begun.elapsed()).clamp(MIN_PAUSE, MAX_PAUSE)).await;
        }
    }
}

const MIN_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(100);
