//! `gwctl idp status`: what is set up, and what is missing.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::admin::Admin;
use super::args::{IdpOutput, StatusArgs};
use super::client::{Client, has_mappers};
use super::setup::discover;
use super::users::USERS;
use super::{profile, registration};
use crate::output;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    issuer: String,
    jwks_uri: String,
    client_id: Option<String>,
    /// Whether the set-up is complete.
    complete: bool,
    parts: Vec<Part>,
    registration_policies: RegistrationPolicies,
}

/// One thing that `setup` makes.
#[derive(Serialize)]
struct Part {
    name: String,
    present: bool,
}

/// Policies that restrict client registration.
#[derive(Serialize)]
struct RegistrationPolicies {
    present: usize,
    removed: usize,
}

/// Prints the state of the set-up; fails if something is missing.
///
/// # Errors
/// The provider refuses.
pub(super) async fn run(args: &StatusArgs, admin: &Admin, out: &mut dyn Write) -> Result<ExitCode> {
    let status = read(admin).await?;
    match args.output {
        IdpOutput::Json => output::json(&status, out)?,
        IdpOutput::Yaml => output::yaml(&status, out)?,
        IdpOutput::Text => status.write(out)?,
    }
    Ok(if status.complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn read(admin: &Admin) -> Result<Status> {
    let discovery = discover(admin.provider()).await?;
    let client = Client::find(admin).await?;
    let mut parts = Vec::new();
    let mut part = |name: &str, present| {
        let name = name.to_owned();
        parts.push(Part { name, present });
    };
    let has_mappers = match &client {
        Some(client) => has_mappers(admin, client).await?,
        None => false,
    };
    part("client", client.as_ref().is_some_and(Client::is_configured));
    part("mappers", has_mappers);
    part("profile attribute", profile::is_defined(admin).await?);
    for user in &USERS {
        part(&format!("user {}", user.name), user.exists(admin).await?);
    }
    let (present, removed) = registration::count(admin, client.as_ref()).await?;
    Ok(Status {
        issuer: discovery.issuer,
        jwks_uri: discovery.jwks_uri,
        client_id: client.map(|client| client.name),
        complete: parts.iter().all(|part| part.present),
        parts,
        registration_policies: RegistrationPolicies { present, removed },
    })
}

impl Status {
    fn write(&self, out: &mut dyn Write) -> Result<()> {
        let policies = match self.registration_policies {
            RegistrationPolicies {
                removed: 0,
                present,
            } => format!("{present} in place"),
            RegistrationPolicies { removed, .. } => {
                format!("{removed} removed for testing: anyone may register clients")
            }
        };
        let client = self.client_id.as_deref().unwrap_or("-");
        let parts = self.parts.iter().map(|part| {
            let state = if part.present {
                "as set up"
            } else {
                "missing or changed"
            };
            (part.name.as_str(), state)
        });
        let rows = [
            ("issuer", self.issuer.as_str()),
            ("JWKS", &self.jwks_uri),
            ("client id", client),
        ];
        let last = [("registration policies", policies.as_str())];
        for (name, value) in rows.into_iter().chain(parts).chain(last) {
            output::line(&format!("{name:<23}{value}"), out)?;
        }
        if !self.complete {
            output::line("run `gwctl idp setup` for what is missing", out)?;
        }
        Ok(())
    }
}
