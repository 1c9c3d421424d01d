//! Removes the keys of Gateways that are gone.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Preconditions};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};
use xds::model::ObjectName;

use super::{DEADLINE, SessionKeyKeeper, is_long};
use crate::leadership::Leadership;
use crate::session_keys::secret;

impl SessionKeyKeeper {
    /// The Gateways that have been gone for a while, whose keys are to be removed: a restored backup may contain a
    /// Secret before its Gateway. The keys of those that are gone for less are not published.
    pub(super) fn unused(
        &mut self,
        existing: &BTreeSet<ObjectName>,
        now: Instant,
    ) -> Vec<ObjectName> {
        for gateway in self.outputs.session_keys.keys() {
            if !existing.contains(&gateway) {
                self.outputs.session_keys.set(&gateway, None);
            }
        }
        let mut unused = Vec::new();
        for (gateway, known) in &mut self.known {
            if existing.contains(gateway) {
                if known.unused_since.take().is_some()
                    && let Ok(keys) = &known.keys
                {
                    self.outputs.session_keys.set(gateway, keys.for_proxies());
                }
                continue;
            }
            let since = *known.unused_since.get_or_insert(now);
            if now.duration_since(since) >= UNUSED {
                unused.push(gateway.clone());
            }
        }
        unused
    }

    /// As the leader, removes the keys of these Gateways, until the step that began then takes long.
    pub(super) async fn remove(
        &mut self,
        unused: Vec<ObjectName>,
        leadership: &Leadership,
        (began, now): (Instant, Instant),
    ) {
        for gateway in unused {
            if is_long(began) || !leadership.is_leader() {
                return;
            }
            if let Some(known) = self.known.get_mut(&gateway) {
                // It is tried again after as long.
                known.unused_since = Some(now);
                let metadata = known.secret.metadata.clone();
                self.delete(&gateway, metadata).await;
            }
        }
    }

    /// Deletes a Secret, unless it was changed.
    async fn delete(&self, gateway: &ObjectName, metadata: ObjectMeta) {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: metadata.uid,
                resource_version: metadata.resource_version,
            }),
            ..DeleteParams::default()
        };
        let name = secret::name(gateway);
        let deleted = timeout(DEADLINE, self.secrets.delete(&name, &params)).await;
        let why = match deleted {
            Ok(Ok(_)) => {
                let text = "removed the session keys of a Gateway that is gone";
                return info!(%gateway, secret = name, "{text}");
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server does not respond".to_owned(),
        };
        let text = "cannot remove the session keys of a Gateway that is gone: delete the Secret";
        warn!(%gateway, secret = name, error = why, "{text}");
    }
}

/// How long the keys of a Gateway that is gone are kept: 10 min.
const UNUSED: Duration = Duration::from_mins(10);
