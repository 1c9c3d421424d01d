//! Applies the objects of one Gateway: server-side apply with one field manager. Requests that need not
//! wait for each other are sent together: what a Gateway waits for is the time of three, not of ten.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::info;

use super::at_once::at_once;
use super::child::{Action, Applied, Child, ChildKind, ObservedChild, action};
use super::labels::{self, MANAGER};
use super::pod_counts::PodCounts;
use super::render::{Rendered, ServiceUse};
use super::watch::Children;
use crate::queue::{Outcome, outcome_of};

/// Applies objects. Clones are equivalent.
#[derive(Clone)]
pub(super) struct Applier {
    client: Client,
    children: Arc<Children>,
    applied: Arc<Mutex<BTreeMap<Child, Applied>>>,
}

/// A Gateway, as the owner of objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    /// Whether it has a Service for its listeners.
    pub(super) service: ServiceUse,
}

/// The result of applying the objects of a Gateway.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Whether anything had to be written.
    pub(super) has_written: bool,
    /// What is done later, when something in the cluster is ready.
    pub(super) unfinished: Option<String>,
    /// The first problem.
    pub(super) problem: Option<Problem>,
}

/// Why an object could not be applied.
#[derive(Debug)]
pub(super) struct Problem {
    /// What is wrong, with advice.
    pub(super) text: String,
    pub(super) outcome: Outcome,
    /// Whether the next attempt will fail too, unless something changes.
    pub(super) is_final: bool,
}

impl Problem {
    /// The object as it is cannot be applied.
    pub(super) fn refused(text: String) -> Self {
        Self {
            text,
            outcome: Outcome::Refused,
            is_final: true,
        }
    }

    /// Something else has to happen first.
    pub(super) fn waiting(text: String) -> Self {
        Self {
            text,
            outcome: Outcome::Refused,
            is_final: false,
        }
    }

    fn of(child: &Child, failure: Failure) -> Self {
        let error = match failure {
            Failure::Other(problem) => return problem,
            Failure::Api(error) => error,
            Failure::Unanswered => {
                return Self {
                    text: format!("the API server did not respond to a request for {child}"),
                    outcome: Outcome::Unavailable,
                    is_final: false,
                };
            }
        };
        let outcome = outcome_of(&error);
        let kube::Error::Api(status) = &error else {
            return Self {
                text: format!("a request for {child} failed: {error}"),
                outcome,
                is_final: false,
            };
        };
        let advice = match status.code {
            // An overlay may make the object invalid.
            400 | 422 => "check the GatewayParameters",
            403 => "check the quotas of the namespace, and the controller's RBAC rules",
            // API servers answer undeclared fields so (kubernetes#139253).
            500 => "check the overlays of the GatewayParameters, and admission webhooks",
            _ => "the controller tries again",
        };
        Self {
            text: format!(
                "the API server rejected {child}: {}; {advice}",
                status.message
            ),
            outcome,
            is_final: outcome == Outcome::Refused,
        }
    }
}

/// Why a request failed, or was not sent.
enum Failure {
    Other(Problem),
    Api(kube::Error),
    Unanswered,
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

impl Applier {
    pub(super) fn new(client: Client, children: Arc<Children>) -> Self {
        Self {
            client,
            children,
            applied: Arc::default(),
        }
    }

    /// Applies the objects of a Gateway, and deletes those that it no longer needs. A problem with one
    /// of them does not keep the others back, unless they need it.
    pub(super) async fn apply_all(&self, gateway: &Owner<'_>, objects: &[Rendered]) -> Report {
        let mut report = Report::default();
        if let Some(problem) = self.refused_at_first(gateway, objects).await {
            report.fail(problem);
            return report;
        }
        let seen = at_once(objects.iter().map(|object| self.seen(object))).await;
        let mut present = Vec::new();
        for (object, seen) in objects.iter().zip(seen) {
            match seen {
                Ok(seen) => present.push((object, seen)),
                Err(failure) => report.fail(Problem::of(&object.child, failure)),
            }
        }
        if report.is_pausing() {
            return report;
        }
        let is_late = |(object, _): &(&Rendered, _)| {
            let kind = object.child.kind;
            kind.is_workload() || kind == ChildKind::HorizontalPodAutoscaler
        };
        let (workloads, others): (Vec<_>, Vec<_>) = present.into_iter().partition(is_late);
        // Pods need their identity, and an autoscaler something to scale.
        for group in [others, workloads] {
            let requests = group.into_iter().map(|(object, seen)| async move {
                if object.child.kind.is_workload() && !self.has_identity(gateway, objects) {
                    let text = format!("{} waits for the Gateway's ServiceAccount", object.child);
                    return Err(Problem::waiting(text));
                }
                let applied = self.apply(gateway.uid, object, seen).await;
                applied.map_err(|failure| Problem::of(&object.child, failure))
            });
            for applied in at_once(requests).await {
                match applied {
                    Ok(wrote) => report.has_written |= wrote,
                    Err(problem) => report.fail(problem),
                }
            }
            if report.is_pausing() {
                return report;
            }
        }
        if report.problem.as_ref().is_none_or(|it| it.is_final) {
            self.prune(gateway, objects, &mut report).await;
        }
        report
    }

