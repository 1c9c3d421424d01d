//! One write of a status to the API server.

use std::time::Duration;

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use tokio::time::timeout;
use tracing::{debug, warn};
use translate::ObjectRef;

use super::plan::Write;
use crate::queue::{Outcome, outcome_of};

/// Sends one write. After a timeout it is unknown whether it was applied: the version in the patch
/// makes a repetition harmless.
pub(super) async fn send(client: Client, object: &ObjectRef, write: &Write) -> Outcome {
    let name = &object.name;
    let api: Api<DynamicObject> = if name.namespace.is_empty() {
        Api::all_with(client, &write.resource)
    } else {
        Api::namespaced_with(client, &name.namespace, &write.resource)
    };
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(&write.patch));
    let response = api.patch_status(&name.name, &parameters, &patch);
    let error = match timeout(WRITE_DEADLINE, response).await {
        Ok(Ok(_)) => {
            debug!(%object, "wrote the status");
            return Outcome::Written(write.desired);
        }
        Ok(Err(error)) => error,
        Err(_) => {
            warn!(%object, "timed out waiting for the API server's response to a status write");
            return Outcome::Unavailable;
        }
    };
    let outcome = outcome_of(&error);
    match outcome {
        Outcome::Conflict { .. } => debug!(%object, "another client has changed the object"),
        Outcome::Refused | Outcome::Failed => warn!(
            %object,
            %error,
            "the API server rejected the status; retrying: check the controller's RBAC rules and the \
             version of the CRDs"
        ),
        _ => warn!(%object, %error, "cannot write the status yet; retrying"),
    }
    outcome
}

/// Timeout for one write: 10 s.
const WRITE_DEADLINE: Duration = Duration::from_secs(10);
