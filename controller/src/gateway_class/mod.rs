//! Creates the default GatewayClass, and claims the classes that this installation serves.

mod claims;
mod requests;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};
use translate::ObjectKind;

pub use claims::{Claim, Claims, LostClass, ObservedClass};
use claims::{DueClaim, ForeignClass};
use requests::Requests;

use crate::args::RunArgs;
use crate::context::Context;
use crate::leadership::Election;
use crate::watch::resource;

/// Applies the default class and claims classes while this replica is the leader. `writers` is the
/// leadership of those that write to Gateways and their resources: it begins once it is known which
/// classes are this installation's. Ends with the process.
pub async fn run(mut context: Context, writers: Election) {
    let mut stopping = context.stopping.clone();
    let mut leadership = context.leadership.clone();
    let claiming = async {
        loop {
            context.leadership.acquired().await;
            tokio::select! {
                () = claim_classes(&context, &writers) => {}
                () = leadership.lost() => {}
            }
            writers.set(false);
        }
    };
    tokio::select! {
        () = stopping.stopped() => {}
        () = claiming => {}
    }
    writers.set(false);
}

/// Claims classes, renews claims, and reports classes of other installations. Never ends.
async fn claim_classes(context: &Context, writers: &Election) {
    let claims = &context.outputs.claims;
    let mut changed = claims.subscribe();
    // Until all classes are known, the default one may be another installation's.
    let mut translated = context.outputs.translated.subscribe();
    // Cannot fail, since the sender is part of the context.
    let _ = translated.wait_for(|is_translated| *is_translated).await;
    let mut requests = Requests::new(context.clone());
    loop {
        changed.borrow_and_update();
        let now = Instant::now();
        requests.start(now);
        if !requests.is_applying && claims.may_write(now) {
            writers.set(true);
        }
        tokio::select! {
            _ = changed.changed() => {}
            () = requests.next() => {}
            () = sleep(RETRY) => {}
        }
    }
}

/// Applies the default class, unless another installation serves it. Returns whether that is done.
async fn apply_default(context: Context) -> bool {
    let class = &context.args.gateway_class;
    if context.outputs.claims.is_foreign(class) {
        return false;
    }
    let error = match timeout(REQUEST, apply(&context)).await {
        Ok(Ok(())) => return true,
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
            "its CRD is not installed: install the CRDs of Gateway API".to_owned()
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => NO_RESPONSE.to_owned(),
    };
    warn!("cannot apply GatewayClass {class}; retrying: {error}");
    false
}

async fn apply(context: &Context) -> kube::Result<()> {
    let name = &context.args.gateway_class;
    let params = PatchParams::apply(FIELD_MANAGER);
    let patch = Patch::Apply(class(&context.args));
    classes(context).patch(name, &params, &patch).await?;
    info!("GatewayClass {name} is applied");
    Ok(())
}

/// Writes a claim. Returns whether it is written.
async fn claim(context: Context, due: DueClaim) -> bool {
    let claims = &context.outputs.claims;
    let Some(installation) = claims.installation() else {
        return true;
    };
    let renewed = Timestamp::now().to_string();
    let patch = json!({"metadata": {
        "resourceVersion": due.resource_version,
        "annotations": {CLAIMED_BY: installation, RENEWED: renewed},
    }});
    let params = PatchParams::default();
    let (classes, class, patch) = (classes(&context), &due.class, Patch::Merge(patch));
    let failure = match timeout(REQUEST, classes.patch(class, &params, &patch)).await {
        Ok(Ok(written)) => {
            if let Some(former) = &due.former {
                info!(
                    class,
                    former,
                    "took over a GatewayClass, whose installation no longer renews its claim"
                );
            }
            let claim = Claim {
                holder: installation.to_owned(),
                renewed,
            };
            let observed = ObservedClass {
                claim: Some(claim),
                resource_version: written.metadata.resource_version.unwrap_or_default(),
                uid: due.uid,
            };
            claims.written(class, &due.resource_version, observed);
            return true;
        }
        // It has changed meanwhile: the watch tells how.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
            debug!(class, "a GatewayClass changed while it was claimed");
            return false;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => NO_RESPONSE.to_owned(),
    };
    warn!(
        class,
        error = failure,
        "cannot write the claim on a GatewayClass; retrying. Until it is written, its Gateways are not deployed"
    );
    if let Some(uid) = claims.failed(class, &failure) {
        let note = format!(
            "nothing of this class is deployed: its claim cannot be written, and is tried again every few seconds: \
             {}",
            failure
                .get(..failure.floor_char_boundary(EVENT_BYTES))
                .unwrap_or_default()
        );
        publish(&context, (class, uid), "CannotBeClaimed", note).await;
    }
    false
}

