//! The settings of deployments that all Gateways share.

use super::addresses::NodeReading;
use super::render::Defaults;
use crate::args::{RunArgs, XdsMode};
use crate::xds::AUDIENCE;

/// The deployment settings of the controller.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Settings common to the proxies of all Gateways, except the authorities.
    pub defaults: Defaults,
    /// Whether proxies connect with TLS, and so need authorities.
    pub is_encrypted: bool,
    /// Whether the addresses of nodes are read.
    pub nodes: NodeReading,
}

impl Settings {
    /// The settings of the command line.
    #[must_use]
    pub fn of(args: &RunArgs) -> Self {
        let is_encrypted = args.xds_mode != XdsMode::Plaintext;
        let scheme = if is_encrypted { "https" } else { "http" };
        let (service, namespace) = (&args.service, &args.namespace);
        let port = args.xds_address.port();
        Self {
            defaults: Defaults {
                image: args.proxy_image.clone(),
                image_pull_policy: args.proxy_image_pull_policy.clone(),
                xds_address: format!("{scheme}://{service}.{namespace}.svc:{port}"),
                authorities: None,
                audience: AUDIENCE.to_owned(),
            },
            is_encrypted,
            nodes: if args.node_addresses {
                NodeReading::Enabled
            } else {
                NodeReading::Disabled
            },
        }
    }
}
