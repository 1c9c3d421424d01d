//! A namespace that the controller does not read: the same objects there cost the API server, and whoever else acts
//! on them, as much as the hostile tenant's, so a run beside them shows what is the gateway's own.

use anyhow::Result;
use serde_json::json;

use crate::test::control_plane::ControlPlane;
use crate::test::scope::Scope;

/// The label of such namespaces.
const LABEL: &str = "e2e-neutral";

/// The selectors of the namespaces that the controller reads.
const SELECTORS: &str = "CONTROLLER_DISCOVERY_NAMESPACE_SELECTORS";

/// Hides such namespaces from the controller, until [`show`].
pub(super) async fn hide(control_plane: &ControlPlane) -> Result<()> {
    let all_others = json!([{"matchExpressions": [{"key": LABEL, "operator": "DoesNotExist"}]}]);
    let selectors = all_others.to_string();
    control_plane.set(&[(SELECTORS, Some(&selectors))]).await
}

pub(super) async fn show(control_plane: &ControlPlane) -> Result<()> {
    control_plane.set(&[(SELECTORS, None)]).await
}

/// Makes a namespace that is hidden, and has to be closed.
pub(super) async fn open(scope: &Scope) -> Result<Scope> {
    let neutral = scope.another().await?;
    let label = format!("{LABEL}=true");
    let words = ["label", "namespace", &neutral.namespace, &label];
    scope.kubectl(&words, "").await?;
    Ok(neutral)
}
