//! The command line of `bench control-plane`.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};

use super::peer::Peer;
use super::sizes::Sizes;

/// Arguments of `bench control-plane`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ControlPlaneArgs {
    /// GatewayClasses of the implementations to measure, which take turns case by case.
    #[arg(long = "class", value_delimiter = ',', default_value = "gateway")]
    classes: Vec<String>,
    /// The controller's Deployment, for a class that bench does not know.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    controller: Option<String>,
    /// The label of proxy pods whose value is the name of their Gateway.
    #[arg(long, default_value = "gateway.networking.k8s.io/gateway-name")]
    proxies: String,
    /// Cases; all unless given.
    #[arg(long = "case", value_enum, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Small numbers, for a quick check.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Endpoints are addresses of this /16; this process answers on all of them, and they have to
    /// be routed here from pods.
    #[arg(long, default_value = "10.250.0.0")]
    pub(crate) endpoints_range: Ipv4Addr,
    /// Make a report of these records, the oldest first, and measure nothing.
    #[arg(long, value_delimiter = ',')]
    pub(crate) from: Vec<PathBuf>,
    /// Folder of records and reports.
    #[arg(long, default_value = "target/bench")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    sizes: SizeArgs,
}

/// A case, or several that share their set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// Whether `attachedRoutes` of a Gateway follows, and in how many writes.
    AttachedRoutes,
    /// How long a new route takes to serve, one after the other.
    Probe,
    /// Whether requests fail while their route changes.
    RouteChange,
    /// Many routes, each with a Service: cost, and probes beside them, at rest and under churn.
    RouteScale,
    /// Many ListenerSets with a certificate and routes: cost, changes, and cold starts.
    ListenerSets,
    /// All proxies of a Gateway reconnect to a controller that was restarted.
    Reconnect,
    /// All endpoints of a Service are replaced at once.
    Endpoints,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sizes")]
struct SizeArgs {
    /// Routes of attached-routes [default: 1000].
    #[arg(long, hide_default_value = true)]
    attached: Option<usize>,
    /// Routes of probe [default: 3000].
    #[arg(long)]
    probes: Option<usize>,
    /// Namespaces of route-scale and listener-sets [default: 50].
    #[arg(long)]
    namespaces: Option<usize>,
    /// Routes in each namespace of route-scale [default: 100].
    #[arg(long)]
    routes: Option<usize>,
    /// Probes beside them, at rest and under churn [default: 300].
    #[arg(long)]
    probes_at_scale: Option<usize>,
    /// Changes per second under churn, half of them of routes and half of endpoints [default: 20].
    #[arg(long)]
    churn: Option<u32>,
    /// Seconds of route-change [default: 300].
    #[arg(long)]
    change_seconds: Option<u64>,
    /// ListenerSets in each namespace [default: 50].
    #[arg(long)]
    sets: Option<usize>,
    /// Routes of each ListenerSet [default: 16].
    #[arg(long)]
    routes_per_set: Option<usize>,
    /// Proxies of reconnect [default: 100].
    #[arg(long)]
    replicas: Option<usize>,
    /// Endpoints of endpoints [default: 1000].
    #[arg(long)]
    endpoints: Option<usize>,
}

impl ControlPlaneArgs {
    pub(super) fn cases(&self) -> Vec<Case> {
        if self.cases.is_empty() {
            return Case::value_variants().to_vec();
        }
        self.cases.clone()
    }

    pub(super) fn sizes(&self) -> Sizes {
        let (given, quick) = (&self.sizes, self.quick);
        let size = |given: Option<usize>, usual: usize, small: usize| {
            given.unwrap_or(if quick { small } else { usual })
        };
        Sizes {
            attached: size(given.attached, 1_000, 50),
            probes: size(given.probes, 3_000, 50),
            namespaces: size(given.namespaces, 50, 3),
            routes: size(given.routes, 100, 10),
            probes_at_scale: size(given.probes_at_scale, 300, 20),
            churn: given.churn.unwrap_or(20),
            change_seconds: given.change_seconds.unwrap_or(if quick { 5 } else { 300 }),
            sets: size(given.sets, 50, 3),
            routes_per_set: size(given.routes_per_set, 16, 4),
            replicas: size(given.replicas, 100, 3),
            endpoints: size(given.endpoints, 1_000, 50),
        }
    }

    /// The implementations of the classes.
    pub(super) fn peers(&self) -> Result<Vec<Peer>> {
        ensure!(
            self.controller.is_none() || self.classes.len() == 1,
            "--controller is for one --class"
        );
        let peer = |class: &String| match &self.controller {
            Some(controller) => {
                let (namespace, name) = controller
                    .split_once('/')
                    .with_context(|| format!("'{controller}' is not NAMESPACE/NAME"))?;
                Ok(Peer {
                    class: class.clone(),
                    namespace: namespace.to_owned(),
                    deployment: name.to_owned(),
                    proxies: self.proxies.clone(),
                    // Only known classes can be given many proxies.
                    xds_port: 0,
                })
            }
            None => Peer::known(class).with_context(|| {
                format!("bench does not know class {class}: name its Deployment with --controller")
            }),
        };
        self.classes.iter().map(peer).collect()
    }
}
