//! The command line. Each flag has an environment variable, which the chart sets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::str::FromStr;

use admin::Address;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Deserialize;
use translate::{CONTROLLER_NAME, DEFAULT_CLASS};

use crate::log::LogFormat;
use crate::seccomp::InstallProfileArgs;
use crate::selectors::Selectors;

/// The control plane of the gateway: serves Gateway API resources to proxies over xDS.
#[derive(Debug, Parser)]
#[command(name = "controller", version, arg_required_else_help = true)]
pub struct Cli {
    /// What the program does.
    #[command(subcommand)]
    pub command: Command,
}

#[cfg(test)]
impl Cli {
    /// The arguments of `run`, in tests of it.
    pub(crate) fn into_run(self) -> RunArgs {
        match self.command {
            Command::Run(args) => *args,
            other @ Command::InstallSeccompProfile(_) => panic!("{other:?} is not run"),
        }
    }
}

/// The subcommands of `controller`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch the cluster and serve its proxies
    Run(Box<RunArgs>),
    /// Keep a seccomp profile in the kubelet's folder: for a container on each node
    InstallSeccompProfile(InstallProfileArgs),
}

/// Arguments of `controller run`.
#[derive(Debug, Clone, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct RunArgs {
    /// Address of the xDS server
    #[arg(long, env = "CONTROLLER_XDS_ADDRESS", default_value = "[::]:9978")]
    pub xds_address: SocketAddr,

    /// Transport of the xDS server
    #[arg(long, env = "CONTROLLER_XDS_MODE", value_enum, default_value_t)]
    pub xds_mode: XdsMode,

    /// Address of the health server, with /healthz and /readyz
    #[arg(long, env = "CONTROLLER_HEALTH_ADDRESS", default_value = "[::]:9093")]
    pub health_address: SocketAddr,

    /// Address of the metrics server, with /metrics
    #[arg(long, env = "CONTROLLER_METRICS_ADDRESS", default_value = "[::]:9092")]
    pub metrics_address: SocketAddr,

    /// Address of the admin server, with /logging, /memory and /debug/pprof/profile: HOST:PORT, unix:PATH
    /// or off
    #[arg(
        long,
        env = "CONTROLLER_ADMIN_ADDRESS",
        default_value = "localhost:15000"
    )]
    pub admin_address: Address,

    /// Log level, or a filter with the syntax of RUST_LOG
    #[arg(long, env = "CONTROLLER_LOG_LEVEL", default_value = "info")]
    pub log_level: String,

    /// Output format of the log, which goes to stderr
    #[arg(long, env = "CONTROLLER_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// Name of the GatewayClass that is created at start
    #[arg(long, env = "CONTROLLER_GATEWAY_CLASS", default_value = DEFAULT_CLASS)]
    pub gateway_class: String,

    /// controllerName of the GatewayClasses that are served
    #[arg(long, env = "CONTROLLER_NAME", default_value = CONTROLLER_NAME)]
    pub controller_name: String,

    /// Label selectors of the namespaces to read, as a list in JSON or YAML. A namespace is read if one
    /// selector matches; matchLabels and matchExpressions of one selector must both match
    /// [default: every namespace]
    #[arg(
        long,
        env = "CONTROLLER_DISCOVERY_NAMESPACE_SELECTORS",
        default_value = "[]",
        hide_default_value = true
    )]
    pub discovery_namespace_selectors: Selectors,

    /// GatewayParameters of the created GatewayClass, as a mapping in JSON or YAML from its name to
    /// {name, namespace}
    #[arg(
        long,
        env = "CONTROLLER_GATEWAY_CLASS_PARAMETERS_REFS",
        default_value = "{}",
        hide_default_value = true
    )]
    pub gateway_class_parameters_refs: ParametersRefs,

    /// Whether to read InferencePools of the Gateway API Inference Extension
    #[arg(
        long,
        env = "CONTROLLER_INFERENCE_EXTENSION",
        default_value_t = false,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    pub inference_extension: bool,

    /// Whether to read XBackends of the experimental channel of Gateway API
    #[arg(
        long,
        env = "CONTROLLER_X_BACKEND",
        default_value_t = false,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    pub x_backend: bool,

    /// Whether to read the nodes of the cluster and the pods of proxies, for the addresses of Gateways whose
    /// Service is of type `NodePort`, or whose GatewayParameters have `addresses.from: Nodes`
    #[arg(
        long,
        env = "CONTROLLER_NODE_ADDRESSES",
        default_value_t = false,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    pub node_addresses: bool,

    /// Image of the proxies, where GatewayParameters name no other
    #[arg(long, env = "CONTROLLER_PROXY_IMAGE", default_value = "gateway:latest")]
    pub proxy_image: String,

    /// Pull policy of that image
    #[arg(
        long,
        env = "CONTROLLER_PROXY_IMAGE_PULL_POLICY",
        default_value = "IfNotPresent"
    )]
    pub proxy_image_pull_policy: String,

    /// Whether replicas elect a leader, which alone writes to the cluster
    #[arg(
        long,
        env = "CONTROLLER_LEADER_ELECTION",
        default_value_t = true,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    pub leader_election: bool,

    /// Namespace of the controller: its Lease, its Secrets and its Service are there
    #[arg(long, env = "POD_NAMESPACE", default_value = "gateway-system")]
    pub namespace: String,

    /// Name of this replica, unique among the replicas
    #[arg(long, env = "POD_NAME", default_value = "controller")]
    pub pod_name: String,

    /// Name of the controller's Service, which proxies connect to
    #[arg(long, env = "CONTROLLER_SERVICE", default_value = "controller")]
    pub service: String,
}

