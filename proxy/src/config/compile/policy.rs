//! Policies by target, merged from the least to the most specific target.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use xds::model::{
    self, AccessLog, BackendKey, EscapedSlash, HealthPath, JwtPolicy, JwtSource, ListenerKey,
    ObjectName, PathOptions, Policy, PolicyKey, PolicySpec, PolicyTarget, Precedence,
    ProxyProtocolIn, Route, ServiceKey, Trust,
};

use super::CompileOptions;
use super::enforced::Enforced;
use crate::limits::Limits;
use crate::policy::credentials::Credentials;

/// All policies, by target.
#[derive(Debug, Default)]
pub(super) struct Policies {
    gateways: HashMap<ObjectName, Layer>,
    listener_sets: HashMap<ObjectName, Layer>,
    listeners: HashMap<ListenerKey, Layer>,
    /// By `kind/namespace/name`, the prefix of their keys.
    routes: HashMap<String, RouteLayers>,
    services: HashMap<ServiceKey, Layer>,
    backends: HashMap<BackendKey, Layer>,
    /// The names that tokens have in requests, according to all policies.
    credentials: Arc<Credentials>,
}

/// The policies of one target, in the order of their keys. At most one of each precedence sets a given
/// field.
#[derive(Debug, Default)]
pub(super) struct Layer(Vec<Arc<Policy>>);

/// The policies of a route object and of its rules, by rule name.
#[derive(Debug, Default)]
struct RouteLayers {
    object: Layer,
    rules: HashMap<String, Layer>,
}

static NO_LAYER: Layer = Layer(Vec::new());

impl Layer {
    /// The field, if a policy of this target sets it.
    pub(super) fn field<'a, T>(&'a self, field: impl Fn(&'a PolicySpec) -> Option<T>) -> Option<T> {
        self.of(Precedence::Defaults, field)
    }

    /// The field, if a policy of this target sets it with this precedence.
    pub(super) fn of<'a, T>(
        &'a self,
        precedence: Precedence,
        field: impl Fn(&'a PolicySpec) -> Option<T>,
    ) -> Option<T> {
        self.policies(precedence)
            .find_map(|policy| field(&policy.spec))
    }

    /// The policies of this precedence.
    pub(super) fn policies(&self, precedence: Precedence) -> impl Iterator<Item = &Policy> {
        let policies = self.0.iter().map(Arc::as_ref);
        policies.filter(move |policy| policy.spec.precedence == precedence)
    }

    /// The policy that sets a field with this precedence, if one of this target does.
    pub(super) fn policy_with(
        &self,
        precedence: Precedence,
        has: impl Fn(&PolicySpec) -> bool,
    ) -> Option<&Policy> {
        self.policies(precedence).find(|policy| has(&policy.spec))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A policy of this target whose restrictions cannot be enforced.
    pub(super) fn invalid(&self) -> Option<&PolicyKey> {
        let invalid = self.0.iter().find(|policy| policy.spec.is_invalid);
        invalid.map(|policy| &policy.key)
    }

    /// A policy of this target whose restrictions of connections cannot be enforced.
    fn invalid_for_connections(&self) -> Option<&PolicyKey> {
        let closes = |spec: &PolicySpec| spec.is_invalid && spec.closes_connections;
        let invalid = self.0.iter().find(|policy| closes(&policy.spec));
        invalid.map(|policy| &policy.key)
    }

    /// Whether a version of a policy that was rejected reads tokens from the query.
    fn hides_query(&self) -> bool {
        let mut hidden = self.0.iter().flat_map(|policy| &policy.spec.hidden);
        hidden.any(|source| matches!(source, JwtSource::Query(_)))
    }

    pub(super) fn limits(&self) -> impl Iterator<Item = &model::Limits> {
        self.policies(Precedence::Defaults)
            .map(|policy| &policy.spec.limits)
    }

    /// The bounds of limits of nearer targets.
    pub(super) fn bounds(&self) -> impl Iterator<Item = &model::Limits> {
        self.policies(Precedence::Overrides)
            .map(|policy| &policy.spec.limits)
    }

    /// Sets or removes the policy of a key.
    fn set(&mut self, key: &PolicyKey, policy: Option<Arc<Policy>>) {
        let place = self.0.binary_search_by(|it| it.key.cmp(key));
        match (place, policy) {
            (Ok(at), Some(policy)) => self.0[at] = policy,
            (Ok(at), None) => drop(self.0.remove(at)),
            (Err(at), Some(policy)) => self.0.insert(at, policy),
            (Err(_), None) => {}
        }
    }
}

impl Policies {
    pub(super) fn add(&mut self, policy: &Arc<Policy>) {
        if Credentials::concerns(&policy.spec) {
            Arc::make_mut(&mut self.credentials).add(&policy.spec);
        }
        self.set(policy, Some(Arc::clone(policy)));
    }

