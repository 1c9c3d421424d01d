//! The task that deploys Gateways and reports their deployment and addresses.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at, timeout};
use tracing::{info, warn};
use translate::api;
use translate::{AssignedAddresses, ObjectRef};
use xds::model::ObjectName;

use super::applier::{Applier, Result, hash_all};
use super::child::{Child, ChildKind};
use super::parameters::Parameters;
use super::render::{Defaults, RenderInput, render};
use super::watch::Children;
use super::{labels, watch as watches};
use crate::args::{RunArgs, XdsMode};
use crate::leadership::Leadership;
use crate::outputs::{ExistingGateway, Outputs};
use crate::queue::{NextAction, Outcome, Queue, outcome_of, until};
use crate::status::Deployment;
use crate::stopping::Stopping;
use crate::xds::AUDIENCE;

/// The deployment settings of the controller.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Settings common to the proxies of all Gateways, except the authorities.
    pub defaults: Defaults,
    /// Whether proxies connect with TLS, and so need authorities.
    pub is_encrypted: bool,
}

impl Settings {
    /// The settings of the command line.
    #[must_use]
    pub fn of(args: &RunArgs) -> Self {
        let is_encrypted = args.xds_mode != XdsMode::Plaintext;
        let scheme = if is_encrypted { "https" } else { "http" };
        let (service, namespace) = (&args.service, &args.namespace);
        let port = args.xds_address.port();
        Self {
            defaults: Defaults {
                image: args.proxy_image.clone(),
                image_pull_policy: args.proxy_image_pull_policy.clone(),
                xds_address: format!("{scheme}://{service}.{namespace}.svc:{port}"),
                authorities: None,
                audience: AUDIENCE.to_owned(),
            },
            is_encrypted,
        }
    }
}

/// Applies and deletes the workloads of Gateways.
pub struct Deployer {
    input: Arc<Sources>,
    applier: Applier,
    queue: Queue,
    in_flight: JoinSet<(ObjectRef, Outcome)>,
}

/// The inputs of a deployment, read when it is made.
struct Sources {
    client: Client,
    outputs: Arc<Outputs>,
    settings: Settings,
    children: Arc<Children>,
}

impl Deployer {
    /// `client` must not retry requests: the pace of writes is decided here.
    #[must_use]
    pub fn new(client: Client, outputs: Arc<Outputs>, settings: Settings) -> Self {
        let children = Arc::new(Children::default());
        Self {
            applier: Applier::new(client.clone(), Arc::clone(&children)),
            input: Arc::new(Sources {
                client,
                outputs,
                settings,
                children,
            }),
            queue: Queue::default(),
            in_flight: JoinSet::new(),
        }
    }

    /// Watches, so that every replica knows the addresses; deploys while this one is the leader.
    pub async fn run(mut self, mut leadership: Leadership, mut stopping: Stopping) {
        let outputs = Arc::clone(&self.input.outputs);
        let assigned = move |gateway: &ObjectName, addresses: AssignedAddresses| {
            let addresses = (!addresses.is_empty()).then_some(addresses);
            outputs.addresses.set(gateway, addresses);
        };
        let _watches = watches::start(&self.input.client, &self.input.children, assigned);
        tokio::select! {
            () = self.input.children.listed() => {}
            () = stopping.stopped() => return,
        }
        self.input.outputs.addresses_known.send_replace(true);
        let sources = Arc::clone(&self.input);
        let discard = || sources.discard_changes();
        while leadership.during(&mut stopping, discard, self.lead()).await {
            info!("another replica is the leader and deploys from here on");
            self.in_flight.shutdown().await;
            self.queue = Queue::default();
            // They are outdated when this replica is the leader again.
            let deployments = &sources.outputs.deployments;
            let gateways = deployments.keys().into_iter();
            deployments.set_all(gateways.map(|gateway| (gateway, None)));
        }
    }

