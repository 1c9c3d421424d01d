//! `gwctl idp setup`: a client and two users whose tokens have a `group`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use http::Method;
use serde::{Deserialize, Serialize};

use super::admin::Admin;
use super::args::{IdpOutput, SetupArgs};
use super::changes::Changes;
use super::failure::{Purpose, refused, unreadable};
use super::manifest::{KeysFrom, Manifest};
use super::password::Secret;
use super::provider::{Body, Call, Provider, REALM};
use super::users::USERS;
use super::{apply, client, manifest, password, profile, registration};
use crate::args::SourceArgs;
use crate::output;
use crate::runtime::Blocking;

/// The results of a set-up that a gateway and its users need.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Setup {
    pub(super) issuer: String,
    pub(super) jwks_path: String,
    pub(super) client_id: String,
    client_secret: Option<String>,
    /// Whether anything was not as it should be before.
    changed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    manifests: Vec<Manifest>,
}

/// The provider's metadata (`OpenID` Connect Discovery 1.0 section 3).
#[derive(Debug, Deserialize)]
pub(super) struct Discovery {
    pub(super) issuer: String,
    pub(super) jwks_uri: String,
}

/// Creates what is missing, and prints the result.
///
/// # Errors
/// The provider or the cluster refuses, or there is no password for a user that is missing.
pub(super) fn run(
    args: &SetupArgs,
    source: &SourceArgs,
    runtime: &Blocking,
    admin: &Admin,
    out: &mut dyn Write,
) -> Result<ExitCode> {
    // Before anything is changed.
    let cluster = match &args.target {
        Some(target) if args.apply => Some(apply::cluster_of(target, source, runtime)?),
        _ => None,
    };
    let mut changes = Changes::default();
    let (mut setup, jwks_uri) = runtime.block_on(set_up(args, admin, &mut changes))?;
    if let Some(target) = &args.target {
        let keys_from = KeysFrom::of(args.keys_from.as_ref(), &admin.provider().url, &jwks_uri);
        let namespace = match &cluster {
            Some(cluster) => cluster.namespace(),
            None => source.namespace.as_deref().unwrap_or("default"),
        };
        setup.manifests = manifest::of(&setup, &keys_from, target, namespace);
    }
    let applied = match &cluster {
        Some(cluster) => apply::apply(cluster, &setup.manifests, &mut changes),
        None => Ok(()),
    };
    setup.changed = changes.any();
    // Also after a failure: the secret is printed once.
    setup.print(args, out)?;
    applied.map(|()| ExitCode::SUCCESS)
}

/// Sets up what is missing at the provider. Also returns the URL of its keys.
async fn set_up(args: &SetupArgs, admin: &Admin, changes: &mut Changes) -> Result<(Setup, String)> {
    let client = client::ensure(admin, changes).await?;
    profile::ensure(admin, changes).await?;
    let mut known: Option<Secret> = None;
    for user in &USERS {
        // One for all users, which is prompted for once.
        let read = || {
            if known.is_none() {
                let file = args.user_password_file.as_deref();
                known = Some(password::read(&password::USERS, "the test users", file)?);
            }
            Ok(known.clone().expect("it was read just now"))
        };
        user.ensure(admin, read, changes).await?;
    }
    if args.testing {
        registration::open(admin, &client.id, changes).await?;
    }
    let discovery = discover(admin.provider()).await?;
    warn_of_issuer(admin.provider(), &discovery);
    let setup = Setup {
        jwks_path: path_of(&discovery.jwks_uri),
        issuer: discovery.issuer,
        client_id: client.client_id,
        client_secret: client.secret.map(|secret| secret.reveal().to_owned()),
        changed: changes.any(),
        manifests: Vec::new(),
    };
    Ok((setup, discovery.jwks_uri))
}

/// Reads the issuer and the URL of its keys from the provider's discovery document.
///
/// # Errors
/// The provider refuses, or returns something else.
pub(super) async fn discover(provider: &Provider) -> Result<Discovery> {
    let what = "read the provider's configuration";
    let call = Call {
        method: Method::GET,
        path: &format!("{REALM}/.well-known/openid-configuration"),
        bearer: None,
        body: Body::Nothing,
    };
    let response = provider.send(&call).await?;
    if !response.status.is_success() {
        return Err(refused(Purpose::Discovery, what, &provider.url, &response));
    }
    let discovery = serde_json::from_slice(&response.body);
    discovery.map_err(|_| unreadable(what, &provider.url, &response))
}

/// Tokens contain the provider's own issuer URL, whatever URL it is reached at.
fn warn_of_issuer(provider: &Provider, discovery: &Discovery) {
    let expected = format!("{}{REALM}", provider.url);
    if discovery.issuer != expected {
        let issuer = output::shown(&discovery.issuer);
        eprintln!(
            "warning: the provider calls itself {issuer}, not {expected}: its tokens name the former, \
             which is what a gateway has to be given as issuer"
        );
    }
}

/// A URL without scheme and host.
fn path_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..]).to_owned()
}

impl Setup {
    /// A set-up whose keys are at this path of the provider.
    #[cfg(test)]
    pub(super) fn of_keys_at(path: &str) -> Self {
        Self {
            issuer: "http://127.0.0.1:8180/realms/master".to_owned(),
            jwks_path: path.to_owned(),
            client_id: "client".to_owned(),
            client_secret: None,
            changed: false,
            manifests: Vec::new(),
        }
    }

    fn print(&self, args: &SetupArgs, out: &mut dyn Write) -> Result<()> {
        match args.output {
            IdpOutput::Json => output::json(self, out),
            IdpOutput::Yaml => output::yaml(self, out),
            IdpOutput::Text if self.manifests.is_empty() || args.apply => self.write(out),
            IdpOutput::Text => {
                self.write(&mut std::io::stderr().lock())?;
                for manifest in &self.manifests {
                    writeln!(out, "---")?;
                    output::yaml(manifest, out)?;
                }
                Ok(())
            }
        }
    }

    fn write(&self, out: &mut dyn Write) -> Result<()> {
        if !self.changed {
            output::line("nothing to change", out)?;
        }
        let secret = match &self.client_secret {
            Some(secret) => format!("{secret}  (not shown again)"),
            None => "(shown by the run that created the client)".to_owned(),
        };
        let users = USERS.each_ref();
        let users = users.map(|user| format!("{} (group {})", user.name, user.group));
        for (name, value) in [
            ("issuer", &self.issuer),
            ("JWKS path", &self.jwks_path),
            ("client id", &self.client_id),
            ("client secret", &secret),
            ("users", &users.join(", ")),
        ] {
            output::line(&format!("{name:<15}{value}"), out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::path_of;

    #[test]
    fn a_path_is_the_url_without_its_origin() {
        for (url, path) in [
            ("http://h:8080/realms/master/certs", "/realms/master/certs"),
            ("https://h/a?b", "/a?b"),
            ("https://h", "/"),
        ] {
            assert_eq!(path_of(url), path);
        }
    }
}
