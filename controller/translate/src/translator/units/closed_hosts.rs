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
//! What is closed is never more than an ordinary route of the namespace could take. Routes of others serve on,
//! even at the same host names: a namespace must not be able to close them by having too many routes itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xds::model::{
    Attachment, Hostname, HttpMatch, HttpRule, L4Rule, ListenerKey, ObjectName, Resource, Route,
    RouteKey, RouteRule,
};

use super::{AttachedUnit, RouteKind, RouteName};
use crate::api::Gateway;
use crate::budgets::{Budget, Use};
use crate::lower::route::ResolvedRoute;
use crate::problem::Problem;
use crate::reason::Reason;
use crate::store::ObjectRef;
use crate::translator::emitted::{Emitted, Gateways};
use crate::translator::fair_share::share;
use crate::translator::unit::{Changes, State, Unit, UnitReader};
use crate::translator::views::ViewCost;

/// A Gateway by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClosedHostsUnit(pub(crate) ObjectName);

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
    pub(super) kind: RouteKind,
    pub(super) listener: ListenerKey,
    /// `None` stands for requests for which no host name is named.
    pub(super) host: Option<Hostname>,
}

/// What the refused routes and listeners of a namespace need that nothing closes.
#[derive(Default)]
struct Wanted {
    places: BTreeSet<Place>,
    /// Those of listeners, which would have the requests for host names below theirs too.
    of_listeners: BTreeSet<Place>,
}

impl Wanted {
    /// The one that a place of a route of the namespace shares.
    fn shared(&self, place: &Place) -> Option<&Place> {
        let same = self.places.get(place);
        let wider = || {
            let host = place
                .host
                .as_ref()
                .filter(|_| !self.of_listeners.is_empty());
            let mut wider = host.into_iter().flat_map(wider);
            wider.find_map(|host| {
                self.of_listeners.get(&Place {
                    host: Some(host),
                    ..place.clone()
                })
            })
        };
        same.or_else(wider)
    }
}

impl Unit for ClosedHostsUnit {
    type Output = ClosedHosts;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<ClosedHosts> {
        // Without routes, nothing is open.
        reader.claims.views.at(&self.0)?;
        let mut wanted: BTreeMap<&str, Wanted> = BTreeMap::new();
        for name in reader.routes_without_closing_rule(&self.0) {
            let Some(route) = reader.route(name) else {
                continue;
            };
            let places = self.places(name.kind, route);
            let carried = places.filter(|it| reader.carries_listener(&self.0, &it.listener));
            let mut carried = carried.peekable();
            if carried.peek().is_some() {
                let of_namespace = wanted.entry(&name.name.namespace).or_default();
                of_namespace.places.extend(carried);
            }
        }
        for (namespace, places) in reader.hosts_left_open(&self.0) {
            let of_namespace = wanted.entry(&**namespace).or_default();
            of_namespace.places.extend(places.iter().cloned());
            of_namespace.of_listeners.extend(places.iter().cloned());
        }
        if wanted.is_empty() {
            return None;
        }
        let limit = reader.options().budgets.of(LIMIT);
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
            routes: self.closed_routes(reader, &wanted, share),
            used: Use {
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
    /// The host names of a route at the listeners of the Gateway.
    fn places<'a>(
        &'a self,
        kind: RouteKind,
        route: &'a ResolvedRoute,
    ) -> impl Iterator<Item = Place> + 'a {
        // Requests of both are routed together.
        let kind = match kind {
            RouteKind::Grpc => RouteKind::Http,
            other => other,
        };
        let own = route.candidates.iter();
        let own = own.filter(|it| it.gateway == self.0);
        own.flat_map(move |it| {
            let place = move |host| Place {
                kind,
                listener: it.listener.clone(),
                host,
            };
            let every_host = it.hostnames.is_empty().then_some(None);
            let hosts = it.hostnames.iter().cloned().map(Some);
            every_host.into_iter().chain(hosts).map(place)
        })
    }

    /// The rules that reject all requests for the first host names that a namespace needs.
    fn closing(&self, namespace: &str, wanted: &Wanted, share: usize) -> Vec<(Resource, Gateways)> {
        let mut groups: Vec<(RouteKind, &ListenerKey, Vec<Hostname>)> = Vec::new();
        for place in wanted.places.iter().take(share) {
            // Without host names, a rule is for every host: one of its own.
            let hosts = place.host.as_slice();
            match groups.last_mut() {
                Some((kind, listener, of_group))
                    if (*kind, *listener) == (place.kind, &place.listener)
                        && !of_group.is_empty()
                        && of_group.len() < HOSTS_OF_A_RULE =>
                {
                    of_group.extend_from_slice(hosts);
                }
                _ => groups.push((place.kind, &place.listener, hosts.to_vec())),
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
        wanted: &BTreeMap<&str, Wanted>,
        share: usize,
    ) -> BTreeMap<RouteName, ClosedWith> {
        let mut closed = BTreeMap::new();
        let all = reader.claims.views.at(&self.0).into_iter();
        for name in all.flat_map(ViewCost::routes) {
            let Some(of_namespace) = wanted.get(&*name.name.namespace) else {
                continue;
            };
            let Some(route) = reader.route(name) else {
                continue;
            };
            let with = if of_namespace.places.len() > share {
                Some(ClosedWith::Namespace)
            } else {
                let mut places = self.places(name.kind, route);
                let place = places.find_map(|it| of_namespace.shared(&it).cloned());
                place.map(ClosedWith::Host)
            };
            if let Some(with) = with {
                closed.insert(name.clone(), with);
            }
        }
        closed
    }
}

/// The wildcards above a host name, from the nearest one.
pub(super) fn wider(host: &Hostname) -> impl Iterator<Item = Hostname> {
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
    pub(super) fn closed_with_others(
        &self,
        gateway: &ObjectName,
        route: &RouteName,
    ) -> Option<Problem> {
        let closed = self
            .tables
            .closed_hosts
            .get(&ClosedHostsUnit(gateway.clone()))?;
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
/// Stands for the name of a route object, in the keys of the rules for host names: no object has such a name.
const NAME: &str = "closed:hosts";
/// The creation time of what closes host names, the end of the year 9999: it gives way to routes of other
/// namespaces that match as much.
const NEWEST: i64 = 253_402_300_799;
/// Most host names of a rule: 1024, which are at most 256 KiB.
const HOSTS_OF_A_RULE: usize = 1024;
