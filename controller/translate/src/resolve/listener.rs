//! One listener of a Gateway, by itself: protocol, port, host name, certificates, allowed routes.

use std::collections::BTreeSet;
use std::num::NonZeroU16;

use xds::model::{Hostname, ListenerKey, ObjectName};

use super::World;
use super::protocol::{self, Protocol};
use crate::api::{self, FromNamespaces, Resource as _, RouteGroupKind};
use crate::options::Options;
use crate::problem::Problem;
use crate::status::Reason;

/// A listener, and what is wrong with it.
pub(crate) struct Listener<'a> {
    pub(crate) spec: &'a api::Listener,
    pub(crate) key: ListenerKey,
    pub(crate) protocol: Option<&'static Protocol>,
    pub(crate) hostname: Option<Hostname>,
    /// The port of the socket: the listener's, or that and the offset.
    pub(crate) port: NonZeroU16,
    /// Kinds of routes it takes.
    pub(crate) kinds: Vec<RouteGroupKind>,
    pub(crate) namespaces: AllowedNamespaces<'a>,
    /// Routes attached to it.
    pub(crate) attached: u32,
    /// Why it is not accepted.
    pub(crate) refusals: Vec<Problem>,
    /// Why it is in conflict with another listener of its Gateway.
    pub(crate) conflict: Option<Problem>,
    /// References that lead nowhere.
    pub(crate) refs: Vec<Problem>,
    /// Why its port cannot be had.
    pub(crate) unusable: Option<Problem>,
}

/// The namespaces whose routes may attach.
pub(crate) enum AllowedNamespaces<'a> {
    Every,
    Listed(BTreeSet<&'a str>),
}

impl AllowedNamespaces<'_> {
    pub(crate) fn allow(&self, namespace: &str) -> bool {
        match self {
            Self::Every => true,
            Self::Listed(names) => names.contains(namespace),
        }
    }
}

impl<'a> Listener<'a> {
    /// Judges listener number `index` of `gateway`.
    pub(crate) fn resolve(
        world: &World<'a>,
        gateway: &'a ObjectName,
        index: usize,
        spec: &'a api::Listener,
    ) -> Self {
        let protocol = Protocol::named(&spec.protocol);
        let mut refusals = Vec::new();
        refusals.extend(check_protocol(spec, protocol).err());
        let port = socket_port(spec.port, world.options);
        let hostname = hostname(spec);
        let (kinds, mut refs) = route_kinds(spec, protocol);
        refs.extend(check_certificates(world, gateway, spec));
        let mut listener = Self {
            spec,
            key: ListenerKey::new(api::Gateway::KIND, gateway, &spec.name),
            protocol,
            hostname: hostname.clone().unwrap_or_default(),
            port: port.clone().unwrap_or(spec.port),
            kinds,
            namespaces: allowed_namespaces(world, gateway, spec),
            attached: 0,
            refusals,
            conflict: None,
            refs,
            unusable: None,
        };
        listener.refusals.extend(port.err());
        listener.refusals.extend(hostname.err());
        listener.place_problems(index);
        listener
    }

    /// Whether it is part of its Gateway.
    pub(crate) fn is_accepted(&self) -> bool {
        self.refusals.is_empty() && self.conflict.is_none()
    }

    /// Whether requests can come in by it.
    pub(crate) fn is_programmed(&self) -> bool {
        let certified = || {
            self.refs
                .iter()
                .all(|problem| problem.reason == Reason::InvalidRouteKinds)
        };
        self.is_accepted() && self.unusable.is_none() && !self.kinds.is_empty() && certified()
    }

    fn place_problems(&mut self, index: usize) {
        for problem in self.refusals.iter_mut().chain(&mut self.refs) {
            problem.field = format!("spec.listeners[{index}].{}", problem.field);
        }
    }
}

fn check_protocol(
    spec: &api::Listener,
    protocol: Option<&'static Protocol>,
) -> Result<(), Problem> {
    if protocol.is_some_and(|protocol| protocol.carried.is_some()) {
        return Ok(());
    }
    let message = format!(
        "protocol `{}` is not supported: use {}",
        spec.protocol,
        protocol::carried()
    );
    Err(Problem::new(
        Reason::UnsupportedProtocol,
        "protocol",
        message,
    ))
}

fn socket_port(port: NonZeroU16, options: &Options) -> Result<NonZeroU16, Problem> {
    let fail = |message: String| Problem::new(Reason::PortUnavailable, "port", message);
    let socket = if port.get() < FIRST_UNPRIVILEGED_PORT {
        port.checked_add(options.port_offset).ok_or_else(|| {
            fail(format!(
                "port {port} and the port offset of {} exceed 65535: choose smaller ones",
                options.port_offset
            ))
        })?
    } else {
        port
    };
    if options.reserved_ports.contains(&socket.get()) {
        return Err(fail(format!(
            "port {socket} is the proxy's own: choose another one"
        )));
    }
    Ok(socket)
}

fn hostname(spec: &api::Listener) -> Result<Option<Hostname>, Problem> {
    let text = spec.hostname.as_deref().filter(|text| !text.is_empty());
    text.map(Hostname::parse)
        .transpose()
        .map_err(|error| Problem::new(Reason::UnsupportedValue, "hostname", error))
}

/// The kinds that it takes, and what is wrong with those that it lists.
fn route_kinds(
    spec: &api::Listener,
    protocol: Option<&'static Protocol>,
) -> (Vec<RouteGroupKind>, Vec<Problem>) {
    let carried: Vec<RouteGroupKind> = protocol
        .into_iter()
        .flat_map(Protocol::route_kinds)
        .collect();
    let listed = &spec.allowed_routes.kinds;
    if listed.is_empty() {
        return (carried, Vec::new());
    }
    let mut seen = BTreeSet::new();
    let (mut kinds, mut problems) = (Vec::new(), Vec::new());
    for (index, kind) in listed.iter().enumerate() {
        if carried.contains(kind) {
            kinds.extend(seen.insert(kind).then(|| kind.clone()));
        } else {
            let message = format!(
                "a listener of protocol `{}` does not take routes of kind `{}` of group `{}`",
                spec.protocol, kind.kind, kind.group
            );
            let field = format!("allowedRoutes.kinds[{index}]");
            problems.push(Problem::new(Reason::InvalidRouteKinds, field, message));
        }
    }
    (kinds, problems)
}

fn check_certificates(
    world: &World<'_>,
    gateway: &ObjectName,
    spec: &api::Listener,
) -> Vec<Problem> {
    let references = spec.tls.iter().flat_map(|tls| &tls.certificate_refs);
    references
        .enumerate()
        .filter_map(|(index, reference)| {
            let checked = world.check_certificate(&gateway.namespace, reference);
            let field = format!("tls.certificateRefs[{index}]");
            checked.err().map(|problem| problem.under(field))
        })
        .collect()
}

fn allowed_namespaces<'a>(
    world: &World<'a>,
    gateway: &'a ObjectName,
    spec: &api::Listener,
) -> AllowedNamespaces<'a> {
    let allowed = &spec.allowed_routes.namespaces;
    AllowedNamespaces::Listed(match (allowed.from, &allowed.selector) {
        (FromNamespaces::All, _) => return AllowedNamespaces::Every,
        (FromNamespaces::Same, _) => BTreeSet::from([&*gateway.namespace]),
        (FromNamespaces::Selector, Some(selector)) => world.namespaces.selected(selector),
        (FromNamespaces::Selector, None) | (FromNamespaces::None, _) => BTreeSet::new(),
    })
}

/// Ports below it need `CAP_NET_BIND_SERVICE`.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;
