//! The attribute `group` in the realm's user profile. Undefined attributes are dropped silently,
//! and with one that users may edit, each could choose their own group.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::admin::Admin;
use super::changes::Changes;
use super::client::MARK;
use super::provider::ADMIN;

/// Defines the attribute.
///
/// # Errors
/// The provider refuses, or users may edit the attribute.
pub(super) async fn ensure(admin: &Admin, changes: &mut Changes) -> Result<()> {
    let mut profile = read(admin).await?;
    if let Some(defined) = attributes(&profile).find(|it| is_group(it)) {
        let editors = defined["permissions"]["edit"].as_array();
        if editors.is_some_and(|editors| editors.contains(&json!("user"))) {
            bail!(
                "the user profile has an attribute `group` that users may edit, so that each could \
                 choose their own: allow administrators alone to edit it, or remove it"
            );
        }
        return Ok(());
    }
    let Some(Value::Array(attributes)) = profile.get_mut("attributes") else {
        bail!(
            "the user profile has no list of attributes: is the provider a Keycloak 24 or newer?"
        );
    };
    attributes.push(json!({
        "name": "group",
        "permissions": {"view": ["admin"], "edit": ["admin"]},
        "annotations": {MARK: "gwctl"},
    }));
    admin
        .update("define the attribute `group`", &path(), &profile)
        .await?;
    changes.record("defined the attribute `group` in the user profile");
    Ok(())
}

/// Removes the attribute, if it is ours.
///
/// # Errors
/// The provider refuses.
pub(super) async fn remove(admin: &Admin, changes: &mut Changes) -> Result<()> {
    let mut profile = read(admin).await?;
    if !attributes(&profile).any(is_ours) {
        return Ok(());
    }
    if let Some(Value::Array(attributes)) = profile.get_mut("attributes") {
        attributes.retain(|attribute| !is_ours(attribute));
    }
    admin
        .update("remove the attribute `group`", &path(), &profile)
        .await?;
    changes.record("removed the attribute `group` from the user profile");
    Ok(())
}

/// Whether the attribute is defined.
///
/// # Errors
/// The provider refuses.
pub(super) async fn is_defined(admin: &Admin) -> Result<bool> {
    Ok(attributes(&read(admin).await?).any(is_group))
}

async fn read(admin: &Admin) -> Result<Value> {
    admin.read("read the user profile", &path()).await
}

fn attributes(profile: &Value) -> impl Iterator<Item = &Value> {
    profile["attributes"].as_array().into_iter().flatten()
}

fn is_group(attribute: &Value) -> bool {
    attribute["name"] == "group"
}

fn is_ours(attribute: &Value) -> bool {
    is_group(attribute) && attribute["annotations"][MARK] == "gwctl"
}

fn path() -> String {
    format!("{ADMIN}/users/profile")
}
