//! Policies and their targets.

use super::value::list;
use crate::limits_table;
use crate::model::limits::{self, LimitKind};
use crate::model::{
    AccessLog, AuthorizationPolicy, Ejection, EscapedSlash, Feature, JwtMode, JwtPolicy, Limits,
    LogFormat, ObjectName, PathOptions, Policy, PolicySpec, PolicyTarget, Precedence,
    ProxyProtocolIn, ProxyProtocolMode, RetryBudget, RetryConstraint, SessionKey, SessionKeys,
    Trust,
};
use crate::proto::{self, policy_target, trust};

impl From<&Policy> for proto::Policy {
    fn from(policy: &Policy) -> Self {
        let spec = &policy.spec;
        let (jwt, authorization) = restrictions(spec);
        let needs = spec.needs();
        Self {
            key: policy.key.to_string(),
            target: Some((&policy.target).into()),
            access_log: spec.access_log.as_ref().map(Into::into),
            limits: (spec.limits != Limits::default()).then(|| (&spec.limits).into()),
            trust: spec.trust.as_ref().map(Into::into),
            proxy_protocol: spec.proxy_protocol.as_ref().map(Into::into),
            path_options: spec.path_options.map(Into::into),
            health_path: spec
                .health_path
                .as_ref()
                .map_or_else(String::new, |path| path.as_str().to_owned()),
            retry_budget: spec.retry_budget.map(Into::into),
            retry_constraint: spec.retry_constraint.map(Into::into),
            ejection: spec.ejection.map(Into::into),
            health_check: spec.health_check.as_ref().map(Into::into),
            balance: (!spec.balance.is_empty()).then(|| (&spec.balance).into()),
            jwt,
            basic_auth: spec.basic_auth.as_ref().map(Into::into),
            api_keys: spec.api_keys.as_ref().map(Into::into),
            require_all: spec.require_all,
            authorization,
            client_certificate: spec.client_certificate.as_ref().map(Into::into),
            session_keys: spec.session_keys.as_ref().map(Into::into),
            // One that overrides others is closed for proxies that do not know this, and let those replace it.
            invalid: spec.is_invalid || needs.contains(Feature::Precedence),
            overrides: spec.precedence == Precedence::Overrides,
            invalid_override: spec.is_invalid && spec.precedence == Precedence::Overrides,
            invalid_for_connections: spec.closes_connections,
            hidden: list(&spec.hidden),
            networks: spec.networks.as_ref().map(Into::into),
            authorization_with_networks: spec
                .networks
                .as_ref()
                .and_then(|_| authorization_without_rate_limit(spec)),
            rate_limit: spec.rate_limit.as_ref().map(Into::into),
            authorization_with_rate_limit: spec
                .authorization
                .as_ref()
                .filter(|_| spec.rate_limit.is_some())
                .map(Into::into),
            respond: spec.respond.as_ref().map(Into::into),
            error_pages: spec.error_pages.as_ref().map(Into::into),
            path_rewrite: spec.path_rewrite.as_ref().map(Into::into),
            features: needs.names(),
        }
    }
}

/// The restrictions of a policy. An invalid one has those by which proxies that do not know the field
/// `invalid` refuse every request.
fn restrictions(
    spec: &PolicySpec,
) -> (Option<proto::JwtPolicy>, Option<proto::AuthorizationPolicy>) {
    if !spec.is_invalid {
        // One with networks or rate limits is closed for proxies that do not know those, which would ignore
        // them: see `authorization_with_networks` and `authorization_with_rate_limit`.
        let authorization = match &spec.networks {
            Some(_) => Some((&AuthorizationPolicy::deny_all()).into()),
            None => authorization_without_rate_limit(spec),
        };
        return (spec.jwt.as_ref().map(Into::into), authorization);
    }
    let jwt = JwtPolicy {
        mode: JwtMode::Strict,
        realm: None,
        providers: Vec::new(),
    };
    let authorization = AuthorizationPolicy::deny_all();
    (Some((&jwt).into()), Some((&authorization).into()))
}

/// The authorization of a policy for proxies that do not know rate limits: they refuse every request of one
/// that has any.
fn authorization_without_rate_limit(spec: &PolicySpec) -> Option<proto::AuthorizationPolicy> {
    let closed = spec
        .rate_limit
        .as_ref()
        .map(|_| AuthorizationPolicy::deny_all());
    let authorization = closed.as_ref().or(spec.authorization.as_ref());
    authorization.map(Into::into)
}

impl From<&PolicyTarget> for proto::PolicyTarget {
    fn from(target: &PolicyTarget) -> Self {
        let route = |kind: &str, object: &ObjectName, rule| {
            policy_target::Kind::Route(proto::RouteTarget {
                kind: kind.to_owned(),
                object: Some(object.into()),
                rule,
            })
        };
        let kind = match target {
            PolicyTarget::Gateway(name) => policy_target::Kind::Gateway(name.into()),
            PolicyTarget::ListenerSet(name) => policy_target::Kind::ListenerSet(name.into()),
            PolicyTarget::Listener(key) => policy_target::Kind::Listener(key.to_string()),
            PolicyTarget::Route { kind, object } => route(kind, object, None),
            PolicyTarget::Rule { kind, object, rule } => route(kind, object, Some(rule.clone())),
            PolicyTarget::Service(key) => policy_target::Kind::Service(key.to_string()),
            PolicyTarget::Backend(key) => policy_target::Kind::Backend(key.to_string()),
        };
        Self { kind: Some(kind) }
    }
}

