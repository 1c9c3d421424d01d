//! Compiles rules: their filters and policies, and the clusters of their backends.

use std::num::NonZeroU32;
use std::sync::Arc;

use xds::model::{
    self, HttpRule, InvalidBackend, ObjectName, PolicyKey, PolicyTarget, Route, RouteBackend,
    Target, Timeout, Transport,
};

use super::answer::Answers;
use super::authorization::Authorizations;
use super::credentials::CredentialTables;
use super::hash::HashSettings;
use super::ids::{Ids, PlacedKey};
use super::jwt::Authenticators;
use super::last::Last;
use super::networks::SharedNetworks;
use super::policy::{JwtInForce, Layer, Policies, RequestSettings, parts};
use super::rate_limit::RateLimiters;
use super::targets::{ClusterUsers, Targets};
use crate::config::{
    BackendExtras, ClusterIndex, Draw, ExternalAuth, L4Rule, Rule, RuleAuthentication,
    RuleAuthorization, RuleBackend, RuleExtras, RuleTimeouts, Sessions,
};
use crate::limits::Limits;
use crate::names::KeyPrefix;
use crate::policy::authentication::Authentication;
use crate::policy::client_networks::ClientNetworks;
use crate::policy::compiled::{BackendPolicy, RewriteTarget, RulePolicy};
use crate::policy::effective_fields::PolicyView;
use crate::policy::jwt::{Authenticator, ClaimsUse};
use crate::policy::rate_limit::RateLimits;

/// A compiled rule at a listener, and its references.
#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) rule: AnyRule,
    gateway: ObjectName,
}

/// A rule of requests, or of connections alone.
#[derive(Debug, Clone)]
pub(super) enum AnyRule {
    Http(Arc<Rule>),
    L4(Arc<L4Rule>),
}

impl AnyRule {
    /// The clusters that it names; one that is named twice is there twice.
    fn clusters(&self) -> Vec<ClusterIndex> {
        match self {
            Self::Http(rule) => rule.clusters().collect(),
            Self::L4(rule) => rule.backends.iter().flat_map(|it| it.cluster).collect(),
        }
    }

    fn jwt(&self) -> Option<&Arc<Authenticator>> {
        match self {
            Self::Http(rule) => rule.authenticator(),
            Self::L4(_) => None,
        }
    }
}

impl CompiledRule {
    pub(super) fn new(rule: AnyRule, gateway: ObjectName) -> Self {
        Self { rule, gateway }
    }

    /// Counts the references of the rule. Returns clusters that its Gateway did not use before.
    pub(super) fn count_references(&self, users: &mut ClusterUsers) -> Vec<ClusterIndex> {
        let mut clusters = self.rule.clusters();
        clusters.retain(|cluster| users.add(*cluster, &self.gateway));
        clusters
    }

    /// Releases the references of the rule. Returns clusters that its Gateway no longer uses.
    pub(super) fn remove_reference(
        self,
        key: &PlacedKey,
        ids: &mut Ids,
        jwt: &mut Authenticators,
        users: &mut ClusterUsers,
    ) -> Vec<ClusterIndex> {
        ids.rules.remove_reference(key);
        if let Some(authenticator) = self.rule.jwt() {
            jwt.remove_reference(authenticator);
        }
        let mut clusters = self.rule.clusters();
        clusters.retain(|cluster| users.remove(*cluster, &self.gateway));
        clusters
    }

    pub(super) fn gateway(&self) -> &ObjectName {
        &self.gateway
    }
}

/// The settings of the rule that was compiled last.
#[derive(Debug, Default)]
pub(super) struct LastSettings {
    limits: Last<Limits>,
    /// Of its backends.
    backend_limits: Last<Limits>,
    access_log: Last<model::AccessLog>,
}

/// Compiles a rule for listeners of a Gateway.
pub(super) struct RuleCompiler<'c> {
    pub(super) policies: &'c Policies,
    pub(super) targets: &'c Targets,
    pub(super) hash: HashSettings<'c>,
    pub(super) gateway: &'c ObjectName,
    /// Settings of Gateway, listener, route and rule.
    pub(super) settings: &'c RequestSettings<'c>,
    pub(super) jwt: &'c mut Authenticators,
    pub(super) credentials: &'c mut CredentialTables,
    pub(super) authorization: &'c mut Authorizations,
    pub(super) networks: &'c mut SharedNetworks,
    pub(super) rate_limits: &'c mut RateLimiters,
    pub(super) answers: &'c mut Answers,
    pub(super) shards: NonZeroU32,
    pub(super) last: &'c mut LastSettings,
}

