//! Writes statuses to the cluster, as the leader.
//!
//! A single task, which queues only names: the write for an object is computed when it is due, from
//! the current state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::task::yield_now;
use tokio::time::{Instant, interval_at};
use tracing::{info, warn};
use translate::status::{ConditionType, Status};
use translate::{ObjectKind, ObjectRef};
use xds::model::ObjectName;

use super::acks::{ack_counts, changed_resources};
use super::blamed::Blamed;
use super::events::{Events, object_of};
use super::merge::{Author, NameUse};
use super::metrics::StatusMetrics;
use super::plan::{StatusInputs, Write, listener_sets_in, plan};
use super::presence::Presence;
use super::programmed::{AckCount, Deployment};
use super::send::send;
use super::symptoms::{ShownSymptoms, SymptomInputs};
use super::warnings::Warnings;
use crate::leadership::Leadership;
use crate::outputs::{Acknowledgements, Outputs};
use crate::queue::{
    NextAction, Outcome, Panic, Queue, QueueMeasures, Tasks, WriterMeasures, until,
};
use crate::stopping::Stopping;

/// Compares statuses with the API server's, and writes the differences.
pub struct StatusWriter {
    client: Client,
    outputs: Arc<Outputs>,
    controller_name: String,
    events: Events,
    metrics: StatusMetrics,
    measures: WriterMeasures,
    queue: Queue,
    in_flight: Tasks<Outcome>,
    /// The last acknowledgements of each Gateway's proxies.
    acknowledgements: BTreeMap<ObjectName, Arc<Acknowledgements>>,
    /// Why proxies reject an object's resources.
    refused: BTreeMap<ObjectRef, BTreeMap<ObjectName, String>>,
    warnings: Warnings,
    blamed: Blamed,
    symptoms: ShownSymptoms,
    presence: Presence,
}

impl StatusWriter {
    /// `client` must not retry requests: the pace of writes is decided here.
    #[must_use]
    pub fn new(
        client: Client,
        outputs: Arc<Outputs>,
        controller_name: &str,
        events: Events,
        metrics: StatusMetrics,
        measures: &QueueMeasures,
    ) -> Self {
        let measures = measures.of("status");
        Self {
            client,
            outputs,
            controller_name: controller_name.to_owned(),
            events,
            metrics,
            queue: Queue::default(),
            in_flight: Tasks::new(measures.clone()),
            measures,
            acknowledgements: BTreeMap::new(),
            refused: BTreeMap::new(),
            blamed: Blamed::default(),
            warnings: Warnings::default(),
            symptoms: ShownSymptoms::default(),
            presence: Presence::default(),
        }
    }

    /// Writes while this replica is the leader, until the process stops. Not before the first
    /// translation: until then, statuses are incomplete.
    pub async fn run(mut self, mut leadership: Leadership, mut stopping: Stopping) {
        let mut translated = self.outputs.translated.subscribe();
        let ready = async {
            // Cannot fail, since the sender is ours too.
            let _ = translated.wait_for(|is_translated| *is_translated).await;
        };
        tokio::select! {
            () = ready => {}
            () = stopping.stopped() => return,
        }
        let outputs = Arc::clone(&self.outputs);
        let discard = || discard_changes(&outputs);
        while leadership.during(&mut stopping, discard, self.lead()).await {
            info!("another replica is the leader and writes statuses from here on");
            // A write of a former leader may be older than those of the new one.
            self.in_flight.shutdown().await;
            self.queue = Queue::default();
            self.warnings = Warnings::default();
            self.blamed = Blamed::default();
            self.symptoms = ShownSymptoms::default();
            self.metrics.set_missing_targets(0);
            self.metrics.set_unavailable(0);
            self.measures.set_failing(0);
            // Another leader saw who was connected meanwhile.
            self.presence = Presence::default();
        }
    }

