//! Looks whether the pods of Gateways' proxies run, and reports what the API server or the kubelet says if they do
//! not. Only the leader does, and only after something about a workload changed: no pod is watched.

use std::collections::BTreeMap;
use std::sync::{Arc, Once};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout};
use tracing::warn;
use translate::{Obstacle, WorkloadState, why_not_running};
use xds::fast_hash::FastHashMap;
use xds::model::ObjectName;

use super::attempt::Sources;
use super::child::{Child, ObservedChild};
use super::labels;
use super::looks::{Looks, NextLook};
use super::pod_counts::PodCounts;
use crate::queue::until;

/// The workloads of all Gateways, while this replica is the leader.
pub(super) struct Availability {
    sources: Arc<Sources>,
    looks: Looks,
    running: JoinSet<Found>,
    /// The workload that each task looks at.
    looking_at: FastHashMap<Id, Child>,
    /// Why pods do not run, by Gateway and workload: one that is replaced has two.
    known: BTreeMap<ObjectName, BTreeMap<Child, Option<Obstacle>>>,
}

/// What a look has found.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// All pods run.
    Available,
    /// Not all run, and nothing is known to keep them from it.
    Starting,
    /// Why not all run.
    Missing(Obstacle),
    /// The API server could not be asked.
    Unknown,
}

impl Availability {
    pub(super) fn new(sources: Arc<Sources>) -> Self {
        Self {
            sources,
            looks: Looks::default(),
            running: JoinSet::new(),
            looking_at: FastHashMap::default(),
            known: BTreeMap::new(),
        }
    }

    /// Never returns.
    pub(super) async fn lead(mut self) {
        let sources = Arc::clone(&self.sources);
        let workloads = &sources.children.workloads;
        for workload in workloads.keys() {
            self.looks.changed(&workload, Instant::now());
        }
        loop {
            let wake_at = self.start();
            tokio::select! {
                changed = workloads.changed() => {
                    for workload in &changed {
                        self.changed(workload);
                    }
                }
                Some(ended) = self.running.join_next_with_id() => self.ended(ended),
                () = until(wake_at) => {}
            }
        }
    }

    fn changed(&mut self, workload: &Child) {
        if self.sources.children.workloads.get(workload).is_some() {
            self.looks.changed(workload, Instant::now());
            return;
        }
        self.looks.forget(workload);
        let mut of_gateways = self.known.iter_mut();
        let gateway = of_gateways.find_map(|(gateway, it)| it.remove(workload).map(|_| gateway));
        if let Some(gateway) = gateway.cloned() {
            self.report(&gateway);
        }
    }

    /// Starts due looks. Returns when the next one is due.
    fn start(&mut self) -> Option<Instant> {
        loop {
            let workload = match self.looks.next(Instant::now()) {
                NextLook::Take(workload) => workload,
                NextLook::At(at) => return Some(at),
                NextLook::Idle => return None,
            };
            let client = self.sources.client.clone();
            let gateway = self.gateway_of(&workload);
            let looked_at = workload.clone();
            let task = self.running.spawn(async move {
                match gateway {
                    Some(gateway) => look(client, &looked_at, &gateway).await,
                    None => Found::Available,
                }
            });
            self.looking_at.insert(task.id(), workload);
        }
    }

    fn ended(&mut self, ended: Result<(Id, Found), JoinError>) {
        let (id, found) = match ended {
            Ok((id, found)) => (id, found),
            Err(error) => {
                warn!(%error, "a defect: looking at a workload panicked; please report it");
                (error.id(), Found::Unknown)
            }
        };
        if let Some(workload) = self.looking_at.remove(&id) {
            self.done(&workload, found);
        }
    }

    fn done(&mut self, workload: &Child, found: Found) {
        let is_well = found == Found::Available;
        self.looks.done(workload, is_well, Instant::now());
        let Some(gateway) = self.gateway_of(workload) else {
            return;
        };
        let why = match found {
            Found::Available => None,
            Found::Missing(why) => Some(why),
            // It says nothing about what was found before.
            Found::Unknown => return,
            Found::Starting => {
                let known = self.known.get(&gateway).and_then(|it| it.get(workload));
                // The kubelet tries again, and will fail again or succeed.
                known.cloned().flatten()
            }
        };
        let known = self.known.entry(gateway.clone()).or_default();
        known.insert(workload.clone(), why);
        self.report(&gateway);
    }

    fn report(&mut self, gateway: &ObjectName) {
        let pods = &self.sources.outputs.pods;
        let known = self.known.get(gateway).filter(|it| !it.is_empty());
        let why = known.map(|known| known.values().flatten().next().cloned());
        if why.is_none() {
            self.known.remove(gateway);
        }
        pods.set(gateway, why);
    }

    /// The existing Gateway that a workload belongs to.
    fn gateway_of(&self, workload: &Child) -> Option<ObjectName> {
        let ObservedChild {
            owner, owner_name, ..
        } = self.sources.children.get(workload)?;
        let gateway = ObjectName::new(&workload.name.namespace, &owner_name?);
        let present = self.sources.outputs.gateways.get(&gateway)?;
        (owner.as_deref() == Some(&*present.uid)).then_some(gateway)
    }
}

/// Reads the status of a workload, and its pods if they do not run.
async fn look(client: Client, workload: &Child, gateway: &ObjectName) -> Found {
    let (namespace, kind) = (&workload.name.namespace, workload.kind);
    let workloads: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &kind.resource());
    let found = timeout(DEADLINE, workloads.get_opt(&workload.name.name)).await;
    let object = match found {
        Ok(Ok(Some(object))) => object,
        // The watch will report that it was deleted.
        Ok(Ok(None)) => return Found::Available,
        Ok(Err(_)) | Err(_) => return Found::Unknown,
    };
    let generation = object.metadata.generation.unwrap_or(0);
    if PodCounts::of(kind, &object.data, generation).are_all_available() {
        return Found::Available;
    }
    let selector = labels::selector(&gateway.name).into_iter();
    let selector: Vec<String> = selector
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    // As the API server's cache has them: a consistent read of a thousand Gateways would burden what is behind it.
    let some = ListParams::default()
        .labels(&selector.join(","))
        .match_any();
    let pods = Api::<Pod>::namespaced(client, namespace);
    let pods = match timeout(DEADLINE, pods.list(&some)).await {
        Ok(Ok(pods)) => pods.items,
        // What the workload says has to do.
        Ok(Err(error)) => {
            say_once(&error);
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    let in_json = |it| serde_json::to_value(it).unwrap_or_default();
    let pods: Vec<Value> = pods.iter().take(MOST_PODS).map(in_json).collect();
    let object = serde_json::to_value(&object).unwrap_or_default();
    let state = WorkloadState {
        workload: &object,
        pods: &pods,
        events: &[],
        now: Timestamp::now(),
    };
    why_not_running(state).map_or(Found::Starting, Found::Missing)
}

/// Logs that pods may not be listed, once for all Gateways.
fn say_once(error: &kube::Error) {
    static SAID: Once = Once::new();
    if matches!(error, kube::Error::Api(status) if status.code == 403) {
        SAID.call_once(|| {
            warn!(
                %error,
                "pods cannot be listed, so the conditions of Gateways cannot say why a pod does not run: give the \
                 controller the right to list pods in their namespaces"
            );
        });
    }
}

/// Timeout of a read: 10 s.
const DEADLINE: Duration = Duration::from_secs(10);
/// Pods of a Gateway that are looked at: 50. More would not say more.
const MOST_PODS: usize = 50;
