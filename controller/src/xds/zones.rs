//! The zones of nodes, which proxies are told when they connect: a proxy may not read nodes itself, and its configuration
//! is that of all proxies of its Gateway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::timeout;
use tracing::debug;

pub(super) struct Zones {
    client: Client,
    known: Mutex<HashMap<Arc<str>, KnownZone>>,
}

struct KnownZone {
    zone: Option<Arc<str>>,
    until: Instant,
}

impl Zones {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
        }
    }

    /// The zone of a node; `None` if it has none, or cannot be read now: a proxy has to be served anyway.
    pub(super) async fn of(&self, node: &Arc<str>) -> Option<Arc<str>> {
        let now = Instant::now();
        if let Some(known) = self.locked().get(node).filter(|it| now < it.until) {
            return known.zone.clone();
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        match timeout(READ, nodes.get(node)).await {
            Ok(Ok(object)) => {
                let zone = object.labels().get(ZONE).filter(|zone| !zone.is_empty());
                let zone: Option<Arc<str>> = zone.map(|zone| zone.as_str().into());
                // One without a label may get it any time.
                if zone.is_some() {
                    self.remember(node, (zone.clone(), KEPT));
                }
                zone
            }
            failed => {
                let error = failed.map(|result| result.err().map(|error| error.to_string()));
                debug!(%node, ?error, "the node of a proxy cannot be read, so its zone is unknown");
                // The last answer is better than none: nodes do not move.
                let zone = self.locked().get(node).and_then(|it| it.zone.clone());
                self.remember(node, (zone.clone(), RETRIED));
                zone
            }
        }
    }

    fn remember(&self, node: &Arc<str>, (zone, time): (Option<Arc<str>>, Duration)) {
        let now = Instant::now();
        let mut known = self.locked();
        if known.len() >= MAX_NODES {
            known.retain(|_, it| now < it.until);
        }
        if known.len() < MAX_NODES {
            let until = now + time;
            known.insert(Arc::clone(node), KnownZone { zone, until });
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Arc<str>, KnownZone>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The label of a node with its zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// Timeout for reading a node: 500 ms, since a proxy waits for its configuration meanwhile.
const READ: Duration = Duration::from_millis(500);
/// How long an answer is kept: 10 min. A node that gets another zone is known to proxies that connect again, which each does
/// within 33 minutes.
const KEPT: Duration = Duration::from_mins(10);
/// After which time a failed read is repeated: 30 s.
const RETRIED: Duration = Duration::from_secs(30);
/// Nodes that are remembered: more than a cluster has.
const MAX_NODES: usize = 20_000;

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use serde_json::json;

    use super::super::cluster::Cluster;
    use super::*;

    #[tokio::test]
    async fn a_zone_is_that_of_the_label_and_is_kept_while_the_api_server_is_away() {
        let cluster = Cluster::new();
        cluster.store(
            "/api/v1/nodes/one",
            json!({"metadata": {"name": "one", "labels": {ZONE: "zone-a"}}}),
        );
        cluster.store("/api/v1/nodes/two", json!({"metadata": {"name": "two"}}));
        let zones = Zones::new(cluster.client());
        let [one, two, gone] = ["one", "two", "gone"].map(Arc::<str>::from);
        assert_eq!(zones.of(&one).await.as_deref(), Some("zone-a"));
        assert_eq!(zones.of(&two).await, None, "without a label");
        assert_eq!(zones.of(&gone).await, None);
        cluster.is_away.store(true, Ordering::Relaxed);
        assert_eq!(zones.of(&one).await.as_deref(), Some("zone-a"));
        for known in zones.locked().values_mut() {
            known.until = Instant::now();
        }
        assert_eq!(
            zones.of(&one).await.as_deref(),
            Some("zone-a"),
            "nodes do not move"
        );
        let until = zones.locked()["one"].until;
        assert!(until <= Instant::now() + RETRIED, "it is read again soon");
    }
}