    async fn lead(&mut self) {
        let first = Instant::now() + COMPARISON_INTERVAL;
        let mut comparison = interval_at(first, COMPARISON_INTERVAL);
        let outputs = Arc::clone(&self.outputs);
        self.symptoms.begin(shown_in(&outputs), Instant::now());
        self.compare_all();
        self.warn(outputs.statuses.keys().iter());
        self.warn(outputs.diagnoses.keys().iter());
        loop {
            let wake_at = self.start_writes().await;
            self.metrics.set_backlog(self.queue.backlog());
            self.measures.set_failing(self.queue.failing());
            let absent_at = self.presence.next_change();
            let warn_at = self.warnings.next_at(Instant::now());
            tokio::select! {
                objects = outputs.statuses.changed() => self.changed(&objects),
                objects = outputs.diagnoses.changed() => self.changed(&objects),
                objects = outputs.invalid.changed() => self.changed(&objects),
                objects = outputs.oversized.changed() => self.push(&objects),
                objects = outputs.observed.changed() => self.observed(&objects),
                gateways = outputs.acknowledgements.changed() => {
                    for gateway in &gateways {
                        self.acknowledged(gateway);
                    }
                }
                gateways = outputs.deployments.changed() => self.deployed(&gateways),
                gateways = outputs.pods.changed() => self.deployed(&gateways),
                gateways = outputs.workload_problems.changed() => self.deployed(&gateways),
                gateways = outputs.session_key_problems.changed() => self.push_gateways(&gateways),
                gateways = outputs.service_ports.changed() => self.push_gateways(&gateways),
                Some((object, result)) = self.in_flight.next() => self.done(&object, result),
                () = until(absent_at) => {
                    let gateways = self.presence.take_absent(Instant::now());
                    self.push_gateways(&gateways);
                }
                () = until(self.symptoms.next_change()) => {
                    let objects = self.symptoms.take_due(Instant::now());
                    self.warn(objects.iter());
                    self.push(&objects);
                }
                () = until(warn_at) => {
                    let waiting = self.warnings.take_waiting(Instant::now());
                    self.warn(waiting.iter());
                }
                _ = comparison.tick() => self.compare_all(),
                () = until(wake_at) => {}
            }
        }
    }

    /// Queues every object: most will need no write.
    fn compare_all(&mut self) {
        let mut gateways: BTreeSet<_> = self.outputs.acknowledgements.keys().into_iter().collect();
        // Some may have none any more since this replica was the leader before.
        gateways.extend(self.acknowledgements.keys().cloned());
        for gateway in &gateways {
            self.acknowledged(gateway);
        }
        let now = Instant::now();
        for object in self.outputs.observed.keys() {
            if object.kind == ObjectKind::Gateway {
                self.presence.gateway(&object.name, now);
            }
            self.queue.compare(&object, now);
        }
    }

    fn changed(&mut self, objects: &BTreeSet<ObjectRef>) {
        self.warn(objects.iter());
        self.push(objects);
    }

    fn push(&mut self, objects: &BTreeSet<ObjectRef>) {
        let now = Instant::now();
        for object in objects {
            self.queue.push(object, now);
        }
    }

    fn observed(&mut self, objects: &BTreeSet<ObjectRef>) {
        let now = Instant::now();
        for object in objects {
            let is_gateway = object.kind == ObjectKind::Gateway;
            if self.outputs.observed.get(object).is_some() {
                self.queue.observed(object, now);
                if is_gateway {
                    self.presence.gateway(&object.name, now);
                }
            } else {
                self.queue.forget(object);
                if is_gateway {
                    self.presence.forget(&object.name);
                }
            }
        }
    }

    /// The objects or pods of Gateways have changed.
    fn deployed(&mut self, gateways: &BTreeSet<ObjectName>) {
        let objects = gateways.iter();
        let objects = objects.map(|it| ObjectRef::new(ObjectKind::Gateway, it));
        self.warn(objects.collect::<Vec<_>>().iter());
        self.push_gateways(gateways);
    }

    /// Queues Gateways with their ListenerSets.
    fn push_gateways(&mut self, gateways: &BTreeSet<ObjectName>) {
        for gateway in gateways {
            let mut objects = BTreeSet::from([ObjectRef::new(ObjectKind::Gateway, gateway)]);
            let listeners = self.outputs.listener_binds.of_gateway(gateway);
            objects.extend(listeners.iter().filter_map(|(key, _)| object_of(key)));
            self.push(&objects);
        }
    }

