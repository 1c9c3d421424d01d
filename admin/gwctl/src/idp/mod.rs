//! `gwctl idp`: sets up a Keycloak for tests of token validation, over its HTTP API.
//!
//! Nothing is kept on this machine: what was set up is found again by its marks at the provider.
//! `provider` sends calls and `failure` explains errors; `admin` is the session of an
//! administrator. A set-up consists of a `client`, `profile` and `users`; `registration` takes
//! policies away for tests, `manifest` is what a gateway needs of it all, and `apply` writes that into a
//! cluster.

mod admin;
mod apply;
pub(crate) mod args;
mod changes;
mod cleanup;
mod client;
mod failure;
mod manifest;
mod password;
mod profile;
mod provider;
mod provider_url;
mod registration;
mod setup;
mod status;
mod token;
mod users;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};

use self::admin::Admin;
use self::args::{IdpArgs, IdpCommand, ProviderArgs};
use self::provider::Provider;
use crate::args::SourceArgs;
use crate::client::DEFAULT_TIMEOUT;
use crate::runtime::Blocking;

/// Runs a command.
///
/// # Errors
/// The provider cannot be reached or refuses, or output cannot be written.
pub(crate) fn run(args: &IdpArgs, source: &SourceArgs, out: &mut dyn Write) -> Result<ExitCode> {
    let timeout = source.timeout.unwrap_or(DEFAULT_TIMEOUT);
    let runtime = Blocking::new()?;
    match &args.command {
        IdpCommand::Setup(setup) => {
            let admin = sign_in(&setup.provider, timeout)?;
            setup::run(setup, source, &runtime, &admin, out)
        }
        IdpCommand::Token(token) => {
            let admin = sign_in(&token.provider, timeout)?;
            runtime.block_on(token::run(token, &admin, out))
        }
        IdpCommand::Status(status) => {
            let admin = sign_in(&status.provider, timeout)?;
            runtime.block_on(status::run(status, &admin, out))
        }
        IdpCommand::Cleanup(cleanup) => {
            let admin = sign_in(&cleanup.provider, timeout)?;
            runtime.block_on(cleanup::run(&admin, out))
        }
    }
}

fn sign_in(args: &ProviderArgs, timeout: Duration) -> Result<Admin> {
    let provider = Provider::new(args, timeout)?;
    let file = args.admin_password_file.as_deref();
    let password = password::read(&password::ADMIN, &args.admin_user, file);
    let password = password.context("the administrator's password is needed")?;
    Ok(Admin::new(provider, args, password))
}
