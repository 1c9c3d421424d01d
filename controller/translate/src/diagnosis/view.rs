//! The objects as the examinations look at them: routes of all kinds alike, and slices by Service.

use std::cell::OnceCell;
use std::sync::Arc;

use xds::fast_hash::FastHashMap;
use xds::model::ObjectName;

use super::hint::{Hints, Others};
use super::known_services::KnownServices;
use super::room::{MOST_STEPS, Room};
use crate::backend::api::{BackendReference, EndpointSlice, SERVICE_NAME_LABEL};
use crate::backend::referrer::TrafficKind;
use crate::gateway::api::{Gateway, Listener};
use crate::objects::grants::{Grants, ReferenceDirection};
use crate::objects::kinds::ObjectKind;
use crate::objects::object_ref::ObjectRef;
use crate::objects::owner::Owner;
use crate::objects::store::Store;
use crate::options::{Environment, Options};
use crate::route::api::{
    DefaultScope, FilterType, GrpcRoute, GrpcRouteRule, HttpRoute, HttpRouteFilter, HttpRouteRule,
    L4RouteRule, ParentReference, TcpRoute, TlsRoute, UdpRoute,
};
use crate::route::object::RouteObject;
use crate::route::parent::owner;

/// All objects.
pub(super) struct View<'a> {
    pub(super) store: &'a Store,
    pub(super) options: &'a Options,
    pub(super) hints: Hints<'a>,
    routes: Vec<RouteView<'a>>,
    grants: Grants,
    /// The Gateways that routes can have without naming them.
    defaults: Vec<ObjectName>,
    /// Where each route is among them.
    places: FastHashMap<ObjectRef, usize>,
    /// What policies respond for: the object, and the rule or listener if it is one only.
    responding: FastHashMap<ObjectRef, Vec<Option<&'a str>>>,
    /// The slices of each Service.
    slices: FastHashMap<ObjectName, Vec<&'a EndpointSlice>>,
    /// Where HTTPRoutes with a host are among the routes; without one, that is empty.
    hosts: OnceCell<FastHashMap<&'a str, Vec<usize>>>,
    pub(super) services: KnownServices,
    /// For what takes time.
    pub(super) room: Room,
}

/// A route of any kind.
pub(super) struct RouteView<'a> {
    pub(super) object: ObjectRef,
    pub(super) created: i64,
    pub(super) parents: &'a [Arc<ParentReference>],
    pub(super) scope: DefaultScope,
    pub(super) hostnames: &'a [String],
    pub(super) carries: TrafficKind,
    pub(super) rules: Vec<RuleView<'a>>,
}

/// A rule of any kind of route.
pub(super) struct RuleView<'a> {
    /// The backends with their weights.
    pub(super) backends: Vec<(BackendReference<'a>, u32)>,
    pub(super) filters: &'a [HttpRouteFilter],
    pub(super) matches: Matches<'a>,
    pub(super) name: Option<&'a str>,
}

