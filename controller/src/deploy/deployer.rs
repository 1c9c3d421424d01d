//! The task that deploys Gateways and reports their deployment and addresses.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, interval_at};
use tracing::info;
use translate::ObjectRef;
use translate::api;
use xds::model::ObjectName;

use super::addresses::{AddressBook, NodeReading, follow_nodes};
use super::applier::Applier;
use super::attempt::{Attempt, Sources};
use super::availability::Availability;
use super::child::Child;
use super::settings::Settings;
use super::watch::Children;
use super::{labels, watch as watches};
use crate::leadership::Leadership;
use crate::outputs::Outputs;
use crate::queue::{NextAction, Panic, Queue, QueueMeasures, Tasks, WriterMeasures, until};
use crate::status::Deployment;
use crate::stopping::Stopping;

/// Applies and deletes the workloads of Gateways.
pub struct Deployer {
    input: Arc<Sources>,
    applier: Applier,
    queue: Queue,
    in_flight: Tasks<Attempt>,
    measures: WriterMeasures,
    addresses: Arc<AddressBook>,
}

impl Deployer {
    /// `client` must not retry requests: the pace of writes is decided here.
    #[must_use]
    pub fn new(
        client: Client,
        outputs: Arc<Outputs>,
        settings: Settings,
        measures: &QueueMeasures,
    ) -> Self {
        let children = Arc::new(Children::default());
        let measures = measures.of("deployer");
        Self {
            addresses: Arc::new(AddressBook::new(Arc::clone(&outputs), settings.nodes)),
            applier: Applier::new(client.clone(), Arc::clone(&children)),
            input: Arc::new(Sources {
                client,
                outputs,
                settings,
                children,
            }),
            queue: Queue::default(),
            in_flight: Tasks::new(measures.clone()),
            measures,
        }
    }

    /// Watches, so that every replica knows the addresses; deploys while this one is the leader.
    pub async fn run(mut self, leadership: Leadership, stopping: Stopping) {
        let outputs = Arc::clone(&self.input.outputs);
        let (client, book) = (&self.input.client, Arc::clone(&self.addresses));
        let mut watches = watches::start(client, &self.input.children, &outputs, &book);
        if self.input.settings.nodes == NodeReading::Enabled {
            watches.spawn(follow_nodes(client.clone(), Arc::clone(&book)));
        }
        watches.spawn(async move { book.publish_later().await });
        tokio::select! {
            () = self.follow(leadership, stopping) => {}
            () = pass_on_panic(watches) => {}
        }
    }

    async fn follow(&mut self, mut leadership: Leadership, mut stopping: Stopping) {
        let read = async {
            self.input.children.listed().await;
            self.addresses.nodes_read().await;
        };
        tokio::select! {
            () = read => {}
            () = stopping.stopped() => return,
        }
        self.addresses.open();
        self.input.outputs.addresses_known.send_replace(true);
        let sources = Arc::clone(&self.input);
        let discard = || sources.discard_changes();
        loop {
            let availability = Availability::new(Arc::clone(&sources));
            let lead = async {
                tokio::select! {
                    () = self.lead() => {}
                    () = availability.lead() => {}
                }
            };
            if !leadership.during(&mut stopping, discard, lead).await {
                return;
            }
            info!("another replica is the leader and deploys from here on");
            self.in_flight.shutdown().await;
            self.queue = Queue::default();
            self.measures.set_failing(0);
            // They are outdated when this replica is the leader again.
            let deployments = &sources.outputs.deployments;
            let gateways = deployments.keys().into_iter();
            deployments.set_all(gateways.map(|gateway| (gateway, None)));
            let problems = &sources.outputs.workload_problems;
            let gateways = problems.keys().into_iter();
            problems.set_all(gateways.map(|gateway| (gateway, None)));
            let pods = &sources.outputs.pods;
            let gateways = pods.keys().into_iter();
            pods.set_all(gateways.map(|gateway| (gateway, None)));
        }
    }

    async fn lead(&mut self) {
        let sources = Arc::clone(&self.input);
        let outputs = &sources.outputs;
        let mut authorities = outputs.authorities.subscribe();
        let mut decisions = outputs.claims.decisions();
        // Before the first translation, nothing is cleaned up.
        let mut translated = outputs.translated.subscribe();
        let first = Instant::now() + COMPARISON_INTERVAL;
        let mut comparison = interval_at(first, COMPARISON_INTERVAL);
        self.push_all();
        loop {
            let wake_at = self.start();
            self.measures.set_failing(self.queue.failing());
            tokio::select! {
                gateways = outputs.infrastructure.changed() => self.push(gateways),
                gateways = outputs.ports.changed() => self.push(gateways),
                gateways = outputs.gateways.changed() => self.push_existing(gateways),
                parameters = outputs.parameters.changed() => self.push_users(&parameters),
                classes = outputs.class_parameters.changed() => self.push_of_classes(&classes),
                children = sources.children.changed.changed() => self.observed(&children),
                namespaces = sources.children.namespaces.changed() => self.push_within(&namespaces),
                Ok(()) = authorities.changed() => self.push(outputs.infrastructure.keys()),
                Ok(()) = translated.changed() => self.push_all(),
                Ok(()) = decisions.changed() => self.push_all(),
                Some((gateway, result)) = self.in_flight.next() => self.done(&gateway, result),
                _ = comparison.tick() => self.push_all(),
                () = until(wake_at) => {}
            }
        }
    }

