//! The command line of `gwctl idp`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use http::uri::Authority;

use super::provider_url::ProviderUrl;
use crate::cluster::Kind;

/// Arguments of `gwctl idp` and its subcommands.
#[derive(Debug, Args)]
pub(crate) struct IdpArgs {
    #[command(subcommand)]
    pub(crate) command: IdpCommand,
}

/// A subcommand of `gwctl idp`.
#[derive(Debug, Subcommand)]
pub(crate) enum IdpCommand {
    /// Create a client and two test users; changes nothing where they exist
    Setup(SetupArgs),
    /// Print an access token of a user
    Token(TokenArgs),
    /// Show what is set up
    Status(StatusArgs),
    /// Remove everything that `setup` created, and restore what it removed
    Cleanup(CleanupArgs),
}

/// URL and administrator of the provider.
#[derive(Debug, Args)]
pub(crate) struct ProviderArgs {
    /// Base URL of the Keycloak, such as `http://localhost:8080`
    #[arg(long)]
    pub(crate) url: ProviderUrl,
    /// Administrator of the master realm
    #[arg(long, value_name = "NAME")]
    pub(crate) admin_user: String,
    /// File with the administrator's password [default: `IDP_ADMIN_PASSWORD`, or a prompt]
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_password_file: Option<PathBuf>,
    /// Client that the administrator signs in with
    #[arg(long, value_name = "CLIENT", default_value = "admin-cli")]
    pub(crate) admin_client: String,
    /// CA certificates (PEM) to verify the provider with [default: the system's trust store]
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// Do not verify the provider's certificate
    #[arg(short = 'k', long, conflicts_with = "cacert")]
    pub(crate) insecure: bool,
}

/// Arguments of `gwctl idp setup`.
#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,
    /// File with the password of the test users [default: `IDP_USER_PASSWORD`, or a prompt]
    #[arg(long, value_name = "FILE")]
    pub(crate) user_password_file: Option<PathBuf>,
    /// Also remove the policies that restrict client registration: anyone may register clients then
    #[arg(long)]
    pub(crate) testing: bool,
    /// Also print a TrafficPolicy for this target: gateway/NAME, httproute/NAME or grpcroute/NAME
    #[arg(long, value_name = "KIND/NAME")]
    pub(crate) target: Option<PolicyTarget>,
    /// Apply the TrafficPolicy to the cluster of the kubeconfig instead, beside its target, with the Backend, or
    /// the ReferenceGrant in the namespace of the Service, that it needs
    #[arg(long, requires = "target")]
    pub(crate) apply: bool,
    /// Where the gateway fetches the provider's keys from, unless from --url: a Service in a cluster is
    /// `NAME.NAMESPACE.svc.cluster.local:PORT`
    #[arg(long, value_name = "HOST:PORT", requires = "target")]
    pub(crate) keys_from: Option<HostPort>,
    /// Output format; with --target, text is the manifest on stdout and the rest on stderr
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: IdpOutput,
}

/// Arguments of `gwctl idp token`.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,
    /// User that the token is about
    #[arg(long, value_name = "NAME")]
    pub(crate) user: String,
    /// File with the user's password [default: `IDP_USER_PASSWORD`, or a prompt]
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Print header and claims of the token instead, which are not verified
    #[arg(long)]
    pub(crate) decode: bool,
}

/// Arguments of `gwctl idp status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: IdpOutput,
}

/// Arguments of `gwctl idp cleanup`.
#[derive(Debug, Args)]
pub(crate) struct CleanupArgs {
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdpOutput {
    /// Text to read
    #[default]
    Text,
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// The target of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PolicyTarget {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

impl FromStr for PolicyTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once('/').unwrap_or(("gateway", text));
        let kinds = [Kind::GATEWAY, Kind::HTTP_ROUTE, Kind::GRPC_ROUTE];
        let mut kinds = kinds.into_iter();
        let known = kinds.find(|known| known.name.eq_ignore_ascii_case(kind));
        let kind = known.ok_or_else(|| {
            format!(
                "unknown type `{kind}`; expected gateway/NAME, httproute/NAME or grpcroute/NAME"
            )
        })?;
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("`{name}` is not the name of a Kubernetes object"));
        }
        Ok(Self {
            kind,
            name: name.to_owned(),
        })
    }
}

/// A host and a port of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// A name, or an address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl FromStr for HostPort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected =
            "expected HOST:PORT, such as keycloak.identity-provider.svc.cluster.local:8080";
        let authority: Authority = text.parse().map_err(|_| expected)?;
        let host = authority.host().trim_matches(['[', ']']);
        match authority.port_u16() {
            Some(port) if port != 0 && !host.is_empty() && !text.contains('@') => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            _ => Err(expected),
        }
    }
}
