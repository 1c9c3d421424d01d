//! Discovers which kinds the API server serves, and in which version.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use tokio::time::timeout;
use translate::ObjectKind;
use translate::objects::kinds::{KindDefinition, Origin};

use super::kinds::{Kinds, is_built_in, resource};

/// The served kinds, each in the best supported version.
pub(super) type ServedKinds = BTreeMap<ObjectKind, ApiResource>;

/// The kinds that every API server serves.
pub(super) fn built_in(kinds: &Kinds) -> ServedKinds {
    let built_in = kinds.iter().filter(|kind| is_built_in(*kind));
    let resources = built_in.filter_map(|kind| {
        let version = kind.definition().versions.first()?;
        Some((kind, resource(kind, version)))
    });
    resources.collect()
}

/// Whether the API server has started: until then, it may not know all kinds. One that has no such
/// endpoint, or does not permit reading it, is taken for one that has.
pub(super) async fn is_ready(client: &Client) -> bool {
    match get(client, "/readyz").await {
        Answer::Text(_) => true,
        Answer::Code(code) => code < 500,
        Answer::None => false,
    }
}

/// Queries the API server for the others.
///
/// # Errors
///
/// The query failed. A kind that is not served is not an error.
pub(super) async fn discover(client: &Client, kinds: &Kinds) -> kube::Result<ServedKinds> {
    let others = kinds
        .iter()
        .filter(|kind| !is_built_in(*kind))
        .map(|kind| (kind, kind.definition()));
    let others: Vec<_> = others.collect();
    let required: BTreeSet<(&str, &str)> = others
        .iter()
        .flat_map(|(_, it)| it.versions.iter().map(|version| (it.group, *version)))
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
    let best = others.into_iter().filter_map(|(kind, definition)| {
        let versions = definition.versions.iter();
        let mut served = versions.filter_map(|version| {
            let listed = resources.get(&(definition.group, *version))?;
            let resource = listed
                .iter()
                .find(|it| it.kind == definition.name && is_watched(it))?;
            let gvk = GroupVersionKind::gvk(definition.group, version, definition.name);
            Some(ApiResource::from_gvk_with_plural(&gvk, &resource.name))
        });
        Some((kind, served.next()?))
    });
    Ok(best.collect())
}

/// Whether a kind that a discovery does not name is really absent: a discovery can be incomplete, such as of
/// an API server that starts, or whose cache is behind. Its own list has to answer 404, and its definition
/// must be gone. A kind that was not served before is also absent if its definition has no version that is
/// read here, or cannot be read for lack of permission.
pub(super) async fn is_absent(client: &Client, kind: ObjectKind, was_served: bool) -> bool {
    let KindDefinition {
        group,
        plural,
        versions,
        ..
    } = kind.definition();
    for version in *versions {
        let list = format!("/apis/{group}/{version}/{plural}?limit=1");
        match get(client, &list).await {
            Answer::Code(404) => {}
            // Nobody may have granted reading a kind that is not installed.
            Answer::Code(403) if !was_served => {}
            _ => return false,
        }
    }
    if kind.definition().origin != Origin::Definition {
        return true;
    }
    let definition =
        format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}");
    match get(client, &definition).await {
        Answer::Code(404) => true,
        Answer::Code(403) => !was_served,
        Answer::Text(text) => !was_served && !serves_any(&text, versions),
        Answer::Code(_) | Answer::None => false,
    }
}

/// Whether a definition serves one of the versions. One that cannot be parsed may.
fn serves_any(definition: &str, versions: &[&str]) -> bool {
    let parsed: Option<Value> = serde_json::from_str(definition).ok();
    let listed = parsed
        .as_ref()
        .and_then(|it| it.pointer("/spec/versions")?.as_array());
    listed.is_none_or(|listed| {
        listed.iter().any(|version| {
            let name = version["name"].as_str().unwrap_or_default();
            version["served"] == true && versions.contains(&name)
        })
    })
}

/// The answer to a request.
enum Answer {
    Text(String),
    /// A status code other than 200.
    Code(u16),
    None,
}

async fn get(client: &Client, path: &str) -> Answer {
    let Ok(request) = Request::get(path).body(Vec::new()) else {
        return Answer::None;
    };
    match timeout(READY_TIMEOUT, client.request_text(request)).await {
        Ok(Ok(text)) => Answer::Text(text),
        Ok(Err(kube::Error::Api(status))) => Answer::Code(status.code),
        Ok(Err(_)) | Err(_) => Answer::None,
    }
}

/// Whether it is the kind itself, and not a subresource such as `status`.
fn is_watched(resource: &APIResource) -> bool {
    let can = |verb: &str| resource.verbs.iter().any(|it| it == verb);
    !resource.name.contains('/') && can("list") && can("watch")
}

/// How long a request may take: `/readyz` asks etcd, which can hang.
const READY_TIMEOUT: Duration = Duration::from_secs(3);