    fn done(&mut self, gateway: &ObjectRef, result: Result<Attempt, Panic>) {
        let (name, now) = (&gateway.name, Instant::now());
        let attempt = result.unwrap_or_else(|panic| Attempt::panicked(&panic));
        self.queue.done(gateway, attempt.outcome, now);
        let deployments = &self.input.outputs.deployments;
        let problems = &self.input.outputs.workload_problems;
        if self.input.outputs.gateways.get(name).is_none() {
            // A Gateway that is not ours any more may need a clean-up.
            self.queue.forget(gateway);
            deployments.set(name, None);
            problems.set(name, None);
            return;
        }
        if let Some(refused) = attempt.refused {
            problems.set(name, Some(refused.into()));
        }
        let failing_for = self.queue.failing_for(gateway, now).unwrap_or_default();
        let lasting = attempt.problem.filter(|_| failing_for >= REPORTED_AFTER);
        let deployment = attempt.deployment.or(lasting.map(Deployment::Refused));
        if deployment.is_some() {
            deployments.set(name, deployment);
        }
    }

    /// Compares everything. Gateways that fail keep their pace: it is not because of them.
    fn push_all(&mut self) {
        let outputs = Arc::clone(&self.input.outputs);
        let gateways = outputs.gateways.keys().into_iter();
        let now = Instant::now();
        for gateway in gateways.chain(outputs.infrastructure.keys()) {
            let gateway = ObjectRef::of::<api::Gateway>(&gateway);
            self.queue.compare(&gateway, now);
        }
    }

    /// Queues Gateways that were created, changed or deleted, and those whose metrics Service has the
    /// name of one of them.
    fn push_existing(&mut self, gateways: BTreeSet<ObjectName>) {
        let others = gateways.iter().filter_map(|it| {
            let name = it.name.strip_suffix(labels::METRICS_SUFFIX)?;
            Some(ObjectName::new(&it.namespace, name))
        });
        let known = &self.input.outputs.infrastructure;
        let others: Vec<_> = others.filter(|it| known.get(it).is_some()).collect();
        self.push(gateways);
        self.push(others);
    }

    /// Queues the Gateways that are deployed with one of these parameters.
    fn push_users(&mut self, parameters: &BTreeSet<ObjectName>) {
        let outputs = Arc::clone(&self.input.outputs);
        let is_user = |gateway: &ObjectName| {
            let infrastructure = outputs.infrastructure.get(gateway);
            infrastructure.is_some_and(|it| {
                let of_class = outputs.class_parameters.get(&it.class).and_then(Result::ok);
                let mut used = it.parameters.iter().chain(&of_class);
                used.any(|name| parameters.contains(name))
            })
        };
        let gateways = outputs.infrastructure.keys().into_iter();
        self.push(gateways.filter(is_user));
    }

    /// Queues the Gateways of these classes.
    fn push_of_classes(&mut self, classes: &BTreeSet<String>) {
        let outputs = Arc::clone(&self.input.outputs);
        let is_of = |gateway: &ObjectName| {
            let infrastructure = outputs.infrastructure.get(gateway);
            infrastructure.is_some_and(|it| classes.contains(&*it.class))
        };
        let gateways = outputs.infrastructure.keys().into_iter();
        self.push(gateways.filter(is_of));
    }

    fn push_within(&mut self, namespaces: &BTreeSet<String>) {
        let gateways = self.input.outputs.infrastructure.keys().into_iter();
        self.push(gateways.filter(|it| namespaces.contains(&*it.namespace)));
    }

    fn push(&mut self, gateways: impl IntoIterator<Item = ObjectName>) {
        for gateway in gateways {
            let gateway = ObjectRef::of::<api::Gateway>(&gateway);
            // The change may resolve a rejected Gateway's conflict.
            self.queue.observed(&gateway, Instant::now());
        }
    }

    /// Queues the Gateways whose objects have changed.
    fn observed(&mut self, children: &BTreeSet<Child>) {
        let gateways: BTreeSet<_> = { children.iter() }
            .flat_map(|child| self.input.gateways_of(child))
            .collect();
        self.push(gateways);
    }

    /// Starts due deployments. Returns when the next one is due.
    fn start(&mut self) -> Option<Instant> {
        loop {
            let gateway = match self.queue.next(Instant::now()) {
                NextAction::Take(gateway) => gateway,
                NextAction::At(at) => return Some(at),
                NextAction::Idle => return None,
            };
            let (sources, applier) = (Arc::clone(&self.input), self.applier.clone());
            let deployed = gateway.clone();
            let attempt = async move { sources.deploy(&applier, &deployed).await };
            self.in_flight.start(gateway, attempt);
        }
    }
}

/// Waits until one of the watches panics, and then panics too, which ends the process: without it,
/// Gateways would be deployed and reported by what was there before.
async fn pass_on_panic(mut watches: JoinSet<()>) {
    while let Some(ended) = watches.join_next().await {
        if let Err(Ok(panic)) = ended.map_err(JoinError::try_into_panic) {
            resume_unwind(panic);
        }
    }
    std::future::pending::<()>().await;
}

/// Interval of comparing everything: 10 min.
const COMPARISON_INTERVAL: Duration = Duration::from_mins(10);
/// How long a deployment fails before its Gateway's status says so: 5 s. Shorter disturbances, such as
/// a restart of the API server, are nobody's concern.
const REPORTED_AFTER: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
