//! Discovers which kinds the API server serves, and in which version.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use tokio::time::timeout;

use super::kinds::{KindId, Kinds, WatchedKind};

/// The served kinds, each in the best supported version.
pub(super) type ServedKinds = BTreeMap<KindId, ApiResource>;

/// The kinds that every API server serves.
pub(super) fn built_in(kinds: &Kinds) -> ServedKinds {
    let built_in = kinds.iter().filter(|kind| kind.is_built_in());
    let resource = |kind: &WatchedKind| {
        let version = kind.versions.first()?;
        let gvk = GroupVersionKind::gvk(kind.group, version, kind.kind);
        Some((kind.id, ApiResource::from_gvk(&gvk)))
    };
    built_in.filter_map(|kind| resource(kind)).collect()
}

/// Whether the API server has started: until then, it may not know all kinds. One that has no such
/// endpoint, or does not permit reading it, is taken for one that has.
pub(super) async fn is_ready(client: &Client) -> bool {
    let Ok(request) = Request::get("/readyz").body(Vec::new()) else {
        return true;
    };
    match timeout(READY_TIMEOUT, client.request_text(request)).await {
        Ok(Ok(_)) => true,
        Ok(Err(kube::Error::Api(status))) => status.code < 500,
        Ok(Err(_)) | Err(_) => false,
    }
}

/// Queries the API server for the others.
///
/// # Errors
///
/// The query failed. A kind that is not served is not an error.
pub(super) async fn discover(client: &Client, kinds: &Kinds) -> kube::Result<ServedKinds> {
    let others = kinds.iter().filter(|kind| !kind.is_built_in());
    let others: Vec<_> = others.collect();
    let required: BTreeSet<(&str, &str)> = others
        .iter()
        .flat_map(|kind| kind.versions.iter().map(|version| (kind.group, *version)))
        .collect();
    let mut resources: BTreeMap<(&str, &str), Vec<APIResource>> = BTreeMap::new();
    for group in client.list_api_groups().await?.groups {
        for version in &group.versions {
            let mut required = required.iter();
            let key = required.find(|it| **it == (group.name.as_str(), version.version.as_str()));
            let Some(key) = key else { continue };
            let listed = match client
                .list_api_group_resources(&version.group_version)
                .await
            {
                Ok(list) => list.resources,
                // Its last CRD was removed meanwhile.
                Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                Err(error) => return Err(error),
            };
            resources.insert(*key, listed);
        }
    }
    let best = others.into_iter().filter_map(|kind| {
        let versions = kind.versions.iter();
        let mut served = versions.filter_map(|version| {
            let listed = resources.get(&(kind.group, *version))?;
            let resource = listed
                .iter()
                .find(|it| it.kind == kind.kind && is_watched(it))?;
            let gvk = GroupVersionKind::gvk(kind.group, version, kind.kind);
            Some(ApiResource::from_gvk_with_plural(&gvk, &resource.name))
        });
        Some((kind.id, served.next()?))
    });
    Ok(best.collect())
}

/// Whether it is the kind itself, and not a subresource such as `status`.
fn is_watched(resource: &APIResource) -> bool {
    let can = |verb: &str| resource.verbs.iter().any(|it| it == verb);
    !resource.name.contains('/') && can("list") && can("watch")
}

/// How long `/readyz` may take: it asks etcd, which can hang.
const READY_TIMEOUT: Duration = Duration::from_secs(3);
