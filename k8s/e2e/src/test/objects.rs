//! Objects of any kind by name, and their conditions.

use anyhow::{Context as _, Result, bail};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::scope::Scope;

#[derive(Debug, Clone, Copy)]
pub(super) struct ExpectedCondition<'a> {
    pub(super) kind: &'a str,
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
}

/// A condition of this type with this status and reason.
pub(super) fn expected_condition<'a>(
    kind: &'a str,
    status: &'a str,
    reason: &'a str,
) -> ExpectedCondition<'a> {
    ExpectedCondition {
        kind,
        status,
        reason,
    }
}

impl Scope {
    /// An object, if it exists.
    pub(super) async fn object(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        let found = self.objects(kind)?.get_opt(name).await?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    /// Deletes an object, and waits until it is gone.
    pub(super) async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        let objects = self.objects(kind)?;
        objects.delete(name, &DeleteParams::background()).await?;
        self.wait_until_deleted(kind, name).await
    }

    /// Waits until an object is gone.
    pub(super) async fn wait_until_deleted(&self, kind: &str, name: &str) -> Result<()> {
        self.until(&format!("{kind} {name} to be gone"), async || {
            Ok(self.object(kind, name).await?.is_none().then_some(()))
        })
        .await
    }

    /// Waits until an object, one of its parents or one of its listeners has this condition for the
    /// current generation. Returns the condition's message.
    pub(super) async fn condition(
        &self,
        kind: &str,
        name: &str,
        expected: ExpectedCondition<'_>,
    ) -> Result<String> {
        let mut last = Value::Null;
        let found = self
            .until(&format!("{kind} {name} to be {expected:?}"), async || {
                let Some(object) = self.object(kind, name).await? else {
                    return Ok(None);
                };
                let found = message(&object, expected);
                last = object;
                Ok(found)
            })
            .await;
        found.with_context(|| format!("its status is {}", last["status"]))
    }

    /// The objects of a kind.
    pub(super) fn objects(&self, kind: &str) -> Result<Api<DynamicObject>> {
        self.objects_of(kind).map(|(objects, _)| objects)
    }

    /// The objects of a kind, and the group and version that they are read in.
    pub(super) fn objects_of(&self, kind: &str) -> Result<(Api<DynamicObject>, ApiResource)> {
        let resource = resource(kind)?;
        let objects = match kind {
            "ClusterTrustBundle" | "GatewayClass" | "Namespace" | "Node" => {
                Api::all_with(self.client.clone(), &resource)
            }
            _ => Api::namespaced_with(self.client.clone(), &self.namespace, &resource),
        };
        Ok((objects, resource))
    }
}

/// The message of the first condition that matches.
fn message(object: &Value, expected: ExpectedCondition<'_>) -> Option<String> {
    let generation = &object["metadata"]["generation"];
    let lists = ["parents", "ancestors", "listeners"].map(|field| &object["status"][field]);
    let parts = lists.into_iter().filter_map(Value::as_array).flatten();
    let mut conditions = [&object["status"]]
        .into_iter()
        .chain(parts)
        .filter_map(|part| part["conditions"].as_array())
        .flatten();
    let found = conditions.find(|it| {
        it["type"] == expected.kind
            && it["status"] == expected.status
            && it["reason"] == expected.reason
            && it["observedGeneration"] == *generation
    });
    found.map(|it| it["message"].as_str().unwrap_or_default().to_owned())
}

fn resource(kind: &str) -> Result<ApiResource> {
    let (group, version) = match kind {
        "Namespace" | "Node" | "Pod" | "Service" | "ServiceAccount" | "ConfigMap" | "Secret" => {
            ("", "v1")
        }
        "Deployment" | "DaemonSet" => ("apps", "v1"),
        "HorizontalPodAutoscaler" => ("autoscaling", "v2"),
        "PodDisruptionBudget" => ("policy", "v1"),
        "EndpointSlice" => ("discovery.k8s.io", "v1"),
        "ClusterTrustBundle" => ("certificates.k8s.io", "v1"),
        "InferencePool" => ("inference.networking.k8s.io", "v1"),
        "Lease" => ("coordination.k8s.io", "v1"),
        "Gateway" | "GatewayClass" | "HTTPRoute" | "GRPCRoute" | "TLSRoute" | "TCPRoute"
        | "UDPRoute" | "ListenerSet" | "BackendTLSPolicy" | "ReferenceGrant" => {
            ("gateway.networking.k8s.io", "v1")
        }
        "XBackend" | "XBackendTrafficPolicy" => ("gateway.networking.x-k8s.io", "v1alpha1"),
        "TrafficPolicy" | "Backend" | "GatewayParameters" => ("gateway-system.io", "v1alpha1"),
        _ => bail!("tests do not know in which group {kind} is: add it here"),
    };
    let gvk = GroupVersionKind::gvk(group, version, kind);
    Ok(match kind {
        "GatewayParameters" => ApiResource::from_gvk_with_plural(&gvk, "gatewayparameters"),
        _ => ApiResource::from_gvk(&gvk),
    })
}