/// Reports a class of another installation: in the log, and as an Event.
async fn report(context: Context, foreign: ForeignClass) {
    let own = context.outputs.claims.installation().unwrap_or_default();
    let ForeignClass { class, uid, holder } = &foreign;
    warn!(
        class,
        holder,
        "another installation of this controller serves a GatewayClass; its Gateways and routes are left alone"
    );
    let note = format!(
        "{holder} serves this class, so {own} does not: uninstall one of them, or install it with values \
         gatewayClass.name and gatewayClass.controllerName of its own"
    );
    let of = (class.as_str(), uid.clone());
    publish(&context, of, "ClaimedByAnotherInstallation", note).await;
}

/// Publishes an Event about a class, by name and UID.
async fn publish(context: &Context, (class, uid): (&str, String), reason: &str, note: String) {
    let reporter = Reporter {
        controller: context.args.controller_name.clone(),
        instance: Some(context.args.pod_name.clone()),
    };
    let event = Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some(note),
        action: "Claim".to_owned(),
        secondary: None,
    };
    let reference = ObjectReference {
        api_version: Some(CLASS.api_version()),
        kind: Some(CLASS.name().to_owned()),
        name: Some(class.to_owned()),
        uid: Some(uid),
        ..ObjectReference::default()
    };
    let recorder = Recorder::new(context.client.clone(), reporter);
    let published = timeout(REQUEST, recorder.publish(&event, &reference)).await;
    if !matches!(published, Ok(Ok(()))) {
        debug!(class, reason, "an event was dropped");
    }
}

fn classes(context: &Context) -> Api<DynamicObject> {
    let resource = resource(CLASS, "v1");
    Api::all_with(context.client.clone(), &resource)
}

fn class(args: &RunArgs) -> Value {
    let name = &args.gateway_class;
    let mut class = json!({
        "apiVersion": CLASS.api_version(),
        "kind": CLASS.name(),
        "metadata": {"name": name},
        "spec": {"controllerName": args.controller_name},
    });
    if let Some(parameters) = args.gateway_class_parameters_refs.0.get(name) {
        class["spec"]["parametersRef"] = json!({
            "group": ObjectKind::GatewayParameters.group(),
            "kind": ObjectKind::GatewayParameters.name(),
            "name": parameters.name,
            "namespace": parameters.namespace,
        });
    }
    class
}

const CLASS: ObjectKind = ObjectKind::GatewayClass;
/// The annotation of a class with the installation that serves it: the namespace and the Service of its
/// controller.
pub const CLAIMED_BY: &str = "gateway-system.io/claimed-by";
/// The annotation with the time at which that was renewed.
pub const RENEWED: &str = "gateway-system.io/claim-renewed";
const FIELD_MANAGER: &str = "gateway-controller";
/// Interval of looking for claims that are due.
const RETRY: Duration = Duration::from_secs(2);
/// Timeout of a request.
const REQUEST: Duration = Duration::from_secs(10);
/// Most bytes of an error in an Event, whose note may have 1024.
const EVENT_BYTES: usize = 800;
const NO_RESPONSE: &str = "no response from the API server";

#[cfg(test)]
mod tests;
