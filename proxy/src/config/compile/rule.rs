//! Rules with what they do, and where their requests go.

use xds::model::{InvalidBackend, ObjectName, Route, RouteBackend, Target, Timeout, Transport};

use super::bind::HttpRoute;
use super::cluster::{Targets, Users};
use super::ids::Ids;
use super::jwt::Authenticators;
use super::policy::{Layer, Policies, RequestSettings, parts};
use crate::config::{ClusterIndex, Rule, RuleBackend};
use crate::limits::{Limits, resolve};
use crate::policy::compiled::{BackendPolicy, RulePolicy};
use crate::upstream::balance::Draw;

/// Compiles the rules of a listener.
pub(super) struct RuleCompiler<'a, 'c> {
    pub(super) policies: &'c Policies<'a>,
    pub(super) targets: &'c Targets<'a>,
    pub(super) users: &'c mut Users<'a>,
    pub(super) ids: &'c mut Ids,
    /// The listener's Gateway.
    pub(super) gateway: &'a ObjectName,
    /// What Gateway and listener say.
    pub(super) settings: &'c RequestSettings<'a>,
    pub(super) jwt: &'c mut Authenticators,
}

impl<'a> RuleCompiler<'a, '_> {
    pub(super) fn compile(&mut self, HttpRoute { route, rule }: HttpRoute<'a>) -> Rule {
        let settings = self.settings_of(route);
        let RulePolicy { answers, backends } = RulePolicy::compile(rule);
        let policies = backends.into_iter().zip(&rule.backends);
        let weights: Vec<u32> = rule.backends.iter().map(|backend| backend.weight).collect();
        let timeouts = rule.timeouts;
        Rule {
            id: self.ids.rules.intern(&route.key),
            name: parts(route.key.as_str(), 4).into(),
            requests: rule.protocol,
            request_timeout: resolve(Some(timeouts.request), None),
            backend_timeout: resolve(Some(timeouts.backend_request), None),
            waits_forever: [timeouts.request, timeouts.backend_request].contains(&Timeout::Never),
            retry: rule.retry.clone(),
            session: rule.session.clone(),
            jwt: settings.jwt.map(|policy| self.jwt.of(policy)),
            answers,
            draw: Draw::new(&weights),
            backends: policies
                .map(|(policy, backend)| self.backend(backend, policy, &settings.limits))
                .collect(),
            limits: settings.limits,
            access_log: settings.access_log,
        }
    }

    /// What Gateway, listener, route and rule say.
    pub(super) fn settings_of(&self, route: &Route) -> RequestSettings<'a> {
        let settings = self.settings.clone();
        match self.policies.of_route(route) {
            Some([object, rule]) => settings.with(object).with(rule),
            None => settings,
        }
    }

    fn backend(
        &mut self,
        backend: &'a RouteBackend,
        policy: Option<Box<BackendPolicy>>,
        limits: &Limits,
    ) -> RuleBackend {
        let mirrors = policy.as_ref().map_or(&[][..], |policy| &policy.mirrors);
        let limits = self.limits_towards(&backend.target, limits);
        let cluster = self.cluster(&backend.target, Transport::Tcp);
        RuleBackend {
            cluster,
            unresolved: cluster.is_err().then(|| backend.target.to_string().into()),
            mirrors: mirrors
                .iter()
                .map(|mirror| self.cluster(&mirror.target, Transport::Tcp))
                .collect(),
            policy,
            connect_timeout: limits.connect_timeout,
            response_head_timeout: limits.response_head_timeout,
        }
    }

    /// The limits with what is said of a target itself put over them.
    pub(super) fn limits_towards(&self, target: &Target, limits: &Limits) -> Limits {
        let nearer = match target {
            Target::Service { service, .. } => Some(self.policies.of_service(service)),
            Target::Backend(key) => Some(self.policies.of_backend(key)),
            Target::Invalid { .. } => None,
        };
        let nearer = nearer.into_iter().flat_map(Layer::limits);
        nearer.fold(*limits, Limits::with)
    }

    pub(super) fn cluster(
        &mut self,
        target: &Target,
        transport: Transport,
    ) -> Result<ClusterIndex, InvalidBackend> {
        let cluster = self.targets.find(target, transport, self.gateway)?;
        self.users.note(cluster, self.gateway);
        Ok(cluster)
    }
}