impl From<&AccessLog> for proto::AccessLog {
    fn from(log: &AccessLog) -> Self {
        let format = match log.format {
            LogFormat::Text => proto::LogFormat::Text,
            LogFormat::Json => proto::LogFormat::Json,
        };
        Self {
            off: log.off,
            format: format.into(),
            sample_per_million: log.sample_per_million,
            status_at_least: log.filter.status_at_least.map(Into::into),
            duration_at_least: log.filter.duration_at_least.map(Into::into),
        }
    }
}

macro_rules! encode {
    ($($(#[$doc:meta])* $field:ident $name:literal:
        $kind:ident, $scope:ident, $default:literal, $least:literal..=$most:literal;)*) => {
        impl From<&Limits> for proto::Limits {
            fn from(limits: &Limits) -> Self {
                Self {
                    $($field: limits.$field.map(<limits::$kind as EncodeLimit>::encode),)*
                }
            }
        }
    };
}

limits_table!(encode);

/// The value of a limit on the wire.
trait EncodeLimit: LimitKind {
    type Message;

    fn encode(given: Self::Given) -> Self::Message;
}

macro_rules! as_value {
    ($($kind:ident $message:ty;)*) => {
        $(impl EncodeLimit for limits::$kind {
            type Message = $message;

            fn encode(given: Self::Given) -> $message {
                given.into()
            }
        })*
    };
}

as_value! {
    Size u32;
    OptionalSize u32;
    Share u32;
    Amount u64;
    Rate u32;
    Time proto::Timeout;
}

impl EncodeLimit for limits::Requests {
    type Message = u64;

    fn encode(given: u64) -> u64 {
        match given {
            0 => ANY_NUMBER,
            requests => requests,
        }
    }
}

impl From<&Trust> for proto::Trust {
    fn from(trust: &Trust) -> Self {
        let kind = match trust {
            Trust::Hops(hops) => trust::Kind::Hops(hops.get()),
            Trust::Sources(networks) => trust::Kind::Sources(proto::Networks {
                networks: list(networks),
            }),
        };
        Self { kind: Some(kind) }
    }
}

impl From<&ProxyProtocolIn> for proto::ProxyProtocolIn {
    fn from(proxy_protocol: &ProxyProtocolIn) -> Self {
        let mode = match proxy_protocol.mode {
            ProxyProtocolMode::Off => proto::ProxyProtocolMode::Off,
            ProxyProtocolMode::Optional => proto::ProxyProtocolMode::Optional,
            ProxyProtocolMode::Required => proto::ProxyProtocolMode::Required,
        };
        Self {
            mode: mode.into(),
            trusted_sources: list(&proxy_protocol.trusted_sources),
        }
    }
}

impl From<PathOptions> for proto::PathOptions {
    fn from(options: PathOptions) -> Self {
        let escaped_slash = match options.escaped_slash {
            EscapedSlash::Keep => proto::EscapedSlash::Keep,
            EscapedSlash::Reject => proto::EscapedSlash::Reject,
        };
        Self {
            merge_slashes: options.merge_slashes,
            escaped_slash: escaped_slash.into(),
        }
    }
}

impl From<RetryBudget> for proto::RetryBudget {
    fn from(budget: RetryBudget) -> Self {
        Self {
            percent: budget.percent,
            floor: budget.floor,
        }
    }
}

impl From<RetryConstraint> for proto::RetryConstraint {
    fn from(constraint: RetryConstraint) -> Self {
        Self {
            percent: constraint.percent,
            interval: Some(constraint.interval.into()),
            min_count: constraint.min_rate.count.get(),
            min_interval: Some(constraint.min_rate.interval.into()),
        }
    }
}

impl From<Ejection> for proto::Ejection {
    fn from(ejection: Ejection) -> Self {
        Self {
            consecutive_failures: ejection.consecutive_failures.get(),
            base: Some(ejection.base.into()),
            max: Some(ejection.max.into()),
            max_percent: ejection.max_percent,
        }
    }
}

/// The number of requests of a connection without a limit. Not 0, for which earlier proxies refuse the
/// whole policy, with all that it protects.
pub(crate) const ANY_NUMBER: u64 = u64::MAX;

impl From<&SessionKeys> for proto::SessionKeys {
    fn from(keys: &SessionKeys) -> Self {
        let accepted = keys.accepted().iter().map(SessionKey::secret);
        Self {
            accepted: accepted.map(<[u8]>::to_vec).collect(),
            // There are at most 8.
            signing: u32::try_from(keys.signing()).unwrap_or(u32::MAX),
        }
    }
}