    /// Queues the objects for which a Gateway's acknowledgements have changed.
    fn acknowledged(&mut self, gateway: &ObjectName) {
        let after = self.outputs.acknowledgements.get(gateway);
        let before = match &after {
            Some(after) => self
                .acknowledgements
                .insert(gateway.clone(), Arc::clone(after)),
            None => self.acknowledgements.remove(gateway),
        };
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        self.presence
            .connected(gateway, after.connected > 0, Instant::now());
        let mut objects = BTreeSet::from([ObjectRef::new(ObjectKind::Gateway, gateway)]);
        let changed = changed_resources(&before, &after);
        objects.extend(changed.into_iter().filter_map(object_of));
        for object in before.refused.keys().filter_map(object_of) {
            if let Some(refusals) = self.refused.get_mut(&object) {
                refusals.remove(gateway);
                if refusals.is_empty() {
                    self.refused.remove(&object);
                }
            }
        }
        for (resource, why) in &after.refused {
            if let Some(object) = object_of(resource) {
                let refusals = self.refused.entry(object).or_default();
                refusals.insert(gateway.clone(), why.clone());
            }
        }
        let refused = before.refused.keys().chain(after.refused.keys());
        let refused: BTreeSet<ObjectRef> = refused.filter_map(object_of).collect();
        let policies = self
            .symptoms
            .observe(gateway, (&before, &after), Instant::now());
        self.warn(policies.union(&refused));
        objects.extend(policies);
        self.push(&objects);
    }

    /// Starts every due write. Returns when the next one is due.
    async fn start_writes(&mut self) -> Option<Instant> {
        let mut taken = 0;
        loop {
            let object = match self.queue.next(Instant::now()) {
                NextAction::Take(object) => object,
                NextAction::At(at) => return Some(at),
                NextAction::Idle => return None,
            };
            match self.in_flight.run(&object, || self.plan(&object)) {
                Ok(Some((write, version))) => self.start(object, write, version),
                Ok(None) => self.unchanged(&object),
                Err(_) => {
                    let now = Instant::now();
                    self.queue.done(&object, Outcome::Refused, now);
                }
            }
            taken += 1;
            // Comparing everything takes a while: yield.
            if taken % COMPARISONS_PER_YIELD == 0 {
                yield_now().await;
            }
        }
    }

    fn unchanged(&mut self, object: &ObjectRef) {
        self.queue.done(object, Outcome::Unchanged, Instant::now());
        if self.outputs.observed.get(object).is_none() {
            // It was deleted, and its translation ended only then.
            self.queue.forget(object);
        }
    }

    fn plan(&self, object: &ObjectRef) -> Option<(Write, String)> {
        #[cfg(test)]
        tests::panic_if_wanted(object);
        let observed = self.outputs.observed.get(object)?;
        let translated = self.outputs.statuses.get(object);
        let (gateway, listeners) = self.listeners(object);
        let now = Instant::now();
        let are_gone = |it: &ObjectName| self.presence.is_absent(it, now);
        let are_proxies_gone = gateway.as_ref().is_some_and(are_gone);
        let deployment = gateway.map(|it| self.deployment(&it));
        let nothing = BTreeMap::new();
        let refused = self.refused.get(object).unwrap_or(&nothing);
        let symptoms = SymptomInputs {
            known: self.symptoms.of(object),
            is_carried: self.symptoms.is_carried(object),
        };
        let gateways_of_sets = match &translated {
            Some(status) if !refused.is_empty() || symptoms.known.is_some() => {
                self.gateways_of_sets(object, status)
            }
            _ => BTreeMap::new(),
        };
        let is_gateway = object.kind == ObjectKind::Gateway;
        let session_keys = is_gateway.then(|| self.outputs.session_key_problems.get(&object.name));
        let workload = is_gateway.then(|| self.outputs.workload_problems.get(&object.name));
        let inputs = StatusInputs {
            observed: &observed,
            translated: translated.as_deref(),
            deployment: deployment.unwrap_or_default(),
            are_proxies_gone,
            listeners,
            refused,
            session_keys: session_keys.flatten(),
            workload: workload.flatten(),
            symptoms,
            gateways_of_sets,
            diagnoses: self.outputs.diagnoses.get(object),
            invalid: self
                .outputs
                .invalid
                .get(object)
                .or_else(|| self.outputs.oversized.get(object)),
        };
        let author = Author {
            controller_name: &self.controller_name,
            generation: observed.generation,
            now: Timestamp::now(),
            name: if self.outputs.claims.are_shared() {
                NameUse::Shared
            } else {
                NameUse::Own
            },
        };
        let write = plan(object, &inputs, author)?;
        Some((write, observed.resource_version.to_string()))
    }

