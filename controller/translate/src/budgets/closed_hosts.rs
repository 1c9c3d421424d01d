//! The host names of a Gateway at which every request is rejected, for routes that it refuses and has no room
//! to close one by one.
//!
//! A refused route is closed by a rule that matches what its rules would, and these rules have a part of the
//! limits of a Gateway. Without one, its requests would go to wider routes, which may check less. So what is
//! closed grows: all requests for its host names are rejected, which takes a host name instead of a rule, and
//! so are those of all routes of its namespace that have one of these host names. If even the host names are
//! too many, all routes of the namespace are closed at the Gateway. It is the same for refused listeners, whose
//! requests a wider listener of the port would get.
//!
//! What is closed is never more than an ordinary route of the namespace could take. Routes of others serve on:
//! at the same host names they keep all requests that they match, and those at a wildcard above lose what they
//! would lose to any route with the host name. A namespace takes no more of them by having too many routes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xds::model::{
    Attachment, Hostname, HttpMatch, HttpRule, L4Rule, ListenerKey, ObjectName, Resource, Route,
    RouteKey, RouteRule,
};

use super::fair_share::share;
use super::views::ViewCost;
use super::{Budget, Use};
use crate::engine::emitted::Emitted;
use crate::engine::outcome::Gateways;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::gateway::api::Gateway;
use crate::objects::object_ref::ObjectRef;
use crate::route::candidate::Candidate;
use crate::route::lowered::ResolvedRoute;
use crate::route::name::{RouteKind, RouteName};
use crate::status::problem::Problem;
use crate::status::reason::Reason;
use crate::units::{AttachedUnit, ClosedHostsUnit};

/// The closed host names of a Gateway.
#[derive(Debug, PartialEq)]
pub(crate) struct ClosedHosts {
    emitted: Emitted,
    /// The routes that are closed with them.
    routes: BTreeMap<RouteName, ClosedWith>,
    used: Use,
}

/// What a route is closed with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClosedWith {
    /// One of its host names.
    Host(Place),
    /// All routes of its namespace.
    Namespace,
}

/// A host name at a listener.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) kind: RouteKind,
    pub(crate) listener: ListenerKey,
    /// `None` stands for requests for which no host name is named.
    pub(crate) host: Option<Hostname>,
}

impl Place {
    fn borrowed(&self) -> PlaceRef<'_> {
        PlaceRef {
            kind: self.kind,
            listener: &self.listener,
            host: self.host.as_ref(),
        }
    }
}

/// A borrowed [`Place`]: the routes of a namespace can have millions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PlaceRef<'a> {
    kind: RouteKind,
    listener: &'a ListenerKey,
    host: Option<&'a Hostname>,
}

impl PlaceRef<'_> {
    fn to_place(self) -> Place {
        Place {
            kind: self.kind,
            listener: self.listener.clone(),
            host: self.host.cloned(),
        }
    }
}

/// What the refused routes and listeners of a namespace need that nothing closes.
#[derive(Default)]
struct Wanted<'a> {
    /// Of the routes, some if all are more than the limit: no share is larger than that.
    places: BTreeSet<PlaceRef<'a>>,
    /// Those of listeners, which would have the requests for host names below theirs too.
    of_listeners: BTreeSet<PlaceRef<'a>>,
    /// How many places of routes were read: thousands of routes may have the same few.
    read: usize,
}

impl<'a> Wanted<'a> {
    /// Whether all routes of the namespace are closed: its places are more than these, or too many of its routes have
    /// the same ones.
    fn exceeds(&self, room: usize, limit: usize) -> bool {
        self.places.len() > room || self.read > limit.saturating_mul(READ)
    }

    /// Adds places of a route, until they are more than the limit.
    fn add(&mut self, places: impl Iterator<Item = PlaceRef<'a>>, limit: usize) {
        for place in places {
            if self.exceeds(limit, limit) {
                return;
            }
            self.read = self.read.saturating_add(1);
            self.places.insert(place);
        }
    }

    /// The one that a place of a route of the namespace shares.
    fn shared(&self, place: PlaceRef<'_>) -> Option<Place> {
        if self.places.contains(&place) {
            return Some(place.to_place());
        }
        let host = place.host.filter(|_| !self.of_listeners.is_empty());
        let mut wider = host.into_iter().flat_map(wider);
        wider.find_map(|host| {
            let host = Some(&host);
            let wider = PlaceRef { host, ..place };
            let is_closed = self.of_listeners.contains(&wider);
            is_closed.then(|| wider.to_place())
        })
    }
}