    /// Why the API server refuses the workload of a Gateway that has no objects yet: an overlay may have fields
    /// that only the API server knows to be wrong. So the mistake costs one request each time, and not ten and all
    /// that others do for a Service, whose address nobody would serve.
    async fn refused_at_first(&self, gateway: &Owner<'_>, objects: &[Rendered]) -> Option<Problem> {
        let mut objects = objects.iter();
        let workload = objects.find(|it| it.child.kind.is_workload() && it.has_overlay)?;
        let wanted = workload.object.as_ref().ok()?;
        if !self.children.is_listed() || !self.children.of(gateway.uid).is_empty() {
            return None;
        }
        let (child, parameters) = (&workload.child, applying(false));
        let parameters = PatchParams {
            dry_run: true,
            ..parameters
        };
        let (api, patch) = (self.api(child), Patch::Apply(wanted));
        let response = api.patch(&child.name.name, &parameters, &patch);
        match within_deadline(response).await {
            Ok(_) => None,
            // It is another's, or admission cannot be tried: applying it tells.
            Err(Failure::Api(kube::Error::Api(status)))
                if matches!(status.code, 400 | 404 | 409) =>
            {
                None
            }
            Err(failure) => Some(Problem::of(child, failure)),
        }
    }

    /// Whether the objects that pods trust are the Gateway's own: with another's ServiceAccount, they
    /// would have its rights, and with another's ConfigMap, its CA.
    fn has_identity(&self, gateway: &Owner<'_>, objects: &[Rendered]) -> bool {
        let is_own = |child: &Child| {
            let seen = self.children.get(child);
            seen.is_some_and(|it| it.owner.as_deref() == Some(gateway.uid) && !it.is_ending)
        };
        let mut trusted = objects
            .iter()
            .map(|it| &it.child)
            .filter(|it| matches!(it.kind, ChildKind::ServiceAccount | ChildKind::ConfigMap));
        trusted.all(is_own)
    }

    /// What is known of an object in the cluster. The watches select objects by our label, so one that they do
    /// not report may exist.
    async fn seen(&self, object: &Rendered) -> Result<Option<ObservedChild>, Failure> {
        let child = &object.child;
        match self.children.get(child) {
            None if object.object.is_ok() => self.observe(child).await,
            known => Ok(known),
        }
    }

    /// Returns whether anything was written.
    async fn apply(
        &self,
        gateway: &str,
        object: &Rendered,
        seen: Option<ObservedChild>,
    ) -> Result<bool, Failure> {
        let child = &object.child;
        let wanted = match &object.object {
            Ok(wanted) => wanted,
            Err(why) => return Err(Failure::Other(Problem::refused(why.clone()))),
        };
        let hash = hash(wanted);
        let applied = {
            let applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
            applied.get(child).cloned()
        };
        let is_forced = match action(child, seen.as_ref(), applied.as_ref(), (gateway, hash)) {
            Action::Keep => return Ok(false),
            Action::Apply { is_forced } => is_forced,
            Action::Wait => {
                let text = format!("{child} of an earlier Gateway of this name is being deleted");
                return Err(Failure::Other(Problem::waiting(text)));
            }
            Action::Refuse(why) => return Err(Failure::Other(Problem::refused(why))),
        };
        let api = self.api(child);
        if let Some(seen) = seen.filter(|it| it.has_own_replicas && object.has_autoscaler) {
            self.release_replicas(child, &seen).await?;
        }
        let parameters = applying(is_forced);
        let patch = Patch::Apply(wanted);
        let response = api.patch(&child.name.name, &parameters, &patch);
        self.children.begin(child);
        let response = within_deadline(response).await;
        let seen = response
            .as_ref()
            .ok()
            .map(|it| ObservedChild::of(&it.metadata));
        self.children.record_response(child, seen);
        let response = match response {
            Err(Failure::Api(kube::Error::Api(status))) if status.is_conflict() && !is_forced => {
                let why = format!(
                    "another client has just created {child}: delete it, or give the \
                     Gateway another name"
                );
                return Err(Failure::Other(Problem::refused(why)));
            }
            response => response?,
        };
        info!(%child, "applied");
        let mark = ObservedChild::of(&response.metadata).mark;
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.insert(child.clone(), Applied { hash, mark });
        Ok(true)
    }