impl<'c> RuleCompiler<'c> {
    pub(super) fn http_rule(&mut self, route: &Route, rule: &HttpRule) -> Rule {
        let settings = self.settings;
        let RulePolicy {
            mut responses,
            backends,
        } = rule_policy(rule, settings);
        let late = settings.enforced.late_responds.iter().copied();
        let own_answers = self.answers.all_of(late.chain(settings.respond));
        let answer_reads_claims = own_answers.iter().any(|it| it.reads_claims());
        if !own_answers.is_empty() {
            responses.get_or_insert_default().responds = own_answers;
        }
        let policies = backends.into_iter().zip(&rule.backends);
        let weights: Vec<u32> = rule.backends.iter().map(|backend| backend.weight).collect();
        let authorization = self.authorization_of(settings);
        let rate_limits = self.rate_limits.all_of(settings, self.shards);
        let targets = || rule.backends.iter().map(|it| &it.target);
        let reads_claims = !authorization.is_empty()
            || answer_reads_claims
            || self.hash.reads_claims(targets())
            || rate_limits.iter().any(|(limit, _)| limit.reads_claims());
        let claims_use = if reads_claims {
            ClaimsUse::Rules
        } else {
            ClaimsUse::Headers
        };
        let authentication = self.authentication(settings, claims_use);
        let credentials = authentication.as_deref().map(|it| &it.credentials);
        let rate_limits = RateLimits::at_rule(rate_limits, credentials);
        let limits = settings.bounded_limits();
        Rule {
            name: KeyPrefix::new(route.key.to_shared(), |key| parts(key, 4)),
            requests: rule.protocol,
            timeouts: timeouts(rule, settings),
            retry: rule.retry.clone(),
            sessions: sessions(rule),
            authentication,
            rate_limits: rate_limits.map(Box::new),
            authorization,
            networks: self.own_networks(settings),
            extras: self.extras(rule, settings),
            external_auth: self.external_auth(&rule.filters.external_auth),
            responses,
            draw: Draw::new(&weights),
            backends: policies
                .map(|(policy, backend)| self.backend(backend, policy, settings))
                .collect(),
            access_log: self
                .last
                .access_log
                .share(settings.access_log_in_force().clone()),
            limits: self.last.limits.share(limits),
        }
    }

    /// How senders of requests are authenticated.
    fn authentication(
        &mut self,
        settings: &RequestSettings<'_>,
        claims_use: ClaimsUse,
    ) -> Option<Box<RuleAuthentication>> {
        let policy = settings.credentials_in_force()?;
        let jwt = JwtInForce::of(policy).map(|jwt| self.jwt.acquire(jwt, claims_use));
        Some(Box::new(RuleAuthentication {
            credentials: Authentication {
                jwt,
                basic_auth: self.credentials.basic_auth(policy),
                api_keys: self.credentials.api_keys(policy),
                requires_all: policy.spec.require_all,
                claims_use,
            },
            policy: policy_name(&policy.key),
        }))
    }

    /// What few rules have.
    fn extras(
        &mut self,
        rule: &HttpRule,
        settings: &RequestSettings<'_>,
    ) -> Option<Box<RuleExtras>> {
        let enforced = settings.enforced.responds.iter().copied();
        let extras = RuleExtras {
            refused_by: settings.invalid.map(policy_name),
            hides_query: settings.hides_query,
            enforced_answers: self.answers.all_of(enforced),
            error_pages: settings.error_pages_in_force().and_then(|policy| {
                let (targets, gateway) = (self.targets, self.gateway);
                self.answers.pages_in_force(policy, targets, gateway)
            }),
            invalid: rule.invalid.clone(),
            hashed_draw: self
                .hash
                .of_draw({ rule.backends.iter() }.map(|it| (&it.target, it.weight))),
        };
        (!extras.is_empty()).then(|| Box::new(extras))
    }

    /// The networks of a rule that nearer targets may replace.
    fn own_networks(&mut self, settings: &RequestSettings<'_>) -> Box<[Arc<ClientNetworks>]> {
        self.networks.all_of(settings.networks)
    }

    /// All networks of a rule.
    pub(super) fn networks_of(
        &mut self,
        settings: &RequestSettings<'_>,
    ) -> Box<[Arc<ClientNetworks>]> {
        let enforced = settings.enforced.networks.iter().copied();
        self.networks.all_of(enforced.chain(settings.networks))
    }