    /// The state of a Gateway's objects and of their pods.
    fn deployment(&self, gateway: &ObjectName) -> Deployment {
        let deployment = self.outputs.deployments.get(gateway).unwrap_or_default();
        deployment.with_pods(self.outputs.pods.get(gateway))
    }

    fn gateways_of_sets(
        &self,
        object: &ObjectRef,
        status: &Status,
    ) -> BTreeMap<ObjectName, ObjectName> {
        let sets = listener_sets_in(status, &object.name.namespace).into_iter();
        let with_gateway = sets.filter_map(|set| {
            let prefix = format!("{}/{set}/", ObjectKind::ListenerSet);
            let (gateway, _) = self.outputs.listener_binds.starting_with(&prefix)?;
            Some((set, gateway))
        });
        with_gateway.collect()
    }

    /// The Gateway of an object with listeners, and their acknowledgements.
    fn listeners(&self, object: &ObjectRef) -> (Option<ObjectName>, BTreeMap<String, AckCount>) {
        let binds = &self.outputs.listener_binds;
        let own = format!("{}/{}/", object.kind, object.name);
        let (gateway, listeners) = match object.kind {
            // With those of its ListenerSets.
            ObjectKind::Gateway => (object.name.clone(), binds.of_gateway(&object.name)),
            ObjectKind::ListenerSet => match binds.starting_with(&own) {
                Some(found) => found,
                None => return (None, BTreeMap::new()),
            },
            _ => return (None, BTreeMap::new()),
        };
        let known = self.acknowledgements.get(&gateway);
        let ports = self.outputs.service_ports.get(&gateway);
        let counts = ack_counts(&listeners, known.map(|it| &**it), ports.as_ref(), &own);
        (Some(gateway), counts)
    }

    fn start(&mut self, object: ObjectRef, write: Write, version: String) {
        if write.left_out > 0 {
            warn!(
                %object,
                entries = write.left_out,
                "the status has no room for all entries of this controller"
            );
        }
        let client = self.client.clone();
        let outputs = Arc::clone(&self.outputs);
        let metrics = self.metrics.clone();
        let written = object.clone();
        self.in_flight.start(object, async move {
            let object = written;
            let outcome = send(client, &object, &write).await;
            metrics.count(outcome);
            match outcome {
                Outcome::Conflict { .. } => {
                    let now = outputs.observed.get(&object);
                    let is_known = now.is_some_and(|it| *it.resource_version != *version);
                    Outcome::Conflict { is_known }
                }
                other => other,
            }
        });
    }

    fn done(&mut self, object: &ObjectRef, result: Result<Outcome, Panic>) {
        let outcome = result.unwrap_or(Outcome::Refused);
        self.queue.done(object, outcome, Instant::now());
        if self.outputs.observed.get(object).is_none() {
            self.queue.forget(object);
        }
    }
}

/// The objects whose status in the cluster has the condition that only proxies can take back.
fn shown_in(outputs: &Outputs) -> BTreeSet<ObjectRef> {
    let condition = ConditionType::DependencyUnavailable.to_string();
    let has_it = |object: &ObjectRef| {
        let observed = outputs.observed.get(object);
        observed.is_some_and(|it| it.status.contains(&condition))
    };
    outputs.observed.keys().into_iter().filter(has_it).collect()
}

/// Discards the changes that `StatusWriter::lead` follows.
fn discard_changes(outputs: &Outputs) {
    outputs.statuses.discard_changes();
    outputs.diagnoses.discard_changes();
    outputs.invalid.discard_changes();
    outputs.oversized.discard_changes();
    outputs.observed.discard_changes();
    outputs.acknowledgements.discard_changes();
    outputs.deployments.discard_changes();
    outputs.pods.discard_changes();
    outputs.workload_problems.discard_changes();
    outputs.session_key_problems.discard_changes();
    outputs.service_ports.discard_changes();
}

/// Interval of comparing everything, in case a watch missed a change: 10 min.
const COMPARISON_INTERVAL: Duration = Duration::from_mins(10);
/// Objects compared before a yield: 64.
const COMPARISONS_PER_YIELD: usize = 64;

mod warn;

#[cfg(test)]
mod tests;