    /// Keeps the number of pods of a Deployment when it is no longer ours. A field that its only manager leaves
    /// out is reset, to a single pod here until the autoscaler looks; so another manager holds it, from which the
    /// autoscaler takes it.
    async fn release_replicas(&self, child: &Child, seen: &ObservedChild) -> Result<(), Failure> {
        let api = self.api(child);
        let found = within_deadline(api.get_opt(&child.name.name)).await?;
        let replicas = found.as_ref().map(|it| &it.data["spec"]["replicas"]);
        let Some(replicas) = replicas.filter(|it| it.is_number()) else {
            return Ok(());
        };
        let kind = child.kind.resource();
        let held = json!({
            "apiVersion": kind.api_version, "kind": kind.kind,
            // One that was deleted meanwhile must not be created.
            "metadata": {"name": *child.name.name, "uid": seen.uid},
            "spec": {"replicas": replicas},
        });
        let parameters = PatchParams {
            field_manager: Some(HOLDER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Apply(&held);
        let response = api.patch(&child.name.name, &parameters, &patch);
        match within_deadline(response).await {
            Ok(_) => Ok(()),
            // It was scaled meanwhile, and so is another's already.
            Err(Failure::Api(kube::Error::Api(status))) if status.is_conflict() => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    async fn observe(&self, child: &Child) -> Result<Option<ObservedChild>, Failure> {
        let api = self.api(child);
        let found = within_deadline(api.get_metadata_opt(&child.name.name)).await?;
        Ok(found.map(|it| ObservedChild::of(&it.metadata)))
    }

    /// Deletes objects that this Gateway controls and no longer needs. Only after every kind was
    /// listed: an incomplete list proves nothing.
    async fn prune(&self, gateway: &Owner<'_>, objects: &[Rendered], report: &mut Report) {
        if !self.children.is_listed() {
            return;
        }
        for (child, seen) in self.children.of(gateway.uid) {
            let is_wanted = objects.iter().any(|it| it.child == child);
            // A Gateway without listeners keeps its Service, and with it the address.
            let is_service = gateway.service == ServiceUse::Wanted
                && child.kind == ChildKind::Service
                && *child.name.name == *labels::service_name(gateway.name);
            if is_wanted || seen.is_ending || is_service {
                continue;
            }
            let deleted = match self.unready(&child, objects).await {
                Ok(None) => self.delete(&child, &seen).await,
                Ok(Some(why)) => {
                    report.unfinished = Some(format!("{child} is deleted once {why}"));
                    continue;
                }
                Err(failure) => Err(failure),
            };
            match deleted {
                Ok(()) => report.has_written = true,
                Err(failure) => report.fail(Problem::of(&child, failure)),
            }
        }
    }

    /// What an unneeded workload still waits for: its pods serve until those of the new one are ready.
    async fn unready(
        &self,
        child: &Child,
        objects: &[Rendered],
    ) -> Result<Option<String>, Failure> {
        let mut workloads = objects.iter().map(|it| &it.child);
        let new = workloads.find(|it| it.kind.is_workload());
        let Some(new) = new.filter(|_| child.kind.is_workload()) else {
            return Ok(None);
        };
        let found = within_deadline(self.api(new).get_opt(&new.name.name)).await?;
        let Some(found) = found else {
            return Ok(Some(format!("{new} exists and is ready")));
        };
        let generation = found.metadata.generation.unwrap_or(0);
        let least = objects.iter().filter_map(least_replicas).max();
        let pods = PodCounts::of(new.kind, &found.data, generation).at_least(least.unwrap_or(0));
        let old = within_deadline(self.api(child).get_opt(&child.name.name)).await?;
        let Some(old) = old else {
            return Ok(None);
        };
        if share_host_ports(&found.data, &old.data) {
            return Ok(None);
        }
        let old = PodCounts::of(child.kind, &old.data, 0);
        Ok((!pods.can_replace(old)).then(|| format!("{new} is ready: {pods}")))
    }

    /// Deletes the workload that the Gateway with this UID had under another class.
    pub(super) async fn delete_of_other_class(&self, gateway: &str, class: &str) -> Report {
        let mut report = Report::default();
        for (child, seen) in self.children.of(gateway) {
            let is_of_class = seen.class.as_ref().is_none_or(|it| it == class);
            if is_of_class || seen.is_ending {
                continue;
            }
            match self.delete(&child, &seen).await {
                Ok(()) => report.has_written = true,
                Err(failure) => report.fail(Problem::of(&child, failure)),
            }
            if report.is_pausing() {
                break;
            }
        }
        report
    }

    async fn delete(&self, child: &Child, seen: &ObservedChild) -> Result<(), Failure> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(seen.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        let api = self.api(child);
        match within_deadline(api.delete(&child.name.name, &parameters)).await {
            Ok(_) => info!(%child, "deleted: the Gateway no longer needs it"),
            // Deleted or replaced meanwhile.
            Err(Failure::Api(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {}
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    fn api(&self, child: &Child) -> Api<DynamicObject> {
        let resource = child.kind.resource();
        Api::namespaced_with(self.client.clone(), &child.name.namespace, &resource)
    }
}

impl Report {
    /// Keeps the first problem, unless all requests have to pause.
    fn fail(&mut self, problem: Problem) {
        if self.problem.is_none() || problem.is_pausing() {
            self.problem = Some(problem);
        }
    }

    fn is_pausing(&self) -> bool {
        self.problem.as_ref().is_some_and(Problem::is_pausing)
    }
}

impl Problem {
    fn is_pausing(&self) -> bool {
        matches!(self.outcome, Outcome::Unavailable | Outcome::Throttled(_))
    }
}

/// The parameters of an apply.
fn applying(is_forced: bool) -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        force: is_forced,
        ..PatchParams::default()
    }
}

/// Whether pods of two workloads need the same ports of nodes: those of the new one do not start where the old
/// ones run.
fn share_host_ports(new: &Value, old: &Value) -> bool {
    let ports = |workload: &Value| -> BTreeSet<String> {
        let containers = workload["spec"]["template"]["spec"]["containers"].as_array();
        let ports = { containers.into_iter().flatten() }.filter_map(|it| it["ports"].as_array());
        let of_hosts = ports.flatten().filter(|it| it["hostPort"].is_number());
        of_hosts
            .map(|it| format!("{} {}", it["protocol"], it["hostPort"]))
            .collect()
    };
    !ports(new).is_disjoint(&ports(old))
}

/// The fewest pods that an autoscaler will have. Until it looks for the first time, its Deployment has one.
fn least_replicas(object: &Rendered) -> Option<u64> {
    let autoscaler = object.object.as_ref().ok();
    let autoscaler = autoscaler.filter(|_| object.child.kind == ChildKind::HorizontalPodAutoscaler);
    autoscaler?["spec"]["minReplicas"].as_u64()
}

/// A hash of all objects of a Gateway.
pub(super) fn hash_all(objects: &[Rendered]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for object in objects.iter().filter_map(|it| it.object.as_ref().ok()) {
        hash(object).hash(&mut hasher);
    }
    hasher.finish()
}

fn hash(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    object.to_string().hash(&mut hasher);
    hasher.finish()
}

async fn within_deadline<T>(
    response: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Failure> {
    match timeout(DEADLINE, response).await {
        Ok(response) => Ok(response?),
        Err(_) => Err(Failure::Unanswered),
    }
}

/// The manager of a number of pods that nobody decides yet.
const HOLDER: &str = "gateway-system-controller-replicas";
/// Timeout of one request: 10 s.
const DEADLINE: Duration = Duration::from_secs(10);