    async fn lead(&mut self) {
        let sources = Arc::clone(&self.input);
        let outputs = &sources.outputs;
        let mut authorities = outputs.authorities.subscribe();
        // Before the first translation, nothing is cleaned up.
        let mut translated = outputs.translated.subscribe();
        let first = Instant::now() + COMPARISON_INTERVAL;
        let mut comparison = interval_at(first, COMPARISON_INTERVAL);
        self.push_all();
        loop {
            let wake_at = self.start();
            tokio::select! {
                gateways = outputs.infrastructure.changed() => self.push(gateways),
                gateways = outputs.ports.changed() => self.push(gateways),
                gateways = outputs.gateways.changed() => self.push(gateways),
                _ = outputs.parameters.changed() => self.push_all(),
                _ = outputs.class_parameters.changed() => self.push_all(),
                children = sources.children.changed.changed() => self.observed(&children),
                Ok(()) = authorities.changed() => self.push_all(),
                Ok(()) = translated.changed() => self.push_all(),
                Some(done) = self.in_flight.join_next() => {
                    if let Ok((gateway, outcome)) = done {
                        self.queue.done(&gateway, outcome, Instant::now());
                        // A Gateway that is not ours any more may need a clean-up.
                        if outputs.gateways.get(&gateway.name).is_none() {
                            self.queue.forget(&gateway);
                        }
                    }
                }
                _ = comparison.tick() => self.push_all(),
                () = until(wake_at) => {}
            }
        }
    }

    fn push_all(&mut self) {
        let outputs = Arc::clone(&self.input.outputs);
        self.push(outputs.gateways.keys());
        self.push(outputs.infrastructure.keys());
    }

    fn push(&mut self, gateways: impl IntoIterator<Item = ObjectName>) {
        for gateway in gateways {
            let gateway = ObjectRef::of::<api::Gateway>(&gateway);
            // The change may resolve a rejected Gateway's conflict.
            self.queue.observed(&gateway, Instant::now());
        }
    }

    /// Queues the Gateways whose objects have changed; for deleted objects by name.
    fn observed(&mut self, children: &BTreeSet<Child>) {
        let all = self.input.outputs.infrastructure.keys();
        let touched = all.into_iter().filter(|gateway| {
            let names = [
                labels::child_name(&gateway.name),
                labels::service_name(&gateway.name),
                labels::service_name(&format!("{}-metrics", gateway.name)),
            ];
            let mut children = children.iter();
            children.any(|it| {
                it.name.namespace == gateway.namespace
                    && names.iter().any(|name| **name == *it.name.name)
            })
        });
        let touched: Vec<_> = touched.collect();
        self.push(touched);
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
            self.in_flight.spawn(async move {
                let outcome = sources.deploy(&applier, &gateway).await;
                (gateway, outcome)
            });
        }
    }
}

impl Sources {
    /// Discards the changes that `Deployer::lead` follows.
    fn discard_changes(&self) {
        let outputs = &self.outputs;
        outputs.infrastructure.discard_changes();
        outputs.ports.discard_changes();
        outputs.gateways.discard_changes();
        outputs.parameters.discard_changes();
        outputs.class_parameters.discard_changes();
        self.children.changed.discard_changes();
    }

    /// Deploys a Gateway in its current version.
    async fn deploy(&self, applier: &Applier, gateway: &ObjectRef) -> Outcome {
        let name = &gateway.name;
        let mut input = match self.input(gateway).await {
            Ok(Some(input)) => input,
            Ok(None) => return self.clean_up(applier, gateway).await,
            Err(why) => {
                self.outputs
                    .deployments
                    .set(name, Some(Deployment::Refused(why)));
                return Outcome::Unchanged;
            }
        };
        let mut defaults = self.settings.defaults.clone();
        if self.settings.is_encrypted {
            let authorities = self.outputs.authorities.borrow();
            if authorities.is_empty() {
                // Proxies could not start without authorities.
                return Outcome::Unchanged;
            }
            defaults.authorities = Some(authorities.to_string());
        }
        let mut objects = render(&input, &defaults);
        let mut result = applier.apply_all(&input.uid, &objects).await;
        if matches!(result, Result::Refused(_)) && input.release_cluster_ip() {
            // It may be in use, outside the range, or not assignable: the other addresses of the
            // Gateway do not depend on it, and its status reports this one.
            objects = render(&input, &defaults);
            result = applier.apply_all(&input.uid, &objects).await;
        }
        let (deployment, outcome) = match result {
            Result::Done { has_written: true } => {
                (Some(Deployment::Done), Outcome::Written(hash_all(&objects)))
            }
            Result::Done { has_written: false } => (Some(Deployment::Done), Outcome::Unchanged),
            Result::Refused(why) => {
                warn!(%gateway, why, "cannot deploy");
                (Some(Deployment::Refused(why)), Outcome::Refused)
            }
            Result::Waiting => (None, Outcome::Refused),
            Result::Unanswered => (None, Outcome::Unavailable),
            Result::Failed(error) => {
                warn!(%gateway, %error, "cannot deploy yet; retrying");
                (None, outcome_of(&error))
            }
        };
        // A temporary failure does not change the deployment.
        if deployment.is_some() {
            self.outputs.deployments.set(name, deployment);
        }
        outcome
    }