    pub(super) fn remove(&mut self, policy: &Policy) {
        if Credentials::concerns(&policy.spec) {
            Arc::make_mut(&mut self.credentials).remove(&policy.spec);
        }
        self.set(policy, None);
    }

    fn set(&mut self, policy: &Policy, with: Option<Arc<Policy>>) {
        let key = &policy.key;
        match &policy.target {
            PolicyTarget::Gateway(name) => set(&mut self.gateways, name, key, with),
            PolicyTarget::ListenerSet(name) => set(&mut self.listener_sets, name, key, with),
            PolicyTarget::Listener(name) => set(&mut self.listeners, name, key, with),
            PolicyTarget::Service(name) => set(&mut self.services, name, key, with),
            PolicyTarget::Backend(name) => set(&mut self.backends, name, key, with),
            PolicyTarget::Route { kind, object } => {
                let object = format!("{kind}/{object}");
                let layers = self.routes.entry(object.clone()).or_default();
                layers.object.set(key, with);
                self.forget_empty(&object);
            }
            PolicyTarget::Rule { kind, object, rule } => {
                let object = format!("{kind}/{object}");
                let layers = self.routes.entry(object.clone()).or_default();
                set(&mut layers.rules, rule, key, with);
                self.forget_empty(&object);
            }
        }
    }

    fn forget_empty(&mut self, object: &str) {
        let is_empty = |it: &RouteLayers| it.object.0.is_empty() && it.rules.is_empty();
        if self.routes.get(object).is_some_and(is_empty) {
            self.routes.remove(object);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.gateways.is_empty()
            && self.listener_sets.is_empty()
            && self.listeners.is_empty()
            && self.routes.is_empty()
            && self.services.is_empty()
            && self.backends.is_empty()
    }

    pub(super) fn credentials(&self) -> &Arc<Credentials> {
        &self.credentials
    }

    pub(super) fn of_gateway(&self, gateway: &ObjectName) -> &Layer {
        self.gateways.get(gateway).unwrap_or(&NO_LAYER)
    }

    /// The policies of a listener: its `ListenerSet`'s, then its own.
    pub(super) fn of_listener(&self, listener: &ListenerKey) -> [&Layer; 2] {
        let set = if self.listener_sets.is_empty() {
            None
        } else {
            listener.listener_set()
        };
        let set = set.and_then(|set| self.listener_sets.get(&set));
        let own = self.listeners.get(listener);
        [set.unwrap_or(&NO_LAYER), own.unwrap_or(&NO_LAYER)]
    }

    /// The policies of a listener of the Gateway itself. Those of a ListenerSet, and of its listeners,
    /// have no say in settings of sockets, which it shares with listeners of others.
    pub(super) fn of_own_listener(&self, listener: &ListenerKey) -> &Layer {
        let own = match listener.listener_set() {
            None => self.listeners.get(listener),
            Some(_) => None,
        };
        own.unwrap_or(&NO_LAYER)
    }

    pub(super) fn of_service(&self, service: &ServiceKey) -> &Layer {
        self.services.get(service).unwrap_or(&NO_LAYER)
    }

    pub(super) fn of_backend(&self, backend: &BackendKey) -> &Layer {
        self.backends.get(backend).unwrap_or(&NO_LAYER)
    }

    /// Settings of a listener, overridden by the policies of a route and its rule. Most routes have none.
    pub(super) fn of_rule<'a>(
        &'a self,
        route: &Route,
        settings: RequestSettings<'a>,
    ) -> RequestSettings<'a> {
        let Some(layers) = self.routes.get(parts(route.key.as_str(), 3)) else {
            return settings;
        };
        let rule = route.rule.name().and_then(|name| layers.rules.get(name));
        let settings = settings.with(&layers.object);
        settings.with(rule.unwrap_or(&NO_LAYER))
    }
}