impl Unit for ClosedHostsUnit {
    type Output = ClosedHosts;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<ClosedHosts> {
        // Without routes, nothing is open.
        reader.claims.views.at(&self.0)?;
        let limit = reader.options().budgets.of(LIMIT);
        let room = usize::try_from(limit).unwrap_or(usize::MAX);
        let wanted = self.wanted(reader, room);
        if wanted.is_empty() {
            return None;
        }
        let counts = wanted.values().map(|it| it.places.len() as u64);
        let used: u64 = counts.clone().sum();
        let share = usize::try_from(share(counts, limit)).unwrap_or(usize::MAX);
        let without_room = wanted.values();
        let without_room = without_room.map(|it| it.places.len().saturating_sub(share));
        let without_room: usize = without_room.sum();
        let mut resources = Vec::new();
        for (namespace, of_namespace) in &wanted {
            resources.extend(self.closing(namespace, of_namespace, share));
        }
        Some(ClosedHosts {
            emitted: Emitted::new(resources),
            routes: self.closed_routes(reader, &wanted, |it| it.exceeds(share, room)),
            used: Use {
                // At least: of a namespace with more than the limit, some are not counted.
                used,
                limit,
                refused: u32::try_from(without_room).unwrap_or(u32::MAX),
            },
        })
    }

    fn publish(
        &self,
        old: Option<&ClosedHosts>,
        new: Option<&ClosedHosts>,
        changes: &mut Changes<'_>,
    ) {
        let emitted = |it: Option<&ClosedHosts>| it.map(|it| it.emitted.clone());
        let (before, after) = (emitted(old), emitted(new));
        Emitted::publish(before.as_ref(), after.as_ref(), changes.outcome);
        let gateway = ObjectRef::of::<Gateway>(&self.0);
        let used = |it: Option<&ClosedHosts>| -> Vec<(Budget, Use)> {
            it.map(|it| (LIMIT, it.used)).into_iter().collect()
        };
        changes.uses(&gateway, &used(old), &used(new));
        let none = BTreeMap::new();
        let old = old.map_or(&none, |it| &it.routes);
        let new = new.map_or(&none, |it| &it.routes);
        let routes: BTreeSet<&RouteName> = old.keys().chain(new.keys()).collect();
        for route in routes {
            if old.get(route) != new.get(route) {
                changes.run(AttachedUnit(route.clone()));
            }
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.claims.views.at(&self.0).is_some()
    }
}

impl ClosedHostsUnit {
    /// What each namespace needs. Once one has more than the limit, which is more than any share, or this many of its
    /// places were read, its other routes are not read: they are closed whatever their host names are.
    fn wanted<'a>(&self, reader: &UnitReader<'a>, limit: usize) -> BTreeMap<&'a str, Wanted<'a>> {
        let mut wanted: BTreeMap<&str, Wanted<'_>> = BTreeMap::new();
        // Thousands of routes have the same listeners.
        let mut are_carried: BTreeMap<&ListenerKey, bool> = BTreeMap::new();
        for name in reader.routes_without_closing_rule(&self.0) {
            let namespace = &*name.name.namespace;
            if wanted
                .get(namespace)
                .is_some_and(|it| it.exceeds(limit, limit))
            {
                continue;
            }
            let Some(route) = reader.route(name) else {
                continue;
            };
            for candidate in self.candidates(route) {
                let listener = &candidate.listener;
                let is_carried = are_carried.entry(listener);
                if *is_carried.or_insert_with(|| reader.carries_listener(&self.0, listener)) {
                    let of_namespace = wanted.entry(namespace).or_default();
                    of_namespace.add(places(name.kind, candidate), limit);
                }
            }
        }
        for (namespace, places) in reader.hosts_left_open(&self.0) {
            let of_namespace = wanted.entry(&**namespace).or_default();
            let places = places.iter().map(Place::borrowed);
            of_namespace.places.extend(places.clone());
            of_namespace.of_listeners.extend(places);
        }
        wanted
    }

