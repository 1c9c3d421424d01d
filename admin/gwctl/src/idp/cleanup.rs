//! `gwctl idp cleanup`: removes what `setup` created, found by its marks, and restores what it removed.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use super::admin::Admin;
use super::changes::Changes;
use super::client::Client;
use super::provider::ADMIN;
use super::users::USERS;
use super::{profile, registration};
use crate::output;

/// Removes everything. The client is removed last: the rest is found through it.
///
/// # Errors
/// The provider refuses.
pub(super) async fn run(admin: &Admin, out: &mut dyn Write) -> Result<ExitCode> {
    let mut changes = Changes::default();
    let client = Client::find(admin).await?;
    if let Some(client) = &client {
        registration::restore(admin, client, &mut changes).await?;
    }
    for user in &USERS {
        user.remove(admin, &mut changes).await?;
    }
    profile::remove(admin, &mut changes).await?;
    if let Some(client) = &client {
        let id = &client.name;
        // It was used up, and would be swept some time.
        let token = format!("{ADMIN}/clients-initial-access/{id}");
        admin
            .delete("delete an initial access token", &token)
            .await?;
        if admin.delete("delete the client", &client.path()).await? {
            changes.record(format_args!("deleted the client {id}"));
        }
    }
    let done = if changes.any() {
        "everything that gwctl created at the provider is removed"
    } else {
        "nothing to remove"
    };
    output::line(done, out)?;
    Ok(ExitCode::SUCCESS)
}
