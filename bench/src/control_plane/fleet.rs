//! Many routes in many namespaces, each with a host, a Service and endpoints of its own.

use std::net::Ipv4Addr;

use anyhow::Result;
use serde_json::Value;

use super::context::Context;
use super::objects::{Parent, Route, address, service, slice};
use super::serving_gateway::ServingGateway;

pub(crate) struct Fleet {
    namespaces: Vec<String>,
    /// Routes in each of them.
    each: usize,
    parent: Parent,
    range: Ipv4Addr,
    port: u16,
}

impl Fleet {
    /// Creates the namespaces, still empty.
    pub(crate) async fn plan(context: &Context<'_>, site: &ServingGateway) -> Result<Self> {
        let mut namespaces = Vec::new();
        for _ in 0..context.sizes.namespaces {
            namespaces.push(context.cluster.namespace("bench-fleet").await?);
        }
        Ok(Self {
            namespaces,
            each: context.sizes.routes,
            parent: site.parent.clone(),
            range: context.backend.range,
            port: context.backend.port,
        })
    }

    /// How many routes there are.
    pub(crate) fn len(&self) -> usize {
        self.namespaces.len() * self.each
    }

    /// All objects: for each route its Service, its endpoints, and itself.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Value> + '_ {
        (0..self.len()).flat_map(|number| {
            let (namespace, name) = self.place(number);
            [
                service(namespace, &name),
                self.endpoints(number, 0),
                self.route(number, 0),
            ]
        })
    }

    /// A route in one of its states, which differ in a path.
    pub(crate) fn route(&self, number: usize, state: usize) -> Value {
        let (namespace, name) = self.place(number);
        let route = Route {
            namespace,
            name: &name,
            parent: &self.parent,
            host: &Self::host(number),
            path: &format!("/state-{state}"),
            service: &name,
        };
        route.object()
    }

    /// The endpoints of a route's Service in one of their states: two addresses, which differ in
    /// each state.
    pub(crate) fn endpoints(&self, number: usize, state: usize) -> Value {
        let (namespace, name) = self.place(number);
        let first = (number * 2 + state * 2 * self.len()) % 60_000;
        let addresses = [0, 1].map(|more| address(self.range, first + more));
        slice(namespace, &name, 0, &addresses, self.port)
    }

    /// The host of a route.
    pub(crate) fn host(number: usize) -> String {
        format!("app-{number}.fleet.example.com")
    }

    fn place(&self, number: usize) -> (&str, String) {
        let namespace = number / self.each.max(1) % self.namespaces.len().max(1);
        let namespace = self.namespaces.get(namespace).map_or("", String::as_str);
        (namespace, format!("app-{number}"))
    }
}
