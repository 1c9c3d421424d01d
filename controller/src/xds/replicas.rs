//! Exchanges the acknowledgements of proxies between replicas: proxies connect to any replica, but
//! only the leader writes statuses.
//!
//! Each follower with proxies maintains a ConfigMap, or several for many listeners, in the controller's
//! namespace. It uses the API server rather than connections between replicas: the data only matters when
//! a status can be written, no replica has to find or trust another one, and no other account may write
//! there. An entry that was not renewed for a while, by the reader's clock, belongs to a replica that is
//! gone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_lite::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, interval, sleep, timeout};
use tracing::{debug, warn};
use xds::model::ObjectName;

use super::report::{GatewayReport, Report, gateway};
use crate::context::Context;
use crate::leadership::Leadership;

/// This replica among the others.
pub(super) struct Replicas {
    config_maps: Api<ConfigMap>,
    /// Name of this replica's ConfigMap.
    name: String,
    own: Mutex<OwnReport>,
    notify: Notify,
    others: Mutex<BTreeMap<String, OtherReplica>>,
}

#[derive(Debug, Default)]
struct OwnReport {
    report: Report,
    /// How many ConfigMaps of this replica may exist.
    config_maps: usize,
}

#[derive(Debug)]
struct OtherReplica {
    report: Report,
    /// The version of its ConfigMap, and since when it is known.
    version: Option<String>,
    since: Instant,
}

impl Replicas {
    pub(super) fn new(context: &Context) -> Self {
        let args = &context.args;
        Self {
            config_maps: Api::namespaced(context.client.clone(), &args.namespace),
            name: format!("{}-proxies", args.pod_name),
            own: Mutex::default(),
            notify: Notify::new(),
            others: Mutex::default(),
        }
    }

    /// Sets this replica's acknowledgements for a Gateway.
    pub(super) fn set(&self, gateway: &ObjectName, known: Option<GatewayReport>) {
        let gateways = &mut locked(&self.own).report.0;
        let gateway = gateway.to_string();
        if gateways.get(&gateway) == known.as_ref() {
            return;
        }
        match known {
            Some(known) => drop(gateways.insert(gateway, known)),
            None => drop(gateways.remove(&gateway)),
        }
        self.notify.notify_one();
    }

    /// The other replicas' acknowledgements for a Gateway.
    pub(super) fn of_others(&self, gateway: &ObjectName) -> Vec<GatewayReport> {
        let gateway = gateway.to_string();
        let others = locked(&self.others);
        let known = others.values().filter_map(|it| it.report.0.get(&gateway));
        known.cloned().collect()
    }

    /// Reports to the others, while this replica is not the leader. Never ends.
    pub(super) async fn report(&self, mut leadership: Leadership) {
        loop {
            leadership.lost().await;
            tokio::select! {
                () = self.report_as_follower() => {}
                () = leadership.acquired() => {}
            }
            self.withdraw().await;
        }
    }

    async fn report_as_follower(&self) {
        let mut renewal = interval(RENEWAL);
        loop {
            tokio::select! {
                _ = renewal.tick() => {}
                () = self.notify.notified() => {}
            }
            let (parts, before) = {
                let mut own = locked(&self.own);
                // Most replicas start without proxies.
                if own.report.0.is_empty() && own.config_maps == 0 {
                    continue;
                }
                let mut parts = own.report.parts(BYTES);
                if parts.len() > PARTS {
                    warn!(
                        left_out = parts.len() - PARTS,
                        "the report to the leader is too large: Gateways are missing in it"
                    );
                    parts.truncate(PARTS);
                }
                let before = own.config_maps;
                own.config_maps = before.max(parts.len());
                (parts, before)
            };
            let count = parts.len();
            match timeout(DEADLINE, self.write(parts, before)).await {
                Ok(Ok(())) => {
                    locked(&self.own).config_maps = count;
                    debug!("reported the proxies to the leader");
                }
                Ok(Err(error)) => warn!(%error, "cannot report the proxies to the leader yet"),
                Err(_) => debug!("the API server does not answer"),
            }
            sleep(SPACING).await;
        }
    }