    /// The authorization of a rule: what is enforced, the widest first, and then its own.
    fn authorization_of(&mut self, settings: &RequestSettings<'_>) -> Box<[RuleAuthorization]> {
        let enforced = settings.enforced.authorization.iter().copied();
        let own = settings.authorization;
        let all = enforced.chain(own.map(|policy| (policy, PolicyView::Effective)));
        let all = all.filter_map(|(policy, view)| {
            let rules = policy.spec.authorization.as_ref()?;
            let policy = self.authorization.of(policy, rules);
            Some(RuleAuthorization { policy, view })
        });
        all.collect()
    }

    fn backend(
        &mut self,
        backend: &RouteBackend,
        policy: Option<Box<BackendPolicy>>,
        settings: &RequestSettings<'_>,
    ) -> RuleBackend {
        let mirrors = policy.as_ref().map_or(&[][..], |policy| &policy.mirrors);
        let mirrors = mirrors.iter();
        let cluster = self.cluster(&backend.target, Transport::Tcp);
        let extras = BackendExtras {
            unresolved: cluster.is_err().then(|| backend.target.to_string().into()),
            mirrors: mirrors
                .map(|mirror| match self.invalid_policy_of(&mirror.target) {
                    Some(_) => Err(InvalidBackend::NotPermitted),
                    None => self.cluster(&mirror.target, Transport::Tcp),
                })
                .collect(),
            external_auth: self.external_auth(&backend.filters.external_auth),
            session: backend.session.clone(),
            refused_by: self.invalid_policy_of(&backend.target).map(policy_name),
        };
        let limits = self.limits_towards(&backend.target, settings);
        RuleBackend {
            cluster,
            policy,
            limits: self.last.backend_limits.share(limits),
            extras: (!extras.is_empty()).then(|| Box::new(extras)),
        }
    }

    fn external_auth(&self, servers: &[model::ExternalAuth]) -> Box<[ExternalAuth]> {
        let servers = servers.iter();
        let servers =
            servers.map(|it| ExternalAuth::compile(it, self.cluster(&it.target, Transport::Tcp)));
        servers.collect()
    }

    /// The limits of a target: the wider ones, overridden by its own.
    pub(super) fn limits_towards(&self, target: &Target, settings: &RequestSettings<'_>) -> Limits {
        let nearer = self.of_target(target).into_iter().flat_map(Layer::limits);
        settings
            .enforced
            .bound(&nearer.fold(settings.limits, Limits::with))
    }

    /// A policy of a target whose restrictions cannot be enforced.
    fn invalid_policy_of(&self, target: &Target) -> Option<&'c PolicyKey> {
        self.of_target(target)?.invalid()
    }

    fn of_target(&self, target: &Target) -> Option<&'c Layer> {
        match target {
            Target::Service { service, .. } => Some(self.policies.of_service(service)),
            Target::Backend(key) => Some(self.policies.of_backend(key)),
            Target::Invalid { .. } => None,
        }
    }

    pub(super) fn cluster(
        &self,
        target: &Target,
        transport: Transport,
    ) -> Result<ClusterIndex, InvalidBackend> {
        self.targets.find(target, transport, self.gateway)
    }
}

/// The filters of a rule, with the rewrite of paths by a policy.
fn rule_policy(rule: &HttpRule, settings: &RequestSettings<'_>) -> RulePolicy {
    let filters = RulePolicy::compile(rule);
    let Some(policy) = settings.path_rewrite else {
        return filters;
    };
    let target = match &policy.target {
        PolicyTarget::Rule { .. } => RewriteTarget::Rule,
        _ => RewriteTarget::Route,
    };
    match &policy.spec.path_rewrite {
        Some(rewrite) => filters.with_path_rewrite(rule, rewrite, target),
        None => filters,
    }
}

/// `kind/namespace/name` of a policy.
pub(super) fn policy_name(key: &PolicyKey) -> Box<str> {
    parts(key.as_str(), 3).into()
}

fn timeouts(rule: &HttpRule, settings: &RequestSettings<'_>) -> Option<Box<RuleTimeouts>> {
    let model::Timeouts {
        request,
        backend_request,
    } = rule.timeouts;
    let timeouts = RuleTimeouts {
        request: request.or(None),
        backend: backend_request.or(None),
        waits_forever: [request, backend_request].contains(&Timeout::Never),
        head_bound: None,
    };
    (timeouts != RuleTimeouts::default()).then(|| {
        Box::new(RuleTimeouts {
            head_bound: settings.enforced.head_bound(),
            ..timeouts
        })
    })
}

fn sessions(rule: &HttpRule) -> Sessions {
    match &rule.session {
        Some(session) => Sessions::OfRule(session.clone()),
        None if rule.backends.iter().any(|it| it.session.is_some()) => Sessions::OfBackends,
        None => Sessions::None,
    }
}