fn set<K: Clone + Eq + Hash>(
    layers: &mut HashMap<K, Layer>,
    target: &K,
    key: &PolicyKey,
    policy: Option<Arc<Policy>>,
) {
    let layer = layers.entry(target.clone()).or_default();
    layer.set(key, policy);
    if layer.0.is_empty() {
        layers.remove(target);
    }
}

/// The first `count` parts of a key.
pub(super) fn parts(key: &str, count: usize) -> &str {
    let end = key.match_indices('/').nth(count - 1);
    end.map_or(key, |(end, _)| &key[..end])
}

/// A JWT policy, and the policy resource that it comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct JwtInForce<'a> {
    pub(super) key: &'a PolicyKey,
    pub(super) policy: &'a JwtPolicy,
}

impl<'a> JwtInForce<'a> {
    /// That of a policy, if it has one.
    pub(super) fn of(policy: &'a Policy) -> Option<Self> {
        Some(Self {
            key: &policy.key,
            policy: policy.spec.jwt.as_ref()?,
        })
    }
}

/// The settings that apply from the request's head on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestSettings<'a> {
    pub(super) limits: Limits,
    pub(super) access_log: AccessLog,
    /// The policy that says how clients authenticate themselves.
    pub(super) credentials: Option<&'a Policy>,
    /// The policy that says which requests are allowed.
    pub(super) authorization: Option<&'a Policy>,
    /// The policy that says which client addresses are accepted.
    pub(super) networks: Option<&'a Policy>,
    /// The policy that limits rates.
    pub(super) rate_limit: Option<&'a Policy>,
    /// The policy that answers in the place of backends.
    pub(super) respond: Option<&'a Policy>,
    /// The policy with pages for errors.
    pub(super) error_pages: Option<&'a Policy>,
    /// The policy that rewrites paths.
    pub(super) path_rewrite: Option<&'a Policy>,
    /// What nearer targets cannot replace.
    pub(super) enforced: Enforced<'a>,
    /// The policy of the widest target whose restrictions cannot be enforced.
    pub(super) invalid: Option<&'a PolicyKey>,
    /// The same for connections and datagrams.
    pub(super) invalid_for_connections: Option<&'a PolicyKey>,
    /// Whether a rejected version of a policy reads tokens from the query.
    pub(super) hides_query: bool,
}

