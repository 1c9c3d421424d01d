//! Client registration policies, which tests can have removed temporarily. The removed ones are
//! stored in an attribute of our client, so that any machine can restore them.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::admin::Admin;
use super::changes::Changes;
use super::client::{Client, update};
use super::provider::ADMIN;

/// Removes the policies that restrict client registration.
///
/// # Errors
/// The provider refuses.
pub(super) async fn open(admin: &Admin, id: &str, changes: &mut Changes) -> Result<()> {
    let restricting: Vec<Value> = policies(admin)
        .await?
        .into_iter()
        .filter(restricts)
        .collect();
    if restricting.is_empty() {
        return Ok(());
    }
    let client = Client::find(admin).await?;
    let mut removed = client
        .as_ref()
        .map(removed)
        .transpose()?
        .unwrap_or_default();
    removed.retain(|old| restricting.iter().all(|new| old["id"] != new["id"]));
    removed.extend(restricting.iter().cloned());
    // Before they are gone, so that an interrupted run loses none.
    let kept = Value::Array(removed).to_string();
    update(admin, id, &[(REMOVED, &kept)]).await?;
    for policy in &restricting {
        let path = format!("{}/{}", path(), policy["id"].as_str().unwrap_or_default());
        admin.delete("remove a registration policy", &path).await?;
        changes.record(format_args!(
            "removed the registration policy {}",
            describe(policy)
        ));
    }
    eprintln!(
        "warning: anyone who reaches {} can register clients until `gwctl idp cleanup` puts these \
         policies back",
        admin.provider().url
    );
    Ok(())
}

/// Restores the removed policies.
///
/// # Errors
/// The provider refuses.
pub(super) async fn restore(admin: &Admin, client: &Client, changes: &mut Changes) -> Result<()> {
    let removed = removed(client)?;
    if removed.is_empty() {
        return Ok(());
    }
    let present = policies(admin).await?;
    for policy in &removed {
        if present.iter().all(|it| it["id"] != policy["id"]) {
            admin
                .create("put back a registration policy", &path(), policy)
                .await?;
            changes.record(format_args!(
                "put back the registration policy {}",
                describe(policy)
            ));
        }
    }
    Ok(())
}

/// How many policies restrict registration, and how many were removed.
///
/// # Errors
/// The provider refuses.
pub(super) async fn count(admin: &Admin, client: Option<&Client>) -> Result<(usize, usize)> {
    let present = policies(admin).await?;
    let removed = client.map(removed).transpose()?.unwrap_or_default();
    let is_away = |policy: &&Value| present.iter().all(|it| it["id"] != policy["id"]);
    let away = removed.iter().filter(is_away).count();
    Ok((present.iter().filter(|it| restricts(it)).count(), away))
}

async fn policies(admin: &Admin) -> Result<Vec<Value>> {
    let path = format!("{}?type={KIND}", path());
    admin.read("list the registration policies", &path).await
}

fn restricts(policy: &Value) -> bool {
    let (provider, kind) = (&policy["providerId"], &policy["subType"]);
    provider == "trusted-hosts" || (provider == "allowed-client-templates" && kind == "anonymous")
}

fn removed(client: &Client) -> Result<Vec<Value>> {
    let Some(text) = client.attributes.get(REMOVED) else {
        return Ok(Vec::new());
    };
    serde_json::from_str(text).with_context(|| {
        format!(
            "the attribute `{REMOVED}` of the client {} is damaged: correct or remove it",
            client.name
        )
    })
}

fn describe(policy: &Value) -> String {
    let text = |name: &str| policy[name].as_str().unwrap_or_default().to_owned();
    format!("{} ({})", text("providerId"), text("subType"))
}

fn path() -> String {
    format!("{ADMIN}/components")
}

/// The attribute of our client that keeps what was removed.
const REMOVED: &str = "gwctl.removed-policies";
/// The type of such policies.
const KIND: &str = "org.keycloak.services.clientregistration.policy.ClientRegistrationPolicy";