    /// Deletes the workload of a Gateway whose class was changed to another controller's. If the
    /// class was deleted, the workload stays: no other controller serves it.
    async fn clean_up(&self, applier: &Applier, gateway: &ObjectRef) -> Outcome {
        let name = &gateway.name;
        // Before the first translation, no Gateway would seem to be ours.
        if !*self.outputs.translated.borrow() || self.outputs.infrastructure.get(name).is_some() {
            return Outcome::Unchanged;
        }
        let Some(ExistingGateway {
            uid,
            class: Some(class),
        }) = self.outputs.gateways.get(name)
        else {
            return Outcome::Unchanged;
        };
        match applier
            .delete_of_other_class(&uid, &labels::child_name(&class))
            .await
        {
            Result::Failed(error) => {
                warn!(%gateway, %error, "cannot delete the Gateway's resources yet");
                outcome_of(&error)
            }
            Result::Unanswered => Outcome::Unavailable,
            _ => Outcome::Unchanged,
        }
    }

    /// The input for rendering a Gateway's workload. `None` if the Gateway belongs to another
    /// controller, is being deleted, or has lost its parameters: its workload stays then, and its
    /// status reports it.
    async fn input(&self, gateway: &ObjectRef) -> std::result::Result<Option<RenderInput>, String> {
        let name = &gateway.name;
        let infrastructure = self.outputs.infrastructure.get(name);
        let present = self.outputs.gateways.get(name);
        let (Some(infrastructure), Some(ExistingGateway { uid, .. })) = (infrastructure, present)
        else {
            self.outputs.deployments.set(name, None);
            return Ok(None);
        };
        let is_lost = |it: &ObjectName| self.outputs.parameters.get(it).is_none();
        if infrastructure.parameters.as_ref().is_some_and(is_lost) {
            return Ok(None);
        }
        let own = self.parameters(infrastructure.parameters.as_ref())?;
        let class = self.class_parameters(&infrastructure.class)?;
        let workload = Child {
            kind: ChildKind::Deployment,
            name: ObjectName::new(&name.namespace, &labels::child_name(&name.name)),
        };
        let seen = self.children.get(&workload);
        Ok(Some(RenderInput {
            name: name.clone(),
            uid: uid.to_string(),
            ports: self.outputs.ports.get(name).unwrap_or_default(),
            parameters: own.or(class),
            enforces_restricted: self.enforces_restricted(&name.namespace).await,
            is_autoscaled: seen.is_some_and(|it| it.is_autoscaled),
            infrastructure: Arc::unwrap_or_clone(infrastructure),
        }))
    }

    fn class_parameters(&self, class: &str) -> std::result::Result<Parameters, String> {
        match self.outputs.class_parameters.get(&class.to_owned()) {
            None => Ok(Parameters::default()),
            Some(Ok(name)) => self.parameters(Some(&name)),
            Some(Err(why)) => Err(format!("GatewayClass {class}: {why}")),
        }
    }

    fn parameters(&self, name: Option<&ObjectName>) -> std::result::Result<Parameters, String> {
        let Some(name) = name else {
            return Ok(Parameters::default());
        };
        let spec = self.outputs.parameters.get(name);
        let spec =
            spec.ok_or_else(|| format!("GatewayParameters {name} does not exist: create it"))?;
        Parameters::parse(&spec).map_err(|error| {
            format!("GatewayParameters {name} is invalid: {error}; use this version's fields")
        })
    }

    /// The namespace's pod security standard. If unknown, pods are created normally: admission
    /// rejects them if needed.
    async fn enforces_restricted(&self, namespace: &str) -> bool {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let found = timeout(NAMESPACE_DEADLINE, namespaces.get_metadata(namespace)).await;
        let Ok(Ok(found)) = found else {
            return false;
        };
        let label = found.metadata.labels.unwrap_or_default();
        label
            .get(ENFORCE)
            .is_some_and(|level| level == "restricted")
    }
}

/// Interval of comparing everything: 10 min.
const COMPARISON_INTERVAL: Duration = Duration::from_mins(10);
/// Timeout for reading a namespace: 10 s.
const NAMESPACE_DEADLINE: Duration = Duration::from_secs(10);
/// The label with the security standard that a namespace enforces.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

#[cfg(test)]
mod tests;