impl RunArgs {
    /// Advice about references to parameters that have no effect.
    #[must_use]
    pub fn parameters_advice(&self) -> Option<String> {
        let created = &self.gateway_class;
        let names = self.gateway_class_parameters_refs.0.keys();
        let unused: Vec<_> = names
            .filter(|it| *it != created)
            .map(|it| format!("`{it}`"))
            .collect();
        (!unused.is_empty()).then(|| {
            format!(
                "gatewayClassParametersRefs has parameters of {}, which have no effect: the controller creates the \
                 GatewayClass `{created}` only; correct the name, or set spec.parametersRef of your own class",
                unused.join(" and ")
            )
        })
    }
}

/// Transport of the xDS server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum XdsMode {
    /// Without TLS
    Plaintext,
    /// TLS alone
    #[default]
    Tls,
    /// Both on one port, distinguished by the first byte of a connection
    Either,
}

/// References to GatewayParameters, by the name of a GatewayClass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParametersRefs(pub BTreeMap<String, ParametersRef>);

/// A reference to GatewayParameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParametersRef {
    /// Name of the GatewayParameters.
    pub name: String,
    /// Namespace of the GatewayParameters.
    pub namespace: String,
}

impl FromStr for ParametersRefs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = serde_saphyr::from_str::<Option<_>>(text);
        let refs = parsed.map_err(|error| {
            format!(
                "{error}: use a mapping such as {{gateway: {{name: NAME, namespace: NAMESPACE}}}}"
            )
        })?;
        Ok(Self(refs.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;

    fn run(arguments: &[&str]) -> Result<RunArgs, clap::Error> {
        let arguments = ["controller", "run"].iter().chain(arguments);
        Cli::try_parse_from(arguments).map(Cli::into_run)
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn switches_can_be_set_to_either_value() {
        let args = run(&["--leader-election=false", "--inference-extension"]).expect("valid");
        assert!(!args.leader_election);
        assert!(args.inference_extension);
    }

    #[test]
    fn parameters_of_classes_need_name_and_namespace() {
        let flag = "--gateway-class-parameters-refs";
        let args = run(&[flag, r#"{"gateway": {"name": "a", "namespace": "b"}}"#]).expect("valid");
        let refs = args.gateway_class_parameters_refs.0;
        assert_eq!(refs["gateway"].namespace, "b");
        assert!(run(&[flag, "{gateway: {name: a}}"]).is_err());
        assert!(run(&[flag, "[1]"]).is_err());
    }

    #[test]
    fn parameters_of_a_misspelt_class_are_named() {
        let refs = |refs: &str| run(&["--gateway-class-parameters-refs", refs]).expect("valid");
        let advice = refs("{gatewy: {name: a, namespace: b}}").parameters_advice();
        let advice = advice.expect("it has no effect");
        assert!(
            advice.contains("`gatewy`") && advice.contains("`gateway` only"),
            "{advice}"
        );
        let used = refs("{gateway: {name: a, namespace: b}}");
        assert_eq!(used.parameters_advice(), None);
    }
}
