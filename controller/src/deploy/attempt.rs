//! One deployment of a Gateway: gathers what it depends on, renders its objects and applies them.

use std::sync::Arc;

use kube::Client;
use tracing::warn;
use translate::ObjectRef;
use xds::model::ObjectName;

use super::applier::{Applier, Owner, Problem, Report, hash_all};
use super::child::Child;
use super::labels;
use super::parameters::Parameters;
use super::render::{Defaults, RenderInput, Rendering, render};
use super::settings::Settings;
use super::watch::Children;
use super::workload_problem::WorkloadProblem;
use crate::outputs::{ExistingGateway, Outputs};
use crate::queue::{Outcome, Panic};
use crate::status::Deployment;

/// The result of deploying a Gateway.
pub(super) struct Attempt {
    pub(super) outcome: Outcome,
    /// The state of the deployment, if it is known now.
    pub(super) deployment: Option<Deployment>,
    /// What failed, and may succeed by itself: only what lasts is reported.
    pub(super) problem: Option<String>,
    /// What of the parameters is not in effect, if it is known now.
    pub(super) refused: Option<Vec<WorkloadProblem>>,
}

impl Attempt {
    fn unchanged(deployment: Option<Deployment>) -> Self {
        Self {
            outcome: Outcome::Unchanged,
            deployment,
            problem: None,
            refused: None,
        }
    }

    fn failed(
        Problem {
            text,
            outcome,
            is_final,
        }: Problem,
    ) -> Self {
        let (deployment, problem) = if is_final {
            (Some(Deployment::Refused(text)), None)
        } else {
            (None, Some(text))
        };
        Self {
            outcome,
            deployment,
            problem,
            refused: None,
        }
    }

    pub(super) fn panicked(panic: &Panic) -> Self {
        let text = format!(
            "a defect of the controller keeps it from deploying this Gateway ({panic}): please report \
             it, with the controller's log"
        );
        Self::failed(Problem::refused(text))
    }
}

/// The inputs of a deployment, read when it is made.
pub(super) struct Sources {
    pub(super) client: Client,
    pub(super) outputs: Arc<Outputs>,
    pub(super) settings: Settings,
    pub(super) children: Arc<Children>,
}

impl Sources {
    /// The Gateways that an object belongs to, or that need one of its name.
    pub(super) fn gateways_of(&self, child: &Child) -> Vec<ObjectName> {
        let (known, name) = (&self.outputs.infrastructure, &child.name);
        let owner = self.children.get(child).and_then(|it| it.owner_name);
        let of_metrics = name.name.strip_suffix(labels::METRICS_SUFFIX);
        let names = [Some(&*name.name), of_metrics, owner.as_deref()];
        let names = names.into_iter().flatten();
        let gateways = names.map(|it| ObjectName::new(&name.namespace, it));
        let gateways: Vec<_> = gateways.filter(|it| known.get(it).is_some()).collect();
        if !gateways.is_empty() {
            return gateways;
        }
        // Names of objects with a digest do not tell that of the Gateway.
        let mut all = known.keys();
        all.retain(|it| it.namespace == name.namespace && labels::is_child(&it.name, &name.name));
        all
    }

    /// Discards the changes that `Deployer::lead` follows.
    pub(super) fn discard_changes(&self) {
        let outputs = &self.outputs;
        outputs.infrastructure.discard_changes();
        outputs.ports.discard_changes();
        outputs.gateways.discard_changes();
        outputs.parameters.discard_changes();
        outputs.class_parameters.discard_changes();
        self.children.changed.discard_changes();
        self.children.namespaces.discard_changes();
        self.children.workloads.discard_changes();
    }

    /// Deploys a Gateway in its current version.
    pub(super) async fn deploy(&self, applier: &Applier, gateway: &ObjectRef) -> Attempt {
        #[cfg(test)]
        panic_if_wanted(gateway);
        let name = &gateway.name;
        if let Some(unclaimed) = self.unclaimed(name) {
            return unclaimed;
        }
        let mut input = match self.input(gateway).await {
            Ok(Some(input)) => input,
            Ok(None) => return self.clean_up(applier, gateway).await,
            Err(problem) => return Attempt::failed(problem),
        };
        let mut defaults = self.settings.defaults.clone();
        if self.settings.is_encrypted {
            let authorities = self.outputs.authorities.borrow();
            if authorities.is_empty() {
                // Proxies could not start without authorities.
                return Attempt::unchanged(None);
            }
            defaults.authorities = Some(authorities.to_string());
        }
        let uid = input.uid.clone();
        let mut rendering = self.render(&input, &defaults).await;
        let owner = Owner {
            name: &name.name,
            uid: &uid,
            service: rendering.service,
        };
        let mut report = applier.apply_all(&owner, &rendering.objects).await;
        let is_refused = report.problem.as_ref().is_some_and(|it| it.is_final);
        if is_refused && input.release_cluster_ip() {
            // It may be in use, outside the range, or not assignable: the other addresses of the
            // Gateway do not depend on it, and its status reports this one.
            rendering = self.render(&input, &defaults).await;
            report = applier.apply_all(&owner, &rendering.objects).await;
        }
        attempt_of(gateway, report, rendering)
    }

    /// The objects of a Gateway, beside those of users.
    async fn render(&self, input: &RenderInput, defaults: &Defaults) -> Rendering {
        let mut rendering = render(input, defaults);
        let gateway = (&input.name, &*input.uid);
        self.respect_budgets(gateway, &input.parameters, &mut rendering)
            .await;
        rendering
    }

