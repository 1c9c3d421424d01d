//! The charts and our CRDs on a real API server. No controller runs, so its image is not needed.

use std::fs;

use anyhow::{Context as _, Result, bail, ensure};

use super::scope::Scope;
use crate::home;

/// The objects that the chart creates in a namespace.
const KINDS: [&str; 8] = [
    "deployment",
    "service",
    "serviceaccount",
    "role",
    "rolebinding",
    "horizontalpodautoscaler",
    "poddisruptionbudget",
    "networkpolicy",
];

pub(super) async fn the_api_server_accepts_the_definitions(scope: &Scope) -> Result<()> {
    let folder = home::repository().join("k8s/crds");
    let folder = folder.to_string_lossy();
    let apply = ["apply", "--server-side", "--dry-run=server", "-f", &folder];
    let output = scope.kubectl(&apply, "").await?;
    let taken = output.lines().count();
    let files = fs::read_dir(&*folder)?.count();
    ensure!(
        taken == files,
        "{files} files, and of these were taken: {output}"
    );
    Ok(())
}

/// With every value set, and then with none.
pub(super) async fn a_release_is_installed_upgraded_rolled_back_and_uninstalled(
    scope: &Scope,
) -> Result<()> {
    let charts = home::repository().join("k8s/charts");
    let values = charts.join("tests/golden/everything.values.yaml");
    let values = fs::read_to_string(&values).context("there are no values")?;
    let chart = charts.join("gateway");
    let chart = chart.to_string_lossy();

    let install = ["install", "gateway", &chart, "--values", "-"];
    scope.helm(&install, &values).await?;
    let everything = names(scope).await?;
    for kind in KINDS {
        let is_created = everything
            .iter()
            .any(|name| name.split(['.', '/']).next() == Some(kind));
        ensure!(is_created, "no {kind} was made: {everything:?}");
    }

    a_second_release_is_refused(scope, &chart).await?;

    let upgrade = ["upgrade", "gateway", &chart, "--reset-values"];
    scope.helm(&upgrade, "").await?;
    let few = names(scope).await?;
    ensure!(
        few.contains(&"deployment.apps/gateway".to_owned())
            && few.iter().all(|name| name.ends_with("/gateway")),
        "the default values make other objects: {few:?}"
    );

    scope.helm(&["rollback", "gateway", "1"], "").await?;
    let again = names(scope).await?;
    ensure!(
        again == everything,
        "{again:?} is not what was there before: {everything:?}"
    );

    scope.helm(&["uninstall", "gateway"], "").await?;
    let remaining = names(scope).await?;
    ensure!(
        remaining.is_empty(),
        "the release is gone, and not {remaining:?}"
    );
    let roles = scope
        .kubectl(
            &["get", "clusterroles,clusterrolebindings", "-o", "name"],
            "",
        )
        .await?;
    ensure!(
        !roles.contains(&scope.namespace),
        "permissions stay: {roles}"
    );
    Ok(())
}

/// Its controller would share the election of the first one.
async fn a_second_release_is_refused(scope: &Scope, chart: &str) -> Result<()> {
    let class = "gatewayClass.name=second";
    let install = ["install", "second", chart, "--set", class];
    let Err(error) = scope.helm(&install, "").await else {
        bail!("a second release was installed into the namespace");
    };
    let error = format!("{error:#}");
    ensure!(
        error.contains("install it in a namespace of its own"),
        "it is refused for another reason: {error}"
    );
    Ok(())
}

/// The objects of the release, by kind and name.
async fn names(scope: &Scope) -> Result<Vec<String>> {
    let kinds = KINDS.join(",");
    let ours = [
        "--selector",
        "app.kubernetes.io/part-of=gateway",
        "-o",
        "name",
    ];
    let output = scope
        .kubectl(&[&["get", &kinds], &ours[..]].concat(), "")
        .await?;
    Ok(output.lines().map(str::to_owned).collect())
}
