//! Policies, found by what they aim at and merged from the widest target to the nearest.

use std::collections::HashMap;

use xds::model::{
    self, AccessLog, BackendKey, EscapedSlash, JwtPolicy, ListenerKey, Model, ObjectName,
    PathOptions, PolicySpec, PolicyTarget, ProxyProtocolIn, Route, ServiceKey, Trust,
};

use super::CompileOptions;
use crate::limits::Limits;

/// All policies, by target.
#[derive(Debug, Default)]
pub(super) struct Policies<'a> {
    gateways: HashMap<&'a ObjectName, Layer<'a>>,
    listener_sets: HashMap<&'a ObjectName, Layer<'a>>,
    listeners: HashMap<&'a ListenerKey, Layer<'a>>,
    /// By `kind/namespace/name`, the beginning of their keys.
    routes: HashMap<String, RouteLayers<'a>>,
    services: HashMap<&'a ServiceKey, Layer<'a>>,
    backends: HashMap<&'a BackendKey, Layer<'a>>,
}

/// What the policies of one target say. At most one of them has a given field.
#[derive(Debug, Default)]
pub(super) struct Layer<'a>(Vec<&'a PolicySpec>);

/// The policies of a route object and of its rules, by rule name.
#[derive(Debug, Default)]
struct RouteLayers<'a> {
    object: Layer<'a>,
    rules: HashMap<&'a str, Layer<'a>>,
}

static NOTHING: Layer<'static> = Layer(Vec::new());

impl<'a> Layer<'a> {
    /// The field, where a policy of this target has it.
    pub(super) fn field<T>(&self, field: impl Fn(&'a PolicySpec) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(|spec| field(spec))
    }

    pub(super) fn limits(&self) -> impl Iterator<Item = &'a model::Limits> {
        self.0.iter().map(|spec| &spec.limits)
    }
}

impl<'a> Policies<'a> {
    pub(super) fn of(model: &'a Model) -> Self {
        let mut policies = Self::default();
        for policy in model.policies.values() {
            policies.layer(&policy.target).0.push(&policy.spec);
        }
        policies
    }

    fn layer(&mut self, target: &'a PolicyTarget) -> &mut Layer<'a> {
        match target {
            PolicyTarget::Gateway(name) => self.gateways.entry(name).or_default(),
            PolicyTarget::ListenerSet(name) => self.listener_sets.entry(name).or_default(),
            PolicyTarget::Listener(key) => self.listeners.entry(key).or_default(),
            PolicyTarget::Route { kind, object } => &mut self.route(kind, object).object,
            PolicyTarget::Rule { kind, object, rule } => {
                self.route(kind, object).rules.entry(rule).or_default()
            }
            PolicyTarget::Service(key) => self.services.entry(key).or_default(),
            PolicyTarget::Backend(key) => self.backends.entry(key).or_default(),
        }
    }

    fn route(&mut self, kind: &str, object: &ObjectName) -> &mut RouteLayers<'a> {
        self.routes.entry(format!("{kind}/{object}")).or_default()
    }

    pub(super) fn of_gateway(&self, gateway: &ObjectName) -> &Layer<'a> {
        self.gateways.get(gateway).unwrap_or(&NOTHING)
    }

    /// What is said of a listener: of the `ListenerSet` that it is of, then of itself.
    pub(super) fn of_listener(&self, listener: &ListenerKey) -> [&Layer<'a>; 2] {
        let set = if self.listener_sets.is_empty() {
            None
        } else {
            listener.listener_set()
        };
        let set = set.and_then(|set| self.listener_sets.get(&set));
        let own = self.listeners.get(listener);
        [set.unwrap_or(&NOTHING), own.unwrap_or(&NOTHING)]
    }

    pub(super) fn of_service(&self, service: &ServiceKey) -> &Layer<'a> {
        self.services.get(service).unwrap_or(&NOTHING)
    }

    pub(super) fn of_backend(&self, backend: &BackendKey) -> &Layer<'a> {
        self.backends.get(backend).unwrap_or(&NOTHING)
    }

    /// What is said of a route and of its rule; `None` where nothing is, as of most.
    pub(super) fn of_route(&self, route: &Route) -> Option<[&Layer<'a>; 2]> {
        let layers = self.routes.get(parts(route.key.as_str(), 3))?;
        let rule = route.rule.name().and_then(|name| layers.rules.get(name));
        Some([&layers.object, rule.unwrap_or(&NOTHING)])
    }

    /// Whether nothing is said of any Gateway.
    pub(super) fn gateways_are_silent(&self) -> bool {
        self.gateways.is_empty()
    }
}

/// The first so many parts of a key.
pub(super) fn parts(key: &str, count: usize) -> &str {
    let end = key.match_indices('/').nth(count - 1);
    end.map_or(key, |(end, _)| &key[..end])
}

/// What holds for requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestSettings<'a> {
    pub(super) limits: Limits,
    pub(super) access_log: AccessLog,
    pub(super) jwt: Option<&'a JwtPolicy>,
}

impl<'a> RequestSettings<'a> {
    pub(super) fn new(options: &CompileOptions) -> Self {
        Self {
            limits: Limits::default(),
            access_log: options.access_log.clone(),
            jwt: None,
        }
    }

    /// With what a nearer target says put over it.
    pub(super) fn with(mut self, nearer: &Layer<'a>) -> Self {
        self.limits = nearer.limits().fold(self.limits, Limits::with);
        if let Some(access_log) = nearer.field(|spec| spec.access_log.as_ref()) {
            self.access_log = access_log.clone();
        }
        self.jwt = nearer.field(|spec| spec.jwt.as_ref()).or(self.jwt);
        self
    }
}

/// What holds for connections, before there is a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectionSettings<'a> {
    pub(super) limits: Limits,
    pub(super) trust: Option<&'a Trust>,
    pub(super) proxy_protocol: Option<&'a ProxyProtocolIn>,
    pub(super) path_options: PathOptions,
}

impl Default for ConnectionSettings<'_> {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            trust: None,
            proxy_protocol: None,
            path_options: PathOptions {
                merge_slashes: false,
                escaped_slash: EscapedSlash::Keep,
            },
        }
    }
}

impl<'a> ConnectionSettings<'a> {
    /// With what a nearer target says put over it.
    pub(super) fn with(self, nearer: &Layer<'a>) -> Self {
        let proxy_protocol = nearer.field(|spec| spec.proxy_protocol.as_ref());
        let path_options = nearer.field(|spec| spec.path_options);
        Self {
            limits: nearer.limits().fold(self.limits, Limits::with),
            trust: nearer.field(|spec| spec.trust.as_ref()).or(self.trust),
            proxy_protocol: proxy_protocol.or(self.proxy_protocol),
            path_options: path_options.unwrap_or(self.path_options),
        }
    }
}