/// The matches of a rule.
pub(super) enum Matches<'a> {
    Http(&'a HttpRouteRule),
    Grpc(&'a GrpcRouteRule),
    /// Connections and datagrams have none.
    None,
}

impl<'a> View<'a> {
    pub(super) fn new(store: &'a Store, options: &'a Options, others: Others) -> Self {
        let mut slices: FastHashMap<ObjectName, Vec<&EndpointSlice>> = FastHashMap::default();
        for slice in store.endpoint_slices.values() {
            let metadata = &slice.metadata;
            if let Some(service) = metadata.labels.get(SERVICE_NAME_LABEL) {
                let name = ObjectName::new(&metadata.name.namespace, service);
                slices.entry(name).or_default().push(slice);
            }
        }
        let mut routes = Vec::new();
        add::<HttpRoute>(store, &mut routes);
        add::<GrpcRoute>(store, &mut routes);
        add::<TlsRoute>(store, &mut routes);
        add::<TcpRoute>(store, &mut routes);
        add::<UdpRoute>(store, &mut routes);
        let places = routes.iter().enumerate();
        let places = places.map(|(at, it)| (it.object.clone(), at)).collect();
        Self {
            store,
            options,
            places,
            responding: responding(store),
            grants: grants(store),
            defaults: defaults(store),
            hints: Hints::new(store, others),
            routes,
            slices,
            hosts: OnceCell::new(),
            services: KnownServices::new(store),
            room: Room::new(MOST_STEPS),
        }
    }

    pub(super) fn is_machine(&self) -> bool {
        matches!(self.options.environment, Environment::Machine { .. })
    }

    pub(super) fn routes(&self) -> &[RouteView<'a>] {
        &self.routes
    }

    /// The HTTPRoutes with a host as it is written, or without any.
    pub(super) fn routes_of(&self, host: &str) -> impl Iterator<Item = &RouteView<'a>> {
        let hosts = self.hosts.get_or_init(|| {
            let mut hosts: FastHashMap<&str, Vec<usize>> = FastHashMap::default();
            let routes = self.routes.iter().enumerate();
            for (at, route) in routes.filter(|it| it.1.object.kind == ObjectKind::HttpRoute) {
                let any = route.hostnames.is_empty().then_some("");
                let names = route.hostnames.iter().map(String::as_str);
                for host in any.into_iter().chain(names) {
                    hosts.entry(host).or_default().push(at);
                }
            }
            hosts
        });
        let places = hosts.get(host).into_iter().flatten();
        places.map(|at| &self.routes[*at])
    }

    /// Whether a route may be one of a Gateway.
    pub(super) fn is_at(&self, route: &RouteView<'_>, gateway: &ObjectName) -> bool {
        let is_it = |it: &Owner| self.gateway_of(it).as_ref() == Some(gateway);
        route.scope == DefaultScope::All || route.owners().any(|it| is_it(&it.1))
    }

    pub(super) fn slices(&self, service: &ObjectName) -> &[&'a EndpointSlice] {
        self.slices.get(service).map_or(&[], Vec::as_slice)
    }

    /// The Services that slices of a namespace name.
    pub(super) fn sliced_services(&self, namespace: &str) -> impl Iterator<Item = &str> {
        let services = self.slices.keys();
        let services = services.filter(move |it| &*it.namespace == namespace);
        services.map(|it| &*it.name)
    }

    /// The ListenerSets with their Gateways.
    pub(super) fn sets(&self) -> impl Iterator<Item = (ObjectRef, ObjectName)> {
        let sets = self.store.listener_sets.values();
        sets.filter_map(|it| {
            let owner = Owner::ListenerSet(it.metadata.name.clone());
            Some((ObjectRef::from(&owner), it.gateway()?))
        })
    }

    /// The objects with listeners of a Gateway: itself, and its ListenerSets.
    pub(super) fn owners_of(&self, gateway: &ObjectName) -> impl Iterator<Item = Owner> {
        let sets = self.store.listener_sets.iter();
        let sets = sets.filter(move |(_, it)| it.gateway().as_ref() == Some(gateway));
        let sets = sets.map(|(name, _)| Owner::ListenerSet(name.clone()));
        std::iter::once(Owner::Gateway(gateway.clone())).chain(sets)
    }

    /// Whether it is a Gateway of a class that is served here.
    pub(super) fn is_our_gateway(&self, name: &ObjectName) -> bool {
        let gateway = self.store.gateways.get(name);
        gateway.is_some_and(|it| self.options.classes.contains(&it.spec.gateway_class_name))
    }

    /// The Gateway of ours that a parent is, or belongs to.
    pub(super) fn gateway_of(&self, parent: &Owner) -> Option<ObjectName> {
        let gateway = match parent {
            Owner::Gateway(name) => name.clone(),
            Owner::ListenerSet(name) => self.store.listener_sets.get(name)?.gateway()?,
        };
        self.is_our_gateway(&gateway).then_some(gateway)
    }

    /// The listeners of a parent, if its Gateway is one of ours.
    pub(super) fn listeners(&self, parent: &Owner) -> &'a [Listener] {
        let listeners = self.gateway_of(parent).and_then(|_| match parent {
            Owner::Gateway(name) => Some(&self.store.gateways.get(name)?.spec.listeners),
            Owner::ListenerSet(name) => Some(&self.store.listener_sets.get(name)?.spec.listeners),
        });
        listeners.map_or(&[], |it| it)
    }

    /// An object that policies can be for, and what it belongs to: of a route its parents, and their Gateways.
    pub(super) fn levels(&self, object: &ObjectRef) -> Vec<ObjectRef> {
        let mut levels = vec![object.clone()];
        let route = self.places.get(object).map(|at| &self.routes[*at]);
        let parents = route.into_iter().flat_map(RouteView::owners).map(|it| it.1);
        if route.is_some_and(|it| it.scope == DefaultScope::All) {
            let defaults = self.defaults.iter();
            levels.extend(defaults.map(ObjectRef::of::<Gateway>));
        }
        for parent in parents.chain(Owner::new(object.kind, object.name.clone())) {
            levels.push(ObjectRef::from(&parent));
            let gateway = self.gateway_of(&parent);
            levels.extend(gateway.map(|it| ObjectRef::of::<Gateway>(&it)));
        }
        levels
    }

    /// Whether a route may refer to a Service: without a grant of its namespace, nothing of it is told.
    pub(super) fn permits(&self, route: &RouteView<'_>, service: &ObjectName) -> bool {
        let from = (route.object.kind, route.namespace());
        self.permits_reference(from, (ObjectKind::Service, service))
    }

    /// Whether objects of a kind and a namespace may refer to an object.
    pub(super) fn permits_reference(
        &self,
        (from, own): (ObjectKind, &str),
        (to, object): (ObjectKind, &ObjectName),
    ) -> bool {
        let way = ReferenceDirection {
            from: (from.group().into(), from.name().into(), own.into()),
            to: (
                to.group().into(),
                to.name().into(),
                (&*object.namespace).into(),
            ),
        };
        *own == *object.namespace || self.grants.permit(&way, &object.name)
    }

    /// Whether a policy responds to the requests of a rule, at least to some.
    pub(super) fn responds(&self, route: &RouteView<'_>, rule: &RuleView<'_>) -> bool {
        let mut levels = self.levels(&route.object).into_iter();
        levels.any(|level| {
            let sections = self.responding.get(&level);
            let mut sections = sections.into_iter().flatten();
            // Which listeners a request may come by is not examined.
            sections.any(|it| level != route.object || it.is_none() || *it == rule.name)
        })
    }

    /// Whether a route names a parent that is served here.
    pub(super) fn is_ours(&self, route: &RouteView<'_>) -> bool {
        route.scope == DefaultScope::All
            || route.owners().any(|it| self.gateway_of(&it.1).is_some())
    }
}

