//! Resolves one listener of a Gateway or ListenerSet: protocol, port, host name, certificates,
//! allowed routes.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;

use xds::model::{ExternalAuth, Hostname, ListenerKey, ListenerProtocol, TlsServer};

use super::allowed::AllowedNamespaces;
use super::api::RouteGroupKind;
use super::frontend::ClientValidation;
use super::listener_filters::ResolvedFilters;
use super::offer::ListenerOffer;
use super::protocol::Protocol;
use super::taken::TakenNames;
use super::tls::listener_protocol;
use super::{api, protocol, tls};
use crate::expiry::Expiries;
use crate::objects::kinds::WrittenKind;
use crate::objects::owner::Owner;
use crate::objects::reader::Reader;
use crate::options::Options;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// A resolved listener, with its problems.
#[derive(Debug, PartialEq)]
pub(crate) struct Listener {
    pub(crate) owner: Owner,
    /// Its index in its owner.
    index: usize,
    /// Its key, name, port, host name and allowed routes.
    pub(crate) offer: Arc<ListenerOffer>,
    pub(crate) protocol: Option<Protocol>,
    /// The protocol in the model; `None` if invalid.
    pub(crate) carried: Option<ListenerProtocol>,
    /// Authorization servers that are called for each request, in order.
    pub(crate) external_auth: Vec<ExternalAuth>,
    /// The port of the socket: the listener's, or that and the offset.
    pub(crate) socket_port: NonZeroU16,
    /// Why it is neither accepted nor carried.
    pub(crate) refusals: Vec<Problem>,
    /// Invalid filters: it is not accepted, but carried, and rejects every request.
    pub(crate) filter_refusals: Vec<Problem>,
    /// References that do not resolve.
    pub(crate) refs: Vec<Problem>,
    /// Certificates that peers reject, of its own and of client CAs.
    pub(crate) expiries: Expiries,
}

/// The conflicts of a listener with others of its Gateway and ListenerSets.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ListenerConflicts {
    /// Its conflict with another one.
    pub(crate) conflict: Option<Problem>,
    /// Name of another listener of its port with overlapping host names.
    pub(crate) overlaps: Option<String>,
    /// Host names that ListenerSets take from it, if it is the Gateway's own.
    pub(crate) taken: TakenNames,
    /// The limit of its Gateway that leaves no room for it.
    pub(crate) over_limit: Option<Problem>,
}

/// A listener with its conflicts.
#[derive(Clone, Copy)]
pub(crate) struct ListenerWithConflicts<'a> {
    pub(crate) listener: &'a Listener,
    pub(crate) conflicts: &'a ListenerConflicts,
    /// Why its port is unavailable.
    pub(crate) unusable: Option<&'a Problem>,
}

impl ListenerWithConflicts<'_> {
    /// Whether it is accepted.
    pub(crate) fn is_accepted(&self) -> bool {
        self.listener.is_accepted(self.conflicts)
    }

    /// Whether it is in the model.
    pub(crate) fn is_carried(&self) -> bool {
        let carried = self.listener.carried.is_some() && !self.listener.offer.kinds.is_empty();
        self.listener.is_claimed(self.conflicts) && self.unusable.is_none() && carried
    }

    /// Whether it is programmed.
    pub(crate) fn is_programmed(&self) -> bool {
        self.is_accepted() && self.is_carried() && self.listener.has_certificate()
    }
}

impl Listener {
    /// Resolves listener number `index` of `owner`, with the client `validation` of its Gateway.
    pub(crate) fn resolve(
        reader: &Reader<'_>,
        owner: &Owner,
        validation: &ClientValidation,
        index: usize,
        spec: &api::Listener,
    ) -> Self {
        let protocol = Protocol::of(spec);
        let port = socket_port(spec.port, reader.options());
        let hostname = hostname(spec);
        let (kinds, refs) = route_kinds(spec, protocol);
        let offer = offer(owner, spec, hostname.clone().unwrap_or_default(), kinds);
        let mut listener = Self {
            owner: owner.clone(),
            index,
            offer: Arc::new(offer),
            protocol,
            carried: None,
            external_auth: Vec::new(),
            socket_port: port.clone().unwrap_or(spec.port),
            refusals: Vec::new(),
            filter_refusals: Vec::new(),
            refs,
            expiries: Expiries::default(),
        };
        match protocol {
            None => listener.refusals.push(unknown_protocol(spec)),
            Some(protocol) => listener.lower_protocol(reader, spec, protocol, validation),
        }
        listener.filter(reader, spec);
        listener.refusals.extend(port.err());
        listener.refusals.extend(hostname.err());
        listener.place_problems();
        if protocol == Some(Protocol::Https) {
            listener.blame_validation(validation);
        }
        listener
    }

    /// Whether it is accepted.
    pub(crate) fn is_accepted(&self, conflicts: &ListenerConflicts) -> bool {
        self.is_claimed(conflicts) && self.filter_refusals.is_empty()
    }

    /// Whether it can complete handshakes, if its protocol has any.
    pub(crate) fn has_certificate(&self) -> bool {
        let tls = self.carried.as_ref().and_then(ListenerProtocol::tls);
        tls.is_none_or(|tls| tls.pairs().next().is_some())
    }