impl<'a> RequestSettings<'a> {
    /// Whether they are the same settings, of the same policies.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let Self {
            limits,
            access_log,
            credentials,
            authorization,
            networks,
            rate_limit,
            respond,
            error_pages,
            path_rewrite,
            enforced,
            invalid,
            invalid_for_connections,
            hides_query,
        } = self;
        let place = |policy: Option<&Policy>| policy.map(std::ptr::from_ref);
        place(*credentials) == place(other.credentials)
            && place(*authorization) == place(other.authorization)
            && place(*networks) == place(other.networks)
            && place(*rate_limit) == place(other.rate_limit)
            && place(*respond) == place(other.respond)
            && place(*error_pages) == place(other.error_pages)
            && place(*path_rewrite) == place(other.path_rewrite)
            && enforced.is_same(&other.enforced)
            && *invalid == other.invalid
            && *invalid_for_connections == other.invalid_for_connections
            && *hides_query == other.hides_query
            && *limits == other.limits
            && *access_log == other.access_log
    }

    pub(super) fn new(options: &CompileOptions) -> Self {
        Self {
            limits: Limits::default(),
            access_log: options.access_log.clone(),
            credentials: None,
            authorization: None,
            networks: None,
            rate_limit: None,
            respond: None,
            error_pages: None,
            path_rewrite: None,
            enforced: Enforced::default(),
            invalid: None,
            invalid_for_connections: None,
            hides_query: false,
        }
    }

    /// Overridden by a more specific target.
    pub(super) fn with(mut self, nearer: &'a Layer) -> Self {
        self.limits = nearer.limits().fold(self.limits, Limits::with);
        if let Some(access_log) = nearer.field(|spec| spec.access_log.as_ref()) {
            self.access_log = access_log.clone();
        }
        let policy_with =
            |has: fn(&PolicySpec) -> bool| nearer.policy_with(Precedence::Defaults, has);
        // As a whole: with credentials of a wider target beside its own, a route would admit who has either.
        let credentials = policy_with(PolicySpec::has_credentials);
        self.credentials = credentials.or(self.credentials);
        let authorization = policy_with(|spec| spec.authorization.is_some());
        self.authorization = authorization.or(self.authorization);
        let networks = policy_with(|spec| spec.networks.is_some());
        self.networks = networks.or(self.networks);
        let rate_limit = policy_with(|spec| spec.rate_limit.is_some());
        self.rate_limit = rate_limit.or(self.rate_limit);
        let respond = policy_with(|spec| spec.respond.is_some());
        self.respond = respond.or(self.respond);
        let error_pages = policy_with(|spec| spec.error_pages.is_some());
        self.error_pages = error_pages.or(self.error_pages);
        let path_rewrite = policy_with(|spec| spec.path_rewrite.is_some());
        self.path_rewrite = path_rewrite.or(self.path_rewrite);
        self.enforced.add(nearer);
        // Not for a nearer target to lift.
        self.invalid = self.invalid.or(nearer.invalid());
        let invalid = nearer.invalid_for_connections();
        self.invalid_for_connections = self.invalid_for_connections.or(invalid);
        self.hides_query |= nearer.hides_query();
        self
    }

    /// The limits within the bounds of overriding policies.
    pub(super) fn bounded_limits(&self) -> Limits {
        self.enforced.bound(&self.limits)
    }

    /// The access log: that of the widest overriding policy, or else of the nearest target.
    pub(super) fn access_log_in_force(&self) -> &AccessLog {
        self.enforced.access_log.unwrap_or(&self.access_log)
    }

    /// The policy with pages for errors: the widest overriding one, or else that of the nearest target.
    pub(super) fn error_pages_in_force(&self) -> Option<&'a Policy> {
        self.enforced.error_pages.or(self.error_pages)
    }

    /// The policy with credentials: the widest overriding one, whatever those of nearer targets are, or else that
    /// of the nearest target.
    pub(super) fn credentials_in_force(&self) -> Option<&'a Policy> {
        self.enforced.credentials.or(self.credentials)
    }
}

/// Settings of connections, before there is a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectionSettings<'a> {
    pub(super) limits: Limits,
    pub(super) trust: Option<&'a Trust>,
    pub(super) proxy_protocol: Option<&'a ProxyProtocolIn>,
    pub(super) path_options: PathOptions,
    pub(super) health_path: Option<&'a HealthPath>,
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
            health_path: None,
        }
    }
}

impl<'a> ConnectionSettings<'a> {
    /// Of a Gateway and its own listeners at a port, the most specific host name first. The Gateway's hold where no
    /// listener's do, and overriding ones before all others. Of several listeners the least specific one decides in
    /// either case: it gets everything without a match.
    pub(super) fn of(gateway: &'a Layer, listeners: &[&'a Layer]) -> Self {
        let listeners = listeners.iter().copied();
        let defaults = std::iter::once(gateway).chain(listeners.clone());
        let overrides = listeners.chain([gateway]);
        let settings = defaults.fold(Self::default(), |settings, layer| {
            settings.with(layer, Precedence::Defaults)
        });
        let settings = overrides.clone().fold(settings, |settings, layer| {
            settings.with(layer, Precedence::Overrides)
        });
        let bounds = overrides.flat_map(Layer::bounds);
        Self {
            limits: bounds.fold(settings.limits, Limits::bounded_by),
            ..settings
        }
    }

    fn with(self, layer: &'a Layer, precedence: Precedence) -> Self {
        let limits = match precedence {
            Precedence::Defaults => layer.limits().fold(self.limits, Limits::with),
            Precedence::Overrides => self.limits,
        };
        let trust = layer.of(precedence, |spec| spec.trust.as_ref());
        let proxy_protocol = layer.of(precedence, |spec| spec.proxy_protocol.as_ref());
        let path_options = layer.of(precedence, |spec| spec.path_options);
        let health_path = layer.of(precedence, |spec| spec.health_path.as_ref());
        Self {
            limits,
            trust: trust.or(self.trust),
            proxy_protocol: proxy_protocol.or(self.proxy_protocol),
            path_options: path_options.unwrap_or(self.path_options),
            health_path: health_path.or(self.health_path),
        }
    }
}
