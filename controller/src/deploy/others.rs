//! Autoscalers and disruption budgets of users for the pods of a Gateway, which go before the controller's own:
//! two autoscalers would decide in turn, and a pod with two budgets is never evicted.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;
use tokio::time::timeout;
use translate::api::{LabelSelector, Labels};
use xds::model::ObjectName;

use super::attempt::Sources;
use super::child::{Child, ChildKind, ObservedChild, Scaler};
use super::labels;
use super::parameters::{Parameters, Workload};
use super::render::{Rendering, ScaledBy};

impl Sources {
    /// What sets the number of pods of a Gateway's Deployment, besides its parameters.
    pub(super) async fn scaled_by(
        &self,
        gateway: (&ObjectName, &str),
        parameters: &Parameters,
    ) -> ScaledBy {
        if parameters.workload == Some(Workload::DaemonSet) {
            return ScaledBy::Nobody;
        }
        let (name, uid) = gateway;
        let workload = labels::child_name(&name.name);
        let child = |kind| Child {
            kind,
            name: ObjectName::new(&name.namespace, &workload),
        };
        let own = child(ChildKind::HorizontalPodAutoscaler);
        let own = self.children.get(&own);
        let has_own = own.is_some_and(|it| it.owner.as_deref() == Some(uid));
        let is_wanted = parameters.autoscaling.is_some();
        if has_own && !is_wanted {
            // It decides until it is deleted, which follows.
            return ScaledBy::Another(format!(
                "HorizontalPodAutoscaler {}/{workload}",
                name.namespace
            ));
        }
        let mark = child(ChildKind::Deployment);
        let mark = self.children.get(&mark).and_then(|it| it.scaler);
        match mark {
            None if !is_wanted => return ScaledBy::Nobody,
            Some(Scaler::Other) if !is_wanted => return ScaledBy::Another(UNKNOWN.to_owned()),
            _ => {}
        }
        let before = if mark.is_some() {
            ScaledBy::Before
        } else {
            ScaledBy::Nobody
        };
        match self.other_autoscaler(gateway, &workload).await {
            Ok(None) => before,
            Ok(Some(other)) => ScaledBy::Another(other),
            // The wanted one exists, or the API server would not take it now.
            Err(Unknown) if is_wanted => before,
            // Unknown is not absent: two would decide the number in turn.
            Err(Unknown) => ScaledBy::Another(UNKNOWN.to_owned()),
        }
    }

    /// A `HorizontalPodAutoscaler` of somebody else for the Deployment of this name.
    async fn other_autoscaler(
        &self,
        (gateway, uid): (&ObjectName, &str),
        deployment: &str,
    ) -> Result<Option<String>, Unknown> {
        let autoscalers: Api<HorizontalPodAutoscaler> =
            Api::namespaced(self.client.clone(), &gateway.namespace);
        let parameters = ListParams::default();
        let found = timeout(READ_DEADLINE, autoscalers.list(&parameters)).await;
        let found = found.map_err(|_| Unknown)?.map_err(|_| Unknown)?;
        let mut others = found.items.into_iter().filter(|it| {
            let target = &it.spec.scale_target_ref;
            let is_owned = ObservedChild::of(&it.metadata).owner.as_deref() == Some(uid);
            target.kind == "Deployment" && target.name == deployment && !is_owned
        });
        let name = others.next().and_then(|it| it.metadata.name);
        Ok(name.map(|it| format!("HorizontalPodAutoscaler {}/{it}", gateway.namespace)))
    }

    /// Leaves the budget out where a user has made one for the same pods; one that the parameters ask for is
    /// refused.
    pub(super) async fn respect_budgets(
        &self,
        (gateway, uid): (&ObjectName, &str),
        parameters: &Parameters,
        rendering: &mut Rendering,
    ) {
        let objects = &rendering.objects;
        let kind = ChildKind::PodDisruptionBudget;
        let Some(place) = objects.iter().position(|it| it.child.kind == kind) else {
            return;
        };
        let workload = objects.iter().find(|it| it.child.kind.is_workload());
        let labels = workload.and_then(|it| it.object.as_ref().ok());
        let labels = labels.map(|it| &it["spec"]["template"]["metadata"]["labels"]);
        let labels = labels_in(labels.unwrap_or(&Value::Null));
        match self.other_budget((gateway, uid), &labels).await {
            Ok(None) => {}
            Ok(Some(other)) if parameters.disruption_budget.is_some() => {
                rendering.objects[place].object = Err(format!(
                    "PodDisruptionBudget {}/{other} selects the pods of this Gateway too, and the API server evicts \
                     no pod that has two: delete it, or remove `disruptionBudget` from the GatewayParameters",
                    gateway.namespace
                ));
            }
            Ok(Some(_)) => drop(rendering.objects.remove(place)),
            Err(Unknown) => {
                // Nothing is made or deleted for what is not known.
                let present = self.children.get(&rendering.objects[place].child);
                if present.is_none_or(|it| it.owner.as_deref() != Some(uid)) {
                    rendering.objects.remove(place);
                }
            }
        }
    }

    /// The name of a `PodDisruptionBudget` of somebody else that selects pods with these labels.
    async fn other_budget(
        &self,
        (gateway, uid): (&ObjectName, &str),
        labels: &Labels,
    ) -> Result<Option<String>, Unknown> {
        let budgets: Api<PodDisruptionBudget> =
            Api::namespaced(self.client.clone(), &gateway.namespace);
        let parameters = ListParams::default();
        let found = timeout(READ_DEADLINE, budgets.list(&parameters)).await;
        let found = found.map_err(|_| Unknown)?.map_err(|_| Unknown)?;
        let mut others = found.items.into_iter().filter(|it| {
            let is_owned = ObservedChild::of(&it.metadata).owner.as_deref() == Some(uid);
            let selector = it.spec.as_ref().and_then(|it| it.selector.as_ref());
            // Without a selector, a budget selects nothing.
            let selects = selector.is_some_and(|it| {
                let selector = serde_json::to_value(it).and_then(serde_json::from_value);
                selector.is_ok_and(|it: LabelSelector| it.selects(labels))
            });
            selects && !is_owned
        });
        Ok(others.next().and_then(|it| it.metadata.name))
    }
}

/// The API server could not be asked.
struct Unknown;

fn labels_in(labels: &Value) -> Labels {
    let labels = labels.as_object().into_iter().flatten();
    let labels = labels.filter_map(|(name, value)| Some((&**name, value.as_str()?)));
    labels
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// What scales a Deployment, where nothing names it.
const UNKNOWN: &str = "another autoscaler";
/// Timeout of a read: 10 s.
const READ_DEADLINE: Duration = Duration::from_secs(10);
