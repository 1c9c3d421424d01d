//! Applies the manifests of a set-up to a cluster.

use anyhow::{Context as _, Result, bail};
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use super::args::PolicyTarget;
use super::changes::Changes;
use super::manifest::Manifest;
use crate::args::SourceArgs;
use crate::cluster::{Cluster, Scope};
use crate::runtime::Blocking;

/// The cluster that has the target of the policy.
///
/// # Errors
/// There is no cluster, or no such object in it.
pub(super) fn cluster_of(
    target: &PolicyTarget,
    source: &SourceArgs,
    runtime: &Blocking,
) -> Result<Cluster> {
    let cluster = Cluster::new(source, runtime)?;
    let (kind, name) = (target.kind, &target.name);
    let objects = cluster.objects(kind, Scope::Namespace);
    if cluster.get(&objects, kind.name, name)?.is_none() {
        bail!(
            "there is no {} {name} in namespace {}: create it first, or choose another namespace with -n",
            kind.name,
            cluster.namespace()
        );
    }
    Ok(cluster)
}

/// Applies missing and differing objects.
///
/// # Errors
///
/// The cluster rejects one.
pub(super) fn apply(
    cluster: &Cluster,
    manifests: &[Manifest],
    changes: &mut Changes,
) -> Result<()> {
    for Manifest { kind, object } in manifests {
        let object: DynamicObject =
            serde_json::from_value(object.clone()).context("a manifest is an object")?;
        if cluster.apply(*kind, &object)? {
            let (kind, name) = (kind.name, object.name_any());
            let namespace = object.namespace().unwrap_or_default();
            changes.record(format_args!(
                "applied {kind} {name} in namespace {namespace}"
            ));
        }
    }
    Ok(())
}
