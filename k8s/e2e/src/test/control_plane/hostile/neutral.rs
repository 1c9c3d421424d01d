//! Objects of a kind that the controller does not know, in the place of the hostile tenant's: the API server
//! has as much to write and to send, so a run beside them shows what is the gateway's own.

use anyhow::{Context as _, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::test::scope::Scope;

/// The kind, which belongs to nobody.
pub(super) const KIND: &str = "Neutral";
const GROUP: &str = "e2e.example.com";
const PLURAL: &str = "neutrals";

/// Defines the kind, and waits until it is served.
pub(super) async fn define(scope: &Scope) -> Result<()> {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"kind": KIND, "plural": PLURAL},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(scope.client.clone());
    let parameters = PatchParams::apply("e2e").force();
    let name = format!("{PLURAL}.{GROUP}");
    let patch = Patch::Apply(&definition);
    let applied = definitions.patch(&name, &parameters, &patch).await;
    applied.context("cannot define a kind")?;
    let (objects, _) = objects(scope);
    scope
        .until("a new kind", async || {
            Ok(objects.list(&ListParams::default()).await.ok())
        })
        .await
        .map(drop)
}

/// Removes the kind, with all objects of it.
pub(super) async fn remove(scope: &Scope) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(scope.client.clone());
    let name = format!("{PLURAL}.{GROUP}");
    definitions.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

/// The objects of the kind, and the group and version that they are written in.
pub(super) fn objects(scope: &Scope) -> (Api<DynamicObject>, ApiResource) {
    let kind = GroupVersionKind::gvk(GROUP, "v1", KIND);
    let resource = ApiResource::from_gvk_with_plural(&kind, PLURAL);
    let objects = Api::namespaced_with(scope.client.clone(), &scope.namespace, &resource);
    (objects, resource)
}

/// An object of the kind that contains another one.
pub(super) fn containing(object: &Value) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]).to_lowercase();
    let name = format!("{kind}-{}", text(&object["metadata"]["name"]));
    json!({"kind": KIND, "metadata": {"name": name}, "spec": object})
}