    /// Writes the parts of the report, a ConfigMap each, and deletes those of earlier ones.
    async fn write(&self, parts: Vec<Report>, before: usize) -> kube::Result<()> {
        let count = parts.len();
        for (index, part) in parts.into_iter().enumerate() {
            let name = self.part_name(index);
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "labels": {LABEL: "true"}},
                "data": {REPORT: json!(part).to_string(), "renewed": Timestamp::now().to_string()},
            });
            let params = PatchParams::apply(FIELD_MANAGER).force();
            let patch = Patch::Apply(&object);
            self.config_maps.patch(&name, &params, &patch).await?;
        }
        self.delete_own(count..before).await;
        Ok(())
    }

    /// Deletes this replica's report.
    pub(super) async fn withdraw(&self) {
        let count = std::mem::take(&mut locked(&self.own).config_maps);
        if timeout(DEADLINE, self.delete_own(0..count)).await.is_err() {
            debug!("cannot delete this replica's report; it expires on its own");
        }
    }

    async fn delete_own(&self, parts: Range<usize>) {
        for part in parts {
            let name = self.part_name(part);
            if let Err(error) = self
                .config_maps
                .delete(&name, &DeleteParams::default())
                .await
            {
                debug!(%error, "cannot delete a part of this replica's report; it expires on its own");
            }
        }
    }

    /// The ConfigMap of a part of this replica's report.
    fn part_name(&self, part: usize) -> String {
        match part {
            0 => self.name.clone(),
            part => format!("{}-{part}", self.name),
        }
    }

    fn is_own(&self, config_map: &str) -> bool {
        (0..PARTS).any(|part| self.part_name(part) == config_map)
    }

    /// Follows the reports of the others. `changed` is called with their Gateways. Never ends.
    pub(super) async fn follow(
        &self,
        leadership: &Leadership,
        changed: impl Fn(BTreeSet<ObjectName>),
    ) {
        let settings = watcher::Config::default()
            .labels(LABEL)
            .timeout(WATCH_SECONDS);
        let events = watcher::watcher(self.config_maps.clone(), settings).default_backoff();
        let mut events = pin!(events);
        let mut expiry = interval(RENEWAL);
        loop {
            tokio::select! {
                Some(event) = events.next() => match event {
                    Ok(Event::Apply(it) | Event::InitApply(it)) => changed(self.put(&it)),
                    Ok(Event::Delete(it)) => changed(self.remove(&it.name_any())),
                    // Reports missing in a new list expire.
                    Ok(Event::Init | Event::InitDone) => {}
                    Err(error) => warn!(%error, "cannot watch the reports of other replicas"),
                },
                _ = expiry.tick() => {
                    for (name, version) in self.expired() {
                        changed(self.remove(&name));
                        if leadership.is_leader() {
                            self.delete(&name, version).await;
                        }
                    }
                }
            }
        }
    }

    /// Stores a replica's report. Returns the Gateways for which it has changed.
    fn put(&self, config_map: &ConfigMap) -> BTreeSet<ObjectName> {
        let name = config_map.name_any();
        if self.is_own(&name) {
            return BTreeSet::new();
        }
        let text = config_map.data.as_ref().and_then(|data| data.get(REPORT));
        let report = text.and_then(|text| serde_json::from_str(text).ok());
        let other = OtherReplica {
            // A different format of another version of this program: nothing is known of its
            // proxies.
            report: report.unwrap_or_default(),
            version: config_map.resource_version(),
            since: Instant::now(),
        };
        let mut others = locked(&self.others);
        let after = other.report.clone();
        let before = others.insert(name, other).map(|it| it.report);
        difference(&before.unwrap_or_default(), &after)
    }

    fn remove(&self, name: &str) -> BTreeSet<ObjectName> {
        let before = locked(&self.others).remove(name).map(|it| it.report);
        difference(&before.unwrap_or_default(), &Report::default())
    }

    fn expired(&self) -> Vec<(String, Option<String>)> {
        let others = locked(&self.others);
        let expired = others.iter().filter(|(_, it)| it.since.elapsed() >= EXPIRY);
        expired
            .map(|(name, it)| (name.clone(), it.version.clone()))
            .collect()
    }

    /// Deletes the report of a replica that is gone, unless it was renewed meanwhile.
    async fn delete(&self, name: &str, version: Option<String>) {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                resource_version: version,
                uid: None,
            }),
            ..DeleteParams::default()
        };
        let _ = timeout(DEADLINE, self.config_maps.delete(name, &params)).await;
    }
}

fn difference(before: &Report, after: &Report) -> BTreeSet<ObjectName> {
    let names = before.0.keys().chain(after.0.keys());
    let names = names.filter(|name| before.0.get(*name) != after.0.get(*name));
    names.filter_map(|name| gateway(name)).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Label of the reports.
const LABEL: &str = "gateway-system.io/proxies-of-replica";
/// The ConfigMap entry with the report.
const REPORT: &str = "proxies";
const FIELD_MANAGER: &str = "gateway-controller";
/// Interval of renewing a report: 10 s.
const RENEWAL: Duration = Duration::from_secs(10);
/// Time after which a report that was not renewed expires: 30 s.
const EXPIRY: Duration = Duration::from_secs(30);
/// Interval of writes: 500 ms, as with statuses.
const SPACING: Duration = Duration::from_millis(500);
/// Timeout of one write: 10 s.
const DEADLINE: Duration = Duration::from_secs(10);
/// Duration of a watch request, so that a dead connection is noticed: 60 s.
const WATCH_SECONDS: u32 = 60;
/// Most bytes of a part of a report: a ConfigMap's limit of 1 MiB, less its metadata.
const BYTES: usize = 1_000_000;
/// Most parts of a report: of some 20 Gateways with 4 000 listeners each, or many more with fewer.
const PARTS: usize = 32;
