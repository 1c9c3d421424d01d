//! The site of a case: a namespace with a serving Gateway of the peer's class.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::context::Context;
use super::objects::{GATEWAY, Parent, Route, address, gateway, service, slice};
use super::prober::Prober;

/// How long a Gateway may take to have an address and proxies.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The Service of a site, which has two endpoints.
pub(crate) const SERVICE: &str = "backend";

/// A Gateway that serves.
pub(crate) struct ServingGateway {
    pub(crate) namespace: String,
    /// The address of its HTTP listener.
    pub(crate) address: SocketAddr,
    /// The parent of the routes.
    pub(crate) parent: Parent,
}

impl ServingGateway {
    /// Makes one, and waits until it serves.
    pub(crate) async fn open(context: &Context<'_>) -> Result<Self> {
        let Context { cluster, peer, .. } = context;
        let namespace = cluster.namespace("bench").await?;
        cluster.create(&gateway(&namespace, &peer.class)).await?;
        let gateways = cluster.api("gateway.networking.k8s.io/v1", "Gateway", Some(&namespace));
        let what = format!("a Gateway of class {} to have an address", peer.class);
        let ip = cluster
            .until(&what, TIMEOUT, async || {
                let found = gateways.get(GATEWAY).await?;
                let ip = found.data["status"]["addresses"][0]["value"].as_str();
                Ok(ip.map(str::to_owned))
            })
            .await?;
        let site = Self {
            address: SocketAddr::new(
                ip.parse()
                    .context("the Gateway's address is no IP address")?,
                80,
            ),
            parent: Parent {
                kind: "Gateway",
                namespace: namespace.clone(),
                name: GATEWAY.to_owned(),
            },
            namespace,
        };
        site.add_service(context).await?;
        cluster
            .create(&site.route("first", "first.example.com", "/").object())
            .await?;
        // Connections are refused until the proxies run; that is not an error of the case.
        Prober::new(site.address, None)?
            .until_served("first.example.com", "/")
            .await?;
        cluster
            .delete_all([site.route("first", "", "/").object()])
            .await?;
        Ok(site)
    }

    pub(crate) async fn add_service(&self, context: &Context<'_>) -> Result<()> {
        let (cluster, backend) = (context.cluster, context.backend);
        let endpoints = [address(backend.range, 0), address(backend.range, 1)];
        cluster.create(&service(&self.namespace, SERVICE)).await?;
        cluster
            .create(&slice(
                &self.namespace,
                SERVICE,
                0,
                &endpoints,
                backend.port,
            ))
            .await
    }

    /// A route to the site's Service.
    pub(crate) fn route<'a>(&'a self, name: &'a str, host: &'a str, path: &'a str) -> Route<'a> {
        Route {
            namespace: &self.namespace,
            name,
            parent: &self.parent,
            host,
            path,
            service: SERVICE,
        }
    }

    /// The routes of attached-routes.
    pub(crate) fn routes(&self, count: usize) -> Vec<Value> {
        let route = |number| {
            let name = format!("route-{number}");
            let host = format!("{name}.example.com");
            self.route(&name, &host, "/").object()
        };
        (0..count).map(route).collect()
    }
}
