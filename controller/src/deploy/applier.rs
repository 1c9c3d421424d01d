//! Applies the objects of one Gateway: server-side apply with one field manager, one object after
//! the other.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use tokio::time::timeout;
use tracing::{info, warn};

use super::child::{Action, Applied, Child, ObservedChild, action};
use super::labels::MANAGER;
use super::render::Rendered;
use super::watch::Children;

/// Applies objects. Clones are equivalent.
#[derive(Clone)]
pub(super) struct Applier {
    client: Client,
    children: Arc<Children>,
    applied: Arc<Mutex<BTreeMap<Child, Applied>>>,
}

/// The result of applying the objects of a Gateway.
#[derive(Debug)]
pub(super) enum Result {
    /// Everything is up to date; whether anything had to be written.
    Done {
        has_written: bool,
    },
    /// An object was rejected, with advice.
    Refused(String),
    Waiting,
    /// The API server returned an error.
    Failed(kube::Error),
    /// The API server did not respond.
    Unanswered,
}

/// Why an object could not be applied.
enum Failure {
    Refused(String),
    Waiting,
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

    /// Applies the objects of the Gateway with this UID, and deletes those that it no longer needs.
    pub(super) async fn apply_all(&self, gateway: &str, objects: &[Rendered]) -> Result {
        let mut has_written = false;
        let mut refused = None;
        for object in objects {
            match self.apply(gateway, object).await {
                Ok(wrote) => has_written |= wrote,
                // A conflict of names does not block the other objects.
                Err(Failure::Refused(why)) => {
                    refused.get_or_insert(why);
                }
                Err(failure) => return failure.into(),
            }
        }
        match self.prune(gateway, objects).await {
            Ok(pruned) => has_written |= pruned,
            Err(failure) => return failure.into(),
        }
        match refused {
            Some(why) => Result::Refused(why),
            None => Result::Done { has_written },
        }
    }

    /// Returns whether anything was written.
    async fn apply(&self, gateway: &str, object: &Rendered) -> std::result::Result<bool, Failure> {
        let child = &object.child;
        let mut seen = self.children.get(child);
        if seen.is_none() {
            // The watches select objects by our label.
            seen = self.observe(child).await?;
        }
        let hash = hash(object);
        let applied = {
            let applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
            applied.get(child).cloned()
        };
        let is_forced = match action(child, seen.as_ref(), applied.as_ref(), (gateway, hash)) {
            Action::Keep => return Ok(false),
            Action::Apply { is_forced } => is_forced,
            Action::Wait => return Err(Failure::Waiting),
            Action::Refuse(why) => return Err(Failure::Refused(why)),
        };
        let api = self.api(child);
        let parameters = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            force: is_forced,
            ..PatchParams::default()
        };
        let patch = Patch::Apply(&object.object);
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
                return Err(Failure::Refused(why));
            }
            // An overlay may make the object invalid.
            Err(Failure::Api(kube::Error::Api(status))) if status.code == 422 => {
                let why = format!(
                    "the API server rejected {child}: {}; check the GatewayParameters",
                    status.message
                );
                return Err(Failure::Refused(why));
            }
            response => response?,
        };
        info!(%child, "applied");
        let mark = ObservedChild::of(&response.metadata).mark;
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.insert(child.clone(), Applied { hash, mark });
        Ok(true)
    }

    async fn observe(&self, child: &Child) -> std::result::Result<Option<ObservedChild>, Failure> {
        let api = self.api(child);
        let found = within_deadline(api.get_metadata_opt(&child.name.name)).await?;
        Ok(found.map(|it| ObservedChild::of(&it.metadata)))
    }

    /// Deletes objects that this Gateway controls and no longer needs. Only after every kind was
    /// listed: an incomplete list proves nothing.
    async fn prune(
        &self,
        gateway: &str,
        objects: &[Rendered],
    ) -> std::result::Result<bool, Failure> {
        if !self.children.is_listed() {
            return Ok(false);
        }
        let mut has_written = false;
        for (child, seen) in self.children.of(gateway) {
            let is_wanted = objects.iter().any(|it| it.child == child);
            // A Gateway without listeners keeps its Service, and with it the address.
            let is_service = child.kind == super::ChildKind::Service;
            let has_service = objects
                .iter()
                .filter(|it| it.child.kind == child.kind)
                .count()
                > 1;
            if is_wanted || seen.is_ending || is_service && !has_service {
                continue;
            }
            self.delete(&child, &seen).await?;
            has_written = true;
        }
        Ok(has_written)
    }

    /// Deletes the workload that the Gateway with this UID had under another class.
    pub(super) async fn delete_of_other_class(&self, gateway: &str, class: &str) -> Result {
        let mut has_written = false;
        for (child, seen) in self.children.of(gateway) {
            let is_of_class = seen.class.as_ref().is_none_or(|it| it == class);
            if is_of_class || seen.is_ending {
                continue;
            }
            if let Err(failure) = self.delete(&child, &seen).await {
                return failure.into();
            }
            has_written = true;
        }
        Result::Done { has_written }
    }

    async fn delete(
        &self,
        child: &Child,
        seen: &ObservedChild,
    ) -> std::result::Result<(), Failure> {
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

impl From<Failure> for Result {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(why) => Self::Refused(why),
            Failure::Waiting => Self::Waiting,
            Failure::Api(error) => Self::Failed(error),
            Failure::Unanswered => {
                warn!("timed out waiting for the API server's response to the deployer");
                Self::Unanswered
            }
        }
    }
}

/// A hash of all objects of a Gateway.
pub(super) fn hash_all(objects: &[Rendered]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for object in objects {
        hash(object).hash(&mut hasher);
    }
    hasher.finish()
}

fn hash(object: &Rendered) -> u64 {
    let mut hasher = DefaultHasher::new();
    object.object.to_string().hash(&mut hasher);
    hasher.finish()
}

async fn within_deadline<T>(
    response: impl Future<Output = std::result::Result<T, kube::Error>>,
) -> std::result::Result<T, Failure> {
    match timeout(DEADLINE, response).await {
        Ok(response) => Ok(response?),
        Err(_) => Err(Failure::Unanswered),
    }
}

/// Timeout of one request: 10 s.
const DEADLINE: Duration = Duration::from_secs(10);