impl RouteView<'_> {
    pub(super) fn namespace(&self) -> &str {
        &self.object.name.namespace
    }

    /// The parents that can have listeners.
    pub(super) fn owners(&self) -> impl Iterator<Item = (&ParentReference, Owner)> {
        let parents = self.parents.iter();
        parents.filter_map(|it| Some((&**it, owner(it, self.namespace())?)))
    }
}

impl RuleView<'_> {
    /// Whether a filter responds, or may, so that no backend is needed.
    pub(super) fn responds(&self) -> bool {
        let responds = |it: &HttpRouteFilter| {
            matches!(
                it.kind,
                FilterType::RequestRedirect | FilterType::ExtensionRef | FilterType::Unknown
            )
        };
        self.filters.iter().any(responds)
    }
}

fn add<'a, R: RouteObject + 'a>(store: &'a Store, routes: &mut Vec<RouteView<'a>>)
where
    R::Rule: ExaminedRule + 'a,
{
    let all = R::all(store).values().map(|route| RouteView {
        object: ObjectRef::new(R::KIND, &route.metadata().name),
        created: route.metadata().created(),
        parents: route.parent_refs(),
        scope: route.default_scope(),
        hostnames: route.hostnames(),
        carries: R::CARRIES,
        rules: route.rules().iter().map(ExaminedRule::view).collect(),
    });
    routes.extend(all);
}

fn grants(store: &Store) -> Grants {
    let mut grants = Grants::default();
    for (name, grant) in &store.reference_grants {
        grants.replace(name, None, Some(grant));
    }
    grants
}

fn defaults(store: &Store) -> Vec<ObjectName> {
    let all = store.gateways.iter();
    let defaults = all.filter(|(_, it)| it.spec.default_scope == DefaultScope::All);
    defaults.map(|(name, _)| name.clone()).collect()
}

fn responding(store: &Store) -> FastHashMap<ObjectRef, Vec<Option<&str>>> {
    let mut responding: FastHashMap<ObjectRef, Vec<Option<&str>>> = FastHashMap::default();
    let policies = store.traffic_policies.values();
    for policy in policies.filter(|it| it.spec.respond.is_some()) {
        for target in &policy.spec.target_refs {
            let object = target.object(&policy.metadata.name.namespace);
            let sections = object.map(|it| responding.entry(it).or_default());
            if let Some(sections) = sections {
                sections.push(target.section_name.as_deref());
            }
        }
    }
    responding
}

/// A rule as it is written.
trait ExaminedRule {
    fn view(&self) -> RuleView<'_>;
}

impl ExaminedRule for HttpRouteRule {
    fn view(&self) -> RuleView<'_> {
        let backends = self.backend_refs.iter();
        RuleView {
            backends: backends.map(|it| (it.into(), it.weight)).collect(),
            filters: &self.filters,
            matches: Matches::Http(self),
            name: self.name.as_deref(),
        }
    }
}

impl ExaminedRule for GrpcRouteRule {
    fn view(&self) -> RuleView<'_> {
        let backends = self.backend_refs.iter();
        RuleView {
            backends: backends.map(|it| (it.into(), it.weight)).collect(),
            filters: &self.filters,
            matches: Matches::Grpc(self),
            name: self.name.as_deref(),
        }
    }
}

impl ExaminedRule for L4RouteRule {
    fn view(&self) -> RuleView<'_> {
        let backends = self.backend_refs.iter();
        RuleView {
            backends: backends.map(|it| (it.into(), it.weight)).collect(),
            filters: &[],
            matches: Matches::None,
            name: None,
        }
    }
}