    /// The listeners of the Gateway that accept a route.
    fn candidates<'a>(&self, route: &'a ResolvedRoute) -> impl Iterator<Item = &'a Candidate> {
        let all = route.candidates.iter();
        all.filter(|it| it.gateway == self.0)
    }

    /// The rules that reject all requests for the first host names that a namespace needs.
    fn closing(
        &self,
        namespace: &str,
        wanted: &Wanted<'_>,
        share: usize,
    ) -> Vec<(Resource, Gateways)> {
        let mut groups: Vec<(RouteKind, &ListenerKey, Vec<Hostname>)> = Vec::new();
        for place in wanted.places.iter().take(share) {
            // Without host names, a rule is for every host: one of its own.
            let hosts = place.host.into_iter().cloned();
            match groups.last_mut() {
                Some((kind, listener, of_group))
                    if (*kind, *listener) == (place.kind, place.listener)
                        && !of_group.is_empty()
                        && of_group.len() < HOSTS_OF_A_RULE =>
                {
                    of_group.extend(hosts);
                }
                _ => groups.push((place.kind, place.listener, hosts.collect())),
            }
        }
        let gateways: Gateways = [self.0.clone()].into();
        let object = ObjectName::new(namespace, NAME);
        let rules = groups.into_iter().enumerate();
        let rules = rules.filter_map(|(number, (kind, listener, hosts))| {
            let number = u16::try_from(number).ok()?;
            let attachment = Attachment {
                listener: listener.clone(),
                hostnames: hosts.into(),
            };
            let route = Arc::new(Route {
                key: RouteKey::new(kind.as_str(), &object, number, &self.0),
                attachments: attachment.into(),
                created: NEWEST,
                rule: rejecting(kind),
            });
            Some((route.into(), Arc::clone(&gateways)))
        });
        rules.collect()
    }

    /// The routes that are closed with the host names of their namespaces.
    fn closed_routes(
        &self,
        reader: &UnitReader<'_>,
        wanted: &BTreeMap<&str, Wanted<'_>>,
        is_closed: impl Fn(&Wanted<'_>) -> bool,
    ) -> BTreeMap<RouteName, ClosedWith> {
        let all = reader.claims.views.at(&self.0).into_iter();
        let all = all.flat_map(ViewCost::routes);
        let closed = all.filter_map(|name| {
            let of_namespace = wanted.get(&*name.name.namespace)?;
            let with = if is_closed(of_namespace) {
                ClosedWith::Namespace
            } else {
                let candidates = self.candidates(reader.route(name)?);
                let mut places = candidates.flat_map(|it| places(name.kind, it));
                ClosedWith::Host(places.find_map(|it| of_namespace.shared(it))?)
            };
            Some((name.clone(), with))
        });
        closed.collect()
    }
}

/// The host names of a route at a listener.
fn places(kind: RouteKind, candidate: &Candidate) -> impl Iterator<Item = PlaceRef<'_>> {
    // Requests of both are routed together.
    let kind = match kind {
        RouteKind::Grpc => RouteKind::Http,
        other => other,
    };
    let every_host = candidate.hostnames.is_empty().then_some(None);
    let hosts = candidate.hostnames.iter().map(Some);
    let hosts = every_host.into_iter().chain(hosts);
    hosts.map(move |host| PlaceRef {
        kind,
        listener: &candidate.listener,
        host,
    })
}

/// The wildcards above a host name, from the nearest one.
pub(crate) fn wider(host: &Hostname) -> impl Iterator<Item = Hostname> {
    let name = host.wildcard_suffix().unwrap_or(host.as_str());
    let dots = name.match_indices('.');
    dots.filter_map(|(at, _)| Hostname::parse(&format!("*{}", &name[at..])).ok())
}

/// What rejects all requests, connections or datagrams.
fn rejecting(kind: RouteKind) -> RouteRule {
    let l4 = L4Rule {
        name: None,
        backends: Vec::new(),
    };
    match kind {
        RouteKind::Http | RouteKind::Grpc => {
            RouteRule::Http(HttpRule::refusing(vec![HttpMatch::everything()]))
        }
        RouteKind::Tls => RouteRule::Tls(l4),
        RouteKind::Tcp => RouteRule::Tcp(l4),
        RouteKind::Udp => RouteRule::Udp(l4),
    }
}

impl UnitReader<'_> {
    /// Why a Gateway closes a route with others of its namespace, for which it has no closing rules.
    /// [`ClosedHostsUnit`] has [`AttachedUnit`] run when that changes.
    pub(crate) fn closed_with_others(
        &self,
        gateway: &ObjectName,
        route: &RouteName,
    ) -> Option<Problem> {
        let closed = self.tables.get(&ClosedHostsUnit(gateway.clone()))?;
        let what = match closed.routes.get(route)? {
            ClosedWith::Host(place) => {
                let host = place.host.as_ref().map(|it| format!(" for {it}"));
                let host = host.unwrap_or_default();
                format!("all requests{host} at listener {}", place.listener)
            }
            ClosedWith::Namespace => "the requests of all routes of this namespace".to_owned(),
        };
        let message = format!(
            "Gateway {gateway} refuses so many routes or listeners of this namespace that it has no room to reject \
             their requests one by one, so it rejects {what} with status 500, which keeps them from less protected \
             routes. Remove some, or use another Gateway"
        );
        Some(Problem::new(Reason::GatewayFull, "", message))
    }
}

const LIMIT: Budget = Budget::GatewayClosedHosts;
/// Host names at listeners that are read of the refused routes of a namespace, as a multiple of the limit: 2, some
/// 30 ms of each run of the unit, which every change of a route at the Gateway causes. 10 000 routes that share 16 host
/// names took a second at 64 listeners.
const READ: usize = 2;
/// Stands for the name of a route object, in the keys of the rules for host names: no object has such a name.
const NAME: &str = "closed:hosts";
/// The creation time of what closes host names, the end of the year 9999: it gives way to routes of other
/// namespaces that match as much.
const NEWEST: i64 = 253_402_300_799;
/// Most host names of a rule: 1024, which are at most 256 KiB.
const HOSTS_OF_A_RULE: usize = 1024;
