//! One listener of a Gateway or ListenerSet, by itself: protocol, port, host name, certificates,
//! allowed routes.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU16;

use xds::model::{Certificate, Hostname, ListenerKey, ListenerProtocol, ObjectName};

use super::World;
use super::frontend::ClientValidation;
use super::protocol::{self, Protocol};
use super::tls::{self, listener_protocol};
use crate::api::{
    self, FromNamespaces, LabelSelector, Resource as _, RouteGroupKind, SecretObjectReference,
};
use crate::expiry::Expiries;
use crate::options::Options;
use crate::problem::Problem;
use crate::status::Reason;

/// The object that declares a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner<'a> {
    Gateway(&'a ObjectName),
    ListenerSet(&'a ObjectName),
}

impl<'a> Owner<'a> {
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Gateway(_) => api::Gateway::KIND,
            Self::ListenerSet(_) => api::ListenerSet::KIND,
        }
    }

    pub(crate) fn name(self) -> &'a ObjectName {
        match self {
            Self::Gateway(name) | Self::ListenerSet(name) => name,
        }
    }

    /// What its reference to a certificate leads to. Grants for a Gateway are not those of its
    /// ListenerSets.
    pub(crate) fn certificate(
        self,
        world: &World<'_>,
        reference: &SecretObjectReference,
        invalid: Reason,
    ) -> Result<Certificate, Problem> {
        let namespace = &self.name().namespace;
        match self {
            Self::Gateway(_) => world.certificate::<api::Gateway>(namespace, reference, invalid),
            Self::ListenerSet(_) => {
                world.certificate::<api::ListenerSet>(namespace, reference, invalid)
            }
        }
    }
}

/// A listener, and what is wrong with it.
pub(crate) struct Listener<'a> {
    pub(crate) owner: Owner<'a>,
    /// Its number in its owner.
    index: usize,
    pub(crate) spec: &'a api::Listener,
    pub(crate) key: ListenerKey,
    pub(crate) protocol: Option<Protocol>,
    /// What the data plane is told that it speaks; `None` where it cannot be carried out.
    pub(crate) carried: Option<ListenerProtocol>,
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
    /// Why it is in conflict with another listener of its Gateway or of its ListenerSets.
    pub(crate) conflict: Option<Problem>,
    /// References that lead nowhere.
    pub(crate) refs: Vec<Problem>,
    /// Which certificates of it, and of those who vouch for its clients, have expired.
    pub(crate) expiries: Expiries,
    /// Another listener of its port whose host names overlap with its own, by name.
    pub(crate) overlaps: Option<String>,
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
    /// Judges listener number `index` of `owner`, whose Gateway judges clients by `validation`.
    pub(crate) fn resolve(
        world: &World<'a>,
        owner: Owner<'a>,
        validation: &ClientValidation,
        index: usize,
        spec: &'a api::Listener,
    ) -> Self {
        let protocol = Protocol::of(spec);
        let port = socket_port(spec.port, world.options);
        let hostname = hostname(spec);
        let (kinds, refs) = route_kinds(spec, protocol);
        let mut listener = Self {
            owner,
            index,
            spec,
            key: ListenerKey::new(owner.kind(), owner.name(), &spec.name),
            protocol,
            carried: None,
            hostname: hostname.clone().unwrap_or_default(),
            port: port.clone().unwrap_or(spec.port),
            kinds,
            namespaces: listener_namespaces(world, owner, spec),
            attached: 0,
            refusals: Vec::new(),
            conflict: None,
            refs,
            expiries: Expiries::default(),
            overlaps: None,
            unusable: None,
        };
        match protocol {
            None => listener.refusals.push(unknown_protocol(spec)),
            Some(protocol) => listener.speak(world, protocol, validation),
        }
        listener.refusals.extend(port.err());
        listener.refusals.extend(hostname.err());
        listener.place_problems();
        if protocol == Some(Protocol::Https) {
            listener.blame_validation(validation);
        }
        listener
    }

    /// Whether it is part of its Gateway.
    pub(crate) fn is_accepted(&self) -> bool {
        self.refusals.is_empty() && self.conflict.is_none()
    }

    /// Whether requests can come in by it.
    pub(crate) fn is_programmed(&self) -> bool {
        let carried = self.carried.is_some() && !self.kinds.is_empty();
        self.is_accepted() && self.unusable.is_none() && carried
    }

    /// Where `field` of it stands in its owner.
    pub(crate) fn field(&self, field: impl fmt::Display) -> String {
        format!("spec.listeners[{}].{field}", self.index)
    }

    fn speak(&mut self, world: &World<'_>, protocol: Protocol, validation: &ClientValidation) {
        let mut notes = tls::Notes::default();
        let clients = validation.at(self.spec.port);
        self.carried =
            listener_protocol(world, self.owner, self.spec, protocol, clients, &mut notes);
        self.refusals.extend(notes.refusals);
        self.refs.extend(notes.refs);
        self.expiries = notes.expiries;
    }

    fn place_problems(&mut self) {
        let index = self.index;
        let refusals = self.refusals.iter_mut();
        let expired = &mut self.expiries.expired;
        for problem in refusals.chain(&mut self.refs).chain(expired) {
            problem.field = format!("spec.listeners[{index}].{}", problem.field);
        }
    }

    /// What is wrong with the judging of clients stands in the Gateway.
    fn blame_validation(&mut self, validation: &ClientValidation) {
        let clients = validation.at(self.spec.port);
        let here = matches!(self.owner, Owner::Gateway(_));
        let blamed = |problem: &Problem| {
            if here {
                problem.clone()
            } else {
                Problem::new(problem.reason, "", format!("of the Gateway: {problem}"))
            }
        };
        self.refs.extend(clients.refs.iter().map(blamed));
        let expired = clients.expiries.expired.iter().map(blamed);
        self.expiries.expired.extend(expired);
        if clients.client_auth.is_none() {
            let message = "nobody is left to vouch for clients: see ResolvedRefs";
            self.refusals
                .push(Problem::new(Reason::NoValidCACertificate, "", message));
        }
    }
}

fn unknown_protocol(spec: &api::Listener) -> Problem {
    let message = format!(
        "protocol `{}` is not supported: use {}",
        spec.protocol,
        protocol::NAMES
    );
    Problem::new(Reason::UnsupportedProtocol, "protocol", message)
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
    protocol: Option<Protocol>,
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

fn listener_namespaces<'a>(
    world: &World<'a>,
    owner: Owner<'a>,
    spec: &'a api::Listener,
) -> AllowedNamespaces<'a> {
    let allowed = &spec.allowed_routes.namespaces;
    let selector = allowed.selector.as_ref();
    allowed_namespaces(world, &owner.name().namespace, allowed.from, selector)
}

/// The namespaces that an object of `own` lets in.
pub(crate) fn allowed_namespaces<'a>(
    world: &World<'a>,
    own: &'a str,
    from: FromNamespaces,
    selector: Option<&LabelSelector>,
) -> AllowedNamespaces<'a> {
    AllowedNamespaces::Listed(match (from, selector) {
        (FromNamespaces::All, _) => return AllowedNamespaces::Every,
        (FromNamespaces::Same, _) => BTreeSet::from([own]),
        (FromNamespaces::Selector, Some(selector)) => world.namespaces.selected(selector),
        (FromNamespaces::Selector, None) | (FromNamespaces::None, _) => BTreeSet::new(),
    })
}

/// Ports below it need `CAP_NET_BIND_SERVICE`.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;
