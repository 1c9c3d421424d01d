//! Gives the ready endpoints of a cluster with a health check the states that probes change.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use xds::model::{Health, HealthCheck, HostAddress, Hosts};

use super::source::{Source, socket};
use crate::config::dns::Resolved;
use crate::config::{
    Address, CheckedEndpoints, Cluster, ClusterHealthCheck, Endpoint, EndpointProbe, EndpointSet,
    ProbeState,
};

/// The health check of a cluster, as its policy sets it.
pub(super) struct CheckCompiler<'a> {
    pub(super) check: &'a HealthCheck,
    pub(super) source: Source<'a>,
    pub(super) resolved: &'a Resolved,
    /// The cluster before this change, whose states stay.
    pub(super) before: Option<&'a Cluster>,
}

impl<'a> CheckCompiler<'a> {
    /// Adds the check to the endpoints of a cluster.
    pub(super) fn compile(
        &self,
        set: EndpointSet,
        endpoints: &mut [Endpoint],
    ) -> (EndpointSet, ClusterHealthCheck) {
        let hosts = ProbeHosts::of(self.source, self.resolved);
        let before = self.states_before();
        for endpoint in endpoints.iter_mut() {
            if endpoint.health == Health::Ready {
                let state = before.get(&endpoint.address).copied().map(Arc::clone);
                let initial = self.check.initial;
                endpoint.probe = Some(Box::new(EndpointProbe {
                    state: state.unwrap_or_else(|| Arc::new(ProbeState::new(initial))),
                    host: hosts.of_address(&endpoint.address),
                }));
            }
        }
        let by_id: HashMap<_, _> = { endpoints.iter() }
            .filter_map(|it| Some((it.id, &it.probe.as_ref()?.state)))
            .collect();
        // None are, if those that serve are draining.
        let serving = set.serving().iter();
        let states = serving.filter_map(|it| by_id.get(&it.id).copied().map(Arc::clone));
        let before = self.checks_before();
        let checked_before = before.map(|it| &*it.endpoints);
        let checked = CheckedEndpoints::new(states.collect(), self.check, checked_before);
        let checked = Arc::new(checked);
        let mut set = set;
        set.warm_up_after_checks(|id| by_id.get(&id).copied().map(Arc::clone));
        let set = if checked.is_empty() {
            set
        } else {
            set.checked(Arc::clone(&checked))
        };
        let same = before.map(|before| &before.check);
        let same = same.filter(|before| ***before == *self.check);
        let health_check = ClusterHealthCheck {
            object: self.source.key(),
            check: same.map_or_else(|| Arc::new(self.check.clone()), Arc::clone),
            endpoints: checked,
            counts: before.map(|it| Arc::clone(&it.counts)).unwrap_or_default(),
        };
        (set, health_check)
    }

    fn checks_before(&self) -> Option<&'a ClusterHealthCheck> {
        self.before?.health_check.as_deref()
    }

    /// The states that addresses have had since they became ready: by address, since the ids of endpoints are
    /// others once the TLS settings change. Those without a verdict begin again if `initial` changes.
    fn states_before(&self) -> HashMap<&'a Address, &'a Arc<ProbeState>> {
        let initial = self.checks_before().map(|it| it.check.initial);
        let endpoints = self.before.map_or(&[][..], |it| &*it.endpoints).iter();
        let states = endpoints.filter_map(|it| Some((&it.address, &it.probe.as_ref()?.state)));
        let is_kept = |state: &ProbeState| {
            initial == Some(self.check.initial) || state.standing().is_verdict()
        };
        states.filter(|(_, state)| is_kept(state)).collect()
    }
}

/// The `Host` of probes: the name of the service, never that of a route.
struct ProbeHosts {
    of_addresses: HashMap<Address, Arc<str>>,
    of_others: Option<Arc<str>>,
}

impl ProbeHosts {
    fn of(source: Source<'_>, resolved: &Resolved) -> Self {
        let mut of_addresses = HashMap::new();
        let of_others = match source {
            Source::Port(service, _) => Some(service_name(service.key.as_str())),
            Source::Backend(backend) => match &backend.hosts {
                Hosts::Dns { name, .. } => Some(name.as_str().into()),
                Hosts::Unix { .. } => Some("localhost".into()),
                Hosts::Pool(_) => None,
                Hosts::Static(hosts) => {
                    for host in hosts {
                        if let (HostAddress::Name(name), Some(socket)) =
                            (&host.address, socket(host, resolved))
                        {
                            let name = name.as_str().into();
                            of_addresses.entry(Address::Tcp(socket)).or_insert(name);
                        }
                    }
                    None
                }
            },
        };
        Self {
            of_addresses,
            of_others,
        }
    }

    fn of_address(&self, address: &Address) -> Arc<str> {
        let named = self.of_addresses.get(address).or(self.of_others.as_ref());
        named.map_or_else(|| ip_host(address), Arc::clone)
    }
}

/// `name.namespace` of the service of this key.
fn service_name(key: &str) -> Arc<str> {
    let mut parts = key.split('/').skip(1);
    match (parts.next(), parts.next()) {
        (Some(namespace), Some(name)) => format!("{name}.{namespace}").into(),
        _ => key.into(),
    }
}

/// An address as a host (RFC 9110 section 7.2).
fn ip_host(address: &Address) -> Arc<str> {
    match address {
        Address::Tcp(socket) => match socket.ip() {
            IpAddr::V4(ip) => ip.to_string().into(),
            IpAddr::V6(ip) => format!("[{ip}]").into(),
        },
        Address::Unix(_) => "localhost".into(),
    }
}
