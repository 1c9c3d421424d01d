//! Creates the default GatewayClass.

use std::time::Duration;

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tracing::{info, warn};
use translate::api::{CLASS_KIND, GATEWAY_GROUP, OWN_GROUP, PARAMETERS_KIND};

use crate::args::RunArgs;
use crate::context::Context;

/// Applies the class whenever this replica becomes the leader. Ends with the process.
pub async fn run(mut context: Context) {
    let mut stopping = context.stopping.clone();
    let applying = async {
        loop {
            context.leadership.acquired().await;
            apply_until_done(&context).await;
            context.leadership.lost().await;
        }
    };
    tokio::select! {
        () = stopping.stopped() => {}
        () = applying => {}
    }
}

async fn apply_until_done(context: &Context) {
    while context.leadership.is_leader() {
        let error = match apply(context).await {
            Ok(()) => return,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                "its CRD is not installed: install the CRDs of Gateway API".to_owned()
            }
            Err(error) => error.to_string(),
        };
        let class = &context.args.gateway_class;
        warn!("cannot apply GatewayClass {class}; retrying: {error}");
        tokio::time::sleep(RETRY).await;
    }
}

async fn apply(context: &Context) -> kube::Result<()> {
    let gvk = GroupVersionKind::gvk(GATEWAY_GROUP, "v1", CLASS_KIND);
    let resource = ApiResource::from_gvk_with_plural(&gvk, "gatewayclasses");
    let classes = Api::<DynamicObject>::all_with(context.client.clone(), &resource);
    let name = &context.args.gateway_class;
    let params = PatchParams::apply(FIELD_MANAGER);
    let patch = Patch::Apply(class(&context.args));
    classes.patch(name, &params, &patch).await?;
    info!("GatewayClass {name} is applied");
    Ok(())
}

fn class(args: &RunArgs) -> Value {
    let name = &args.gateway_class;
    let mut class = json!({
        "apiVersion": format!("{GATEWAY_GROUP}/v1"),
        "kind": CLASS_KIND,
        "metadata": {"name": name},
        "spec": {"controllerName": args.controller_name},
    });
    if let Some(parameters) = args.gateway_class_parameters_refs.0.get(name) {
        class["spec"]["parametersRef"] = json!({
            "group": OWN_GROUP,
            "kind": PARAMETERS_KIND,
            "name": parameters.name,
            "namespace": parameters.namespace,
        });
    }
    class
}

const FIELD_MANAGER: &str = "gateway-controller";
const RETRY: Duration = Duration::from_secs(10);