    /// The result for a Gateway whose class this installation has not claimed yet: nothing, since another
    /// installation may deploy it.
    fn unclaimed(&self, gateway: &ObjectName) -> Option<Attempt> {
        let class = &self.outputs.infrastructure.get(gateway)?.class;
        let why = self.outputs.claims.undecided(class)?;
        let refusal = (!why.is_empty()).then(|| {
            let text = format!(
                "the controller cannot write its claim on GatewayClass {class}: {why}; check its RBAC rules for \
                 GatewayClasses, and admission webhooks"
            );
            Deployment::Refused(text)
        });
        Some(Attempt::unchanged(refusal))
    }

    /// Deletes the workload of a Gateway whose class was changed to another controller's. If the
    /// class was deleted, the workload stays: no other controller serves it.
    async fn clean_up(&self, applier: &Applier, gateway: &ObjectRef) -> Attempt {
        let name = &gateway.name;
        // Before the first translation, no Gateway would seem to be ours.
        if !*self.outputs.translated.borrow() || self.outputs.infrastructure.get(name).is_some() {
            return Attempt::unchanged(None);
        }
        let Some(ExistingGateway {
            uid,
            class: Some(class),
        }) = self.outputs.gateways.get(name)
        else {
            return Attempt::unchanged(None);
        };
        let class = labels::child_name(&class);
        let report = applier.delete_of_other_class(&uid, &class).await;
        // The status of the Gateway is the other controller's.
        let outcome = report.problem.map_or(Outcome::Unchanged, |problem| {
            warn!(%gateway, problem.text, "cannot delete the Gateway's resources yet");
            problem.outcome
        });
        Attempt {
            outcome,
            ..Attempt::unchanged(None)
        }
    }

    /// The input for rendering a Gateway's workload. `None` if the Gateway belongs to another
    /// controller, is being deleted, or refers to parameters that do not exist or are of another kind:
    /// its workload stays then as its last valid parameters made it, and its status reports it.
    async fn input(&self, gateway: &ObjectRef) -> Result<Option<RenderInput>, Problem> {
        let name = &gateway.name;
        let infrastructure = self.outputs.infrastructure.get(name);
        let present = self.outputs.gateways.get(name);
        let (Some(infrastructure), Some(ExistingGateway { uid, .. })) = (infrastructure, present)
        else {
            self.outputs.deployments.set(name, None);
            self.outputs.workload_problems.set(name, None);
            return Ok(None);
        };
        let is_lost = |it: &ObjectName| self.outputs.parameters.get(it).is_none();
        let lost = infrastructure.parameters.as_ref().is_some_and(is_lost);
        if lost || infrastructure.has_foreign_parameters {
            return Ok(None);
        }
        let own = self.parameters(infrastructure.parameters.as_ref());
        let own = own.map_err(Problem::refused)?;
        let class = self.class_parameters(&infrastructure.class);
        let parameters = own.or(class.map_err(Problem::refused)?);
        let metrics = format!("{}{}", name.name, labels::METRICS_SUFFIX);
        let namesake = ObjectName::new(&name.namespace, &metrics);
        Ok(Some(RenderInput {
            name: name.clone(),
            uid: uid.to_string(),
            ports: self.outputs.ports.get(name).unwrap_or_default(),
            enforces_restricted: self.enforces_restricted(&name.namespace)?,
            scaled_by: self.scaled_by((name, &uid), &parameters).await,
            is_metrics_name_taken: self.outputs.gateways.get(&namesake).is_some(),
            parameters,
            infrastructure: Arc::unwrap_or_clone(infrastructure),
        }))
    }

    fn class_parameters(&self, class: &str) -> Result<Parameters, String> {
        match self.outputs.class_parameters.get(&class.to_owned()) {
            None => Ok(Parameters::default()),
            Some(Ok(name)) => self.parameters(Some(&name)),
            Some(Err(why)) => Err(format!("GatewayClass {class}: {why}")),
        }
    }

    fn parameters(&self, name: Option<&ObjectName>) -> Result<Parameters, String> {
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

    /// Whether the namespace enforces the pod security standard `restricted`. Unknown is not
    /// unrestricted: a rollout of other pods would follow, and another one back.
    fn enforces_restricted(&self, namespace: &str) -> Result<bool, Problem> {
        let known = self.children.namespaces.get(&namespace.to_owned());
        known.ok_or_else(|| {
            let text = format!(
                "the controller has not read Namespace {namespace} yet: check its RBAC rules for \
                 namespaces if this lasts"
            );
            Problem::waiting(text)
        })
    }
}

/// The result for the queue and for the status of the Gateway.
fn attempt_of(gateway: &ObjectRef, report: Report, rendering: Rendering) -> Attempt {
    let refused = Some(rendering.problems);
    if let Some(problem) = report.problem {
        warn!(%gateway, problem.text, "cannot deploy; retrying");
        return Attempt {
            refused,
            ..Attempt::failed(problem)
        };
    }
    let outcome = match (&report.unfinished, report.has_written) {
        (Some(_), _) => Outcome::Unfinished,
        (None, true) => Outcome::Written(hash_all(&rendering.objects)),
        (None, false) => Outcome::Unchanged,
    };
    let deployment = report
        .unfinished
        .map_or(Deployment::Done, Deployment::Unfinished);
    Attempt {
        outcome,
        refused,
        ..Attempt::unchanged(Some(deployment))
    }
}

/// For tests: the deployment of a Gateway whose name begins so panics, as by a defect.
#[cfg(test)]
fn panic_if_wanted(gateway: &ObjectRef) {
    if gateway.name.name.starts_with("defect-") {
        // Without a message and a backtrace on the standard error.
        std::panic::resume_unwind(Box::new("a defect"));
    }
}
