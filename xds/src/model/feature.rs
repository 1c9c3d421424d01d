//! What proxies of this release understand that earlier ones do not.
//!
//! A proxy ignores the fields that it does not know, also those that restrict access. So a proxy states its
//! features when it opens a stream (`client_features` of `Node` in `proto/discovery.proto`), and a resource
//! names those that it needs. To a proxy without one the controller sends, in the place of a policy, one that
//! refuses every request of its target, and in the place of a rule one that responds with 500. A resource that
//! needs an unknown feature nevertheless, because it was saved by a later release, is refused by its decoder.
//!
//! **A new field that protects** gets a row at the end of [`features!`], and a line in the function of its type
//! that [`Resource::needs`] calls. These name every field, so that none is forgotten. Nothing else depends on it:
//! encoding, decoding and the controller read what a resource needs.

use std::fmt;
use std::time::Duration;

use super::{
    AuthorizationPolicy, AuthorizationRule, Backend, Bind, Cors, ExternalAuth,
    ExternalAuthProtocol, FilterSet, Filters, HttpMatch, HttpRule, JwtPolicy, JwtProvider, L4Rule,
    Listener, Policy, PolicySpec, Precedence, Resource, Route, RouteBackend, RouteRule, Service,
};

macro_rules! features {
    ($($(#[$doc:meta])* $feature:ident $name:literal;)*) => {
        /// Something that not every proxy understands, in the order of releases.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Feature {
            $($(#[$doc])* $feature,)*
        }

        impl Feature {
            /// Every feature of this release.
            pub const ALL: &'static [Self] = &[$(Self::$feature,)*];

            /// Its name on the wire.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$feature => $name,)*
                }
            }
        }
    };
}

features! {
    /// A rule comes once for each Gateway, and names its listeners. For a proxy without this feature there is a
    /// rule for each listener.
    SharedRules "shared-rules";
    /// Networks of clients.
    Networks "networks";
    /// Rate limits of a policy.
    RateLimit "rate-limit";
    /// The clock skew of an issuer of tokens: before, it was one minute for all.
    ClockSkew "clock-skew";
    /// Policies that take precedence over those of nearer targets.
    Precedence "precedence";
    /// Answers of the gateway in the place of backends.
    Respond "respond";
    /// Rewrites of paths by a policy. Without them backends would get paths that they do not expect.
    PathRewrite "path-rewrite";
    /// API keys of clients.
    ApiKeys "api-keys";
    /// Passwords of users.
    BasicAuth "basic-auth";
}

/// How long proxies without [`Feature::ClockSkew`] accept tokens after their expiry.
const FORMER_CLOCK_SKEW: Duration = Duration::from_mins(1);

impl Feature {
    /// The feature of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.name() == name)
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of features.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Features(u32);

impl Features {
    /// None, as of proxies that state none.
    pub const NONE: Self = Self(0);

    /// All of this release.
    #[must_use]
    pub fn all() -> Self {
        Feature::ALL.iter().copied().collect()
    }

    /// The features that a proxy states. Proxies have those of their release, so the set ends with the first
    /// that is missing: there are as many different sets as features, and the controller keeps the resources
    /// of a Gateway for each set that its proxies have.
    #[must_use]
    pub fn stated(names: &[String]) -> Self {
        Self::stated_of(Feature::ALL, names)
    }

    /// The same for a release that has these features.
    fn stated_of(all: &[Feature], names: &[String]) -> Self {
        let all = all.iter().copied();
        let stated = all.take_while(|feature| names.iter().any(|name| name == feature.name()));
        stated.collect()
    }

    /// The features that are in use.
    fn in_use<const N: usize>(each: [(Feature, bool); N]) -> Self {
        let in_use = each.into_iter().filter(|(_, is_used)| *is_used);
        in_use.map(|(feature, _)| feature).collect()
    }

    /// Whether it has a feature.
    #[must_use]
    pub fn contains(self, feature: Feature) -> bool {
        self.0 & bit(feature) != 0
    }

    /// Whether it has all features of another set.
    #[must_use]
    pub fn contains_all(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }

    /// The features, in the order of releases.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        let all = Feature::ALL.iter().copied();
        all.filter(move |feature| self.contains(*feature))
    }

    /// The names of the features on the wire.
    #[must_use]
    pub fn names(self) -> Vec<String> {
        self.iter()
            .map(|feature| feature.name().to_owned())
            .collect()
    }

    fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

fn bit(feature: Feature) -> u32 {
    1 << feature as u32
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        Self(features.into_iter().fold(0, |bits, it| bits | bit(it)))
    }
}

impl PolicySpec {
    /// The features without which a proxy would allow what these settings refuse.
    #[must_use]
    pub fn needs(&self) -> Features {
        // All fields, so that a new one cannot be forgotten. Those that do not restrict access need nothing, and
        // `is_invalid` is enforced by every proxy there is.
        let Self {
            access_log: _,
            limits: _,
            trust,
            proxy_protocol,
            path_options,
            health_path: _,
            retry_budget: _,
            retry_constraint: _,
            ejection: _,
            health_check: _,
            balance: _,
            jwt,
            basic_auth,
            api_keys,
            // One that is alone restricts nothing, and every kind of credentials that it may be about but tokens
            // has a feature.
            require_all: _,
            authorization,
            networks,
            rate_limit,
            respond,
            error_pages: _,
            path_rewrite,
            client_certificate: _,
            session_keys: _,
            precedence,
            is_invalid,
            closes_connections,
            hidden: _,
        } = self;
        let of_jwt = jwt.as_ref().map(of_jwt).unwrap_or_default();
        let of_authorization = authorization.as_ref().map(of_authorization);
        // A proxy without `Precedence` lets nearer targets replace all of this.
        let is_enforced = !*is_invalid
            && *precedence == Precedence::Overrides
            && (self.restricts_access()
                || trust.is_some()
                || proxy_protocol.is_some()
                || path_options.is_some());
        // One row for each field that restricts access: `(Feature::Field, field.is_some())`.
        Features::in_use([
            (Feature::Networks, networks.is_some() || *closes_connections),
            (Feature::RateLimit, rate_limit.is_some()),
            (Feature::Precedence, is_enforced),
            (Feature::Respond, respond.is_some()),
            (Feature::PathRewrite, path_rewrite.is_some()),
            (Feature::ApiKeys, api_keys.is_some()),
            (Feature::BasicAuth, basic_auth.is_some()),
        ])
        .with(of_jwt)
        .with(of_authorization.unwrap_or_default())
    }
}

fn of_jwt(policy: &JwtPolicy) -> Features {
    let JwtPolicy {
        mode: _,
        realm: _,
        providers,
    } = policy;
    providers
        .iter()
        .map(of_provider)
        .fold(Features::NONE, Features::with)
}

fn of_provider(provider: &JwtProvider) -> Features {
    // Proxies without `expiry` need the claim of every token.
    let JwtProvider {
        name: _,
        issuer: _,
        audiences: _,
        keys: _,
        from: _,
        forward: _,
        claims_to_headers: _,
        clock_skew,
        expiry: _,
    } = provider;
    let is_shorter = clock_skew.is_some_and(|skew| skew < FORMER_CLOCK_SKEW);
    // One row for each condition that not every proxy checks.
    Features::in_use([(Feature::ClockSkew, is_shorter)])
}

fn of_authorization(policy: &AuthorizationPolicy) -> Features {
    let AuthorizationPolicy { deny, allow } = policy;
    let rules = deny.iter().chain(allow).map(|rule| {
        let AuthorizationRule { name: _, when: _ } = rule;
        // One row for each condition that not every proxy checks.
        Features::in_use([])
    });
    rules.fold(Features::NONE, Features::with)
}

impl HttpRule {
    /// The features without which a proxy would take other requests than these, or treat them otherwise.
    #[must_use]
    pub fn needs(&self) -> Features {
        let Self {
            name: _,
            protocol: _,
            matches,
            filters,
            backends,
            timeouts: _,
            retry: _,
            session: _,
            invalid: _,
        } = self;
        let of_backends = backends.iter().map(of_backend);
        let of_matches = matches.iter().map(of_match);
        let all = of_backends.chain(of_matches);
        all.fold(of_filters(filters), Features::with)
    }
}

fn of_match(matches: &HttpMatch) -> Features {
    let HttpMatch {
        path: _,
        method: _,
        headers: _,
        query: _,
    } = matches;
    // One row for each condition that not every proxy checks.
    Features::in_use([])
}

fn of_backend(backend: &RouteBackend) -> Features {
    let RouteBackend {
        target: _,
        weight: _,
        filters,
        session: _,
    } = backend;
    of_filters(filters)
}

fn of_filters(filters: &Filters) -> Features {
    let FilterSet {
        request_headers: _,
        response_headers: _,
        redirect: _,
        rewrite: _,
        mirrors: _,
        cors,
        external_auth,
    } = &**filters;
    let of_cors = cors.iter().map(of_cors);
    let of_servers = external_auth.iter().map(of_external_auth);
    // One row for each filter that not every proxy applies.
    let own = Features::in_use([]);
    of_cors.chain(of_servers).fold(own, Features::with)
}

fn of_cors(cors: &Cors) -> Features {
    let Cors {
        allow_origins: _,
        allow_credentials: _,
        allow_methods: _,
        allow_headers: _,
        expose_headers: _,
        max_age: _,
    } = cors;
    // One row for each setting that not every proxy applies.
    Features::in_use([])
}

fn of_external_auth(server: &ExternalAuth) -> Features {
    let ExternalAuth {
        target: _,
        protocol,
        body_bytes: _,
    } = server;
    match protocol {
        ExternalAuthProtocol::Http {
            path_prefix: _,
            request_headers: _,
            response_headers: _,
        }
        | ExternalAuthProtocol::Grpc { request_headers: _ } => {}
    }
    // One row for each setting that not every proxy applies.
    Features::in_use([])
}

impl Bind {
    /// The features without which a proxy would accept other connections.
    #[must_use]
    pub fn needs(&self) -> Features {
        let Self {
            key: _,
            address: _,
            port: _,
            transport: _,
            gateway: _,
        } = self;
        Features::in_use([])
    }
}

impl Listener {
    /// The features without which a proxy would accept requests or connections that it must refuse.
    #[must_use]
    pub fn needs(&self) -> Features {
        let Self {
            key: _,
            bind: _,
            gateway: _,
            name: _,
            hostname: _,
            protocol: _,
            external_auth,
        } = self;
        // One row for each field that restricts access.
        let own = Features::in_use([]);
        let of_servers = external_auth.iter().map(of_external_auth);
        of_servers.fold(own, Features::with)
    }
}

impl Service {
    /// The features without which a proxy would send requests that it must not send.
    #[must_use]
    pub fn needs(&self) -> Features {
        let Self {
            key: _,
            vips: _,
            ports: _,
            session_affinity: _,
        } = self;
        Features::in_use([])
    }
}

impl Backend {
    /// The features without which a proxy would send requests that it must not send.
    #[must_use]
    pub fn needs(&self) -> Features {
        let Self {
            key: _,
            hosts: _,
            protocol: _,
            tls: _,
            proxy_protocol: _,
        } = self;
        Features::in_use([])
    }
}

impl RouteRule {
    /// The features without which a proxy would treat requests or connections otherwise.
    #[must_use]
    pub fn needs(&self) -> Features {
        match self {
            Self::Http(rule) => rule.needs(),
            Self::Tls(rule) | Self::Tcp(rule) | Self::Udp(rule) => {
                let L4Rule {
                    name: _,
                    backends: _,
                } = rule;
                Features::NONE
            }
        }
    }
}

impl Resource {
    /// The features that a proxy needs to enforce what it says.
    #[must_use]
    pub fn needs(&self) -> Features {
        match self {
            Self::Policy(policy) => policy.spec.needs(),
            Self::Route(route) => route.rule.needs(),
            Self::Bind(bind) => bind.needs(),
            Self::Listener(listener) => listener.needs(),
            Self::Service(service) => service.needs(),
            Self::Backend(backend) => backend.needs(),
            Self::Workload(_) => Features::NONE,
        }
    }

    /// What takes its place at a proxy with these features: itself, if it has what is needed, or else what
    /// refuses the same requests. `None` if the proxy must not have it at all.
    #[must_use]
    pub fn enforceable_with(&self, features: Features) -> Option<Self> {
        if features.contains_all(self.needs()) {
            return Some(self.clone());
        }
        match self {
            Self::Policy(policy) => Some(Self::from(Policy {
                key: policy.key.clone(),
                target: policy.target.clone(),
                spec: policy.spec.refusing_all(),
            })),
            Self::Route(route) => Some(Self::from(refusing_known(route, features))),
            // Their substitutes need nothing.
            Self::Bind(_)
            | Self::Listener(_)
            | Self::Service(_)
            | Self::Backend(_)
            | Self::Workload(_) => None,
        }
    }
}

/// A route that refuses at least the same requests, by the matches that a proxy with these features checks.
fn refusing_known(route: &Route, features: Features) -> Route {
    let refusing = route.refusing();
    let RouteRule::Http(rule) = &refusing.rule else {
        return refusing;
    };
    let matches = rule.matches.iter().map(|it| {
        if features.contains_all(of_match(it)) {
            return it.clone();
        }
        HttpMatch {
            path: it.path.clone(),
            ..HttpMatch::everything()
        }
    });
    Route {
        rule: RouteRule::Http(HttpRule::refusing(matches.collect())),
        ..refusing
    }
}

#[cfg(test)]
mod tests;
