//! `gwctl idp`: sets up a Keycloak for tests of token validation, over its HTTP API.
//!
//! Nothing is kept on this machine: what was set up is found again by its marks at the provider.
//! `provider` sends calls and `failure` explains what came back; `admin` is the session of an
//! administrator. A set-up consists of a `client`, `profile` and `users`; `registration` takes
//! policies away for tests, and `manifest` is what a gateway needs of it all.

mod admin;
pub(crate) mod args;
mod changes;
mod cleanup;
mod client;
mod failure;
mod manifest;
mod password;
mod profile;
mod provider;
mod registration;
mod setup;
mod status;
mod token;
mod users;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::runtime::Builder;

use self::admin::Admin;
use self::args::{IdpArgs, IdpCommand, ProviderArgs};
use self::provider::Provider;
use crate::args::SourceArgs;
use crate::client::DEFAULT_TIMEOUT;

/// Runs a command.
///
/// # Errors
/// The provider cannot be reached or refuses, or output cannot be written.
pub(crate) fn run(args: &IdpArgs, source: &SourceArgs, out: &mut dyn Write) -> Result<ExitCode> {
    let timeout = source.timeout.unwrap_or(DEFAULT_TIMEOUT);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        match &args.command {
            IdpCommand::Setup(setup) => {
                let namespace = source.namespace.as_deref();
                setup::run(setup, namespace, &sign_in(&setup.provider, timeout)?, out).await
            }
            IdpCommand::Token(token) => {
                token::run(token, &sign_in(&token.provider, timeout)?, out).await
            }
            IdpCommand::Status(status) => {
                status::run(status, &sign_in(&status.provider, timeout)?, out).await
            }
            IdpCommand::Cleanup(cleanup) => {
                cleanup::run(&sign_in(&cleanup.provider, timeout)?, out).await
            }
        }
    });
    // A name look-up blocks a thread of its own, for longer than our timeout.
    runtime.shutdown_background();
    result
}

fn sign_in(args: &ProviderArgs, timeout: Duration) -> Result<Admin> {
    let provider = Provider::new(args, timeout)?;
    let file = args.admin_password_file.as_deref();
    let password = password::read(&password::ADMIN, &args.admin_user, file);
    let password = password.context("the administrator's password is needed")?;
    Ok(Admin::new(provider, args, password))
}