    /// Whether it receives the requests of its port and host name, if only to reject them.
    pub(crate) fn is_claimed(&self, conflicts: &ListenerConflicts) -> bool {
        self.refusals.is_empty() && conflicts.conflict.is_none() && conflicts.over_limit.is_none()
    }

    /// Why it is not accepted, apart from conflicts.
    pub(crate) fn all_refusals(&self) -> Vec<Problem> {
        let refusals = self.refusals.iter().chain(&self.filter_refusals);
        refusals.cloned().collect()
    }

    /// The path of its `field` in its owner.
    pub(crate) fn field(&self, field: impl fmt::Display) -> String {
        format!("spec.listeners[{}].{field}", self.index)
    }

    /// Its protocol while it is not carried: it rejects everything, so that its host name does not
    /// fall through to a less specific listener of its port, whose routes and policies differ.
    /// `None` if it has no host name.
    pub(crate) fn refusing(&self) -> Option<ListenerProtocol> {
        self.offer.hostname.as_ref()?;
        match self.protocol? {
            // It has no routes.
            Protocol::Http => Some(ListenerProtocol::Http),
            Protocol::TlsPassthrough => Some(ListenerProtocol::TlsPassthrough),
            Protocol::Https => Some(ListenerProtocol::Https(TlsServer::refusing())),
            Protocol::Tls => Some(ListenerProtocol::Tls(TlsServer::refusing())),
            Protocol::Tcp | Protocol::Udp => None,
        }
    }

    fn lower_protocol(
        &mut self,
        reader: &Reader<'_>,
        spec: &api::Listener,
        protocol: Protocol,
        validation: &ClientValidation,
    ) {
        let mut notes = tls::TlsProblems::default();
        let clients = validation.at(spec.port);
        self.carried = listener_protocol(reader, &self.owner, spec, protocol, clients, &mut notes);
        self.refusals.extend(notes.refusals);
        self.refs.extend(notes.refs);
        self.expiries = notes.expiries;
    }

    fn filter(&mut self, reader: &Reader<'_>, spec: &api::Listener) {
        let Some(filters) = &spec.filters else {
            return;
        };
        let resolved = ResolvedFilters::resolve(reader, &self.owner, &filters.requests);
        self.external_auth = resolved.external_auth;
        self.filter_refusals = resolved.refusals;
        self.refs.extend(resolved.refs);
    }

    fn place_problems(&mut self) {
        let index = self.index;
        let refusals = self.refusals.iter_mut().chain(&mut self.filter_refusals);
        let expired = &mut self.expiries.problems;
        for problem in refusals.chain(&mut self.refs).chain(expired) {
            problem.field = format!("spec.listeners[{index}].{}", problem.field);
        }
    }

    /// Problems of client validation are in the Gateway.
    fn blame_validation(&mut self, validation: &ClientValidation) {
        let clients = validation.at(self.offer.port);
        let here = matches!(self.owner, Owner::Gateway(_));
        let blamed = |problem: &Problem| {
            if here {
                problem.clone()
            } else {
                Problem::new(problem.reason, "", format!("of the Gateway: {problem}"))
            }
        };
        self.refs.extend(clients.refs.iter().map(blamed));
        let expired = clients.expiries.problems.iter().map(blamed);
        self.expiries.problems.extend(expired);
        if clients.client_auth.is_none() {
            let message = "no valid CA certificate is left for client validation: see ResolvedRefs";
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
            "port {socket} is used by the proxy itself: choose another one"
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

fn offer(
    owner: &Owner,
    spec: &api::Listener,
    hostname: Option<Hostname>,
    kinds: Vec<RouteGroupKind>,
) -> ListenerOffer {
    let namespaces = &spec.allowed_routes.namespaces;
    let (from, selector) = (namespaces.from, namespaces.selector.as_ref());
    ListenerOffer {
        key: ListenerKey::new(owner.kind().name(), owner.name(), &spec.name),
        name: spec.name.clone(),
        port: spec.port,
        protocol: spec.protocol.clone(),
        hostname,
        kinds,
        allowed: AllowedNamespaces::of(&owner.name().namespace, from, selector),
    }
}

impl ListenerOffer {
    /// What a listener offers, from its object alone.
    pub(crate) fn of(owner: &Owner, spec: &api::Listener) -> Self {
        let (kinds, _) = route_kinds(spec, Protocol::of(spec));
        offer(owner, spec, hostname(spec).unwrap_or_default(), kinds)
    }
}

/// The allowed route kinds, and problems of the listed ones.
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
            let written = WrittenKind {
                group: &kind.group,
                kind: &kind.kind,
            };
            let protocol = &spec.protocol;
            let remedy = match &*carried.iter().map(|it| &*it.kind).collect::<Vec<&str>>() {
                [] => "correct the protocol".to_owned(),
                possible => format!("use {}", possible.join(" or ")),
            };
            let message = format!(
                "a listener of protocol `{protocol}` does not accept routes of {written}: {remedy}"
            );
            let field = format!("allowedRoutes.kinds[{index}]");
            problems.push(Problem::new(Reason::InvalidRouteKinds, field, message));
        }
    }
    (kinds, problems)
}

/// Ports below need `CAP_NET_BIND_SERVICE`.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;
