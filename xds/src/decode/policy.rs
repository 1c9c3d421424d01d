//! Policies and their targets.

use std::mem;
use std::num::NonZeroU64;

use prost::Message as _;

use super::answer::{error_pages, respond_policy};
use super::api_keys::api_keys;
use super::authorization::authorization;
use super::balance::balance;
use super::basic_auth::basic_auth;
use super::field_path::{FieldPath, Findings};
use super::health_check::health_check;
use super::jwt::{jwt_policy, source};
use super::networks::network_policy;
use super::path_rewrite::path_rewrite;
use super::rate_limit::rate_limit;
use super::session_keys::session_keys;
use super::tls::certificate;
use super::value::{
    at_most, choice, duration, features, network, non_zero, object_name, positive_duration,
    set_text, status, timeout,
};
use crate::encode::ANY_NUMBER;
use crate::limits_table;
use crate::model::limits::{self, LimitKind};
use crate::model::{
    AccessLog, AccessLogFilter, BackendKey, Ejection, EscapedSlash, Feature, HealthPath, Limits,
    ListenerKey, LogFormat, PathOptions, Policy, PolicyKey, PolicySpec, PolicyTarget, Precedence,
    ProxyProtocolIn, ProxyProtocolMode, Restrictions, RetryBudget, RetryConstraint, RetryRate,
    ServiceKey, Trust,
};
use crate::proto::{self, policy_target, trust};

pub(super) fn policy(at: &FieldPath<'_>, message: proto::Policy) -> Option<Policy> {
    let mut message = without_substitutes(message);
    let key = at.parsed("key", &message.key, PolicyKey::parse);
    let target = at.required("target", message.target.take(), target);
    let has_features = features(at, mem::take(&mut message.features));
    let spec = spec(at, message);
    has_features?;
    Some(Policy {
        key: key?,
        target: target?,
        spec: spec?,
    })
}

fn spec(at: &FieldPath<'_>, message: proto::Policy) -> Option<PolicySpec> {
    let access_log = at.optional("access_log", message.access_log, access_log);
    let limits = at.optional("limits", message.limits, limits);
    let trust = at.optional("trust", message.trust, trust);
    let proxy_protocol = at.optional("proxy_protocol", message.proxy_protocol, proxy_protocol);
    let path_options = at.optional("path_options", message.path_options, path_options);
    let health_path = Some(message.health_path).filter(|path| !path.is_empty());
    let health_path = at.optional("health_path", health_path, path_of_health);
    let constraint = at.optional(
        "retry_constraint",
        message.retry_constraint,
        retry_constraint,
    );
    let ejection = at.optional("ejection", message.ejection, ejection);
    let health_check = at.dispensable("health_check", message.health_check, health_check);
    let balance = at.optional("balance", message.balance, balance);
    let jwt = at.optional("jwt", message.jwt, jwt_policy);
    let basic_auth = at.optional("basic_auth", message.basic_auth, basic_auth);
    let api_keys = at.optional("api_keys", message.api_keys, api_keys);
    let authorization = at.optional("authorization", message.authorization, authorization);
    let networks = at.optional("networks", message.networks, network_policy);
    let rate_limit = at.optional("rate_limit", message.rate_limit, rate_limit);
    let respond = at.optional("respond", message.respond, respond_policy);
    let error_pages = at.optional("error_pages", message.error_pages, error_pages);
    let path_rewrite = at.optional("path_rewrite", message.path_rewrite, path_rewrite);
    let hidden = at.list("hidden", message.hidden, source);
    let client_certificate = at.optional(
        "client_certificate",
        message.client_certificate,
        certificate,
    );
    let session_keys = at.optional("session_keys", message.session_keys, session_keys);
    Some(PolicySpec {
        access_log: access_log?,
        limits: limits?.unwrap_or_default(),
        trust: trust?,
        proxy_protocol: proxy_protocol?,
        path_options: path_options?,
        health_path: health_path?,
        retry_budget: message.retry_budget.map(retry_budget),
        retry_constraint: constraint?,
        ejection: ejection?,
        health_check,
        balance: balance?.unwrap_or_default(),
        jwt: jwt?,
        basic_auth: basic_auth?,
        api_keys: api_keys?,
        require_all: message.require_all,
        authorization: authorization?,
        networks: networks?,
        rate_limit: rate_limit?,
        respond: respond?,
        error_pages: error_pages?,
        path_rewrite: path_rewrite?,
        client_certificate: client_certificate?,
        session_keys: session_keys?,
        precedence: precedence(message.overrides),
        is_invalid: message.invalid,
        closes_connections: message.invalid_for_connections,
        hidden: hidden?,
    })
}

fn path_of_health(at: &FieldPath<'_>, path: String) -> Option<HealthPath> {
    at.accept(HealthPath::parse(&path))
}

fn retry_budget(message: proto::RetryBudget) -> RetryBudget {
    RetryBudget {
        percent: message.percent,
        floor: message.floor,
    }
}

/// The message without what is in it for proxies that do not know `invalid`, `networks`, `rate_limit` or
/// `overrides`.
fn without_substitutes(mut message: proto::Policy) -> proto::Policy {
    if message.overrides {
        message.invalid = message.invalid_override;
    }
    if message.invalid {
        return proto::Policy {
            jwt: None,
            basic_auth: None,
            api_keys: None,
            authorization: None,
            networks: None,
            rate_limit: None,
            respond: None,
            path_rewrite: None,
            ..message
        };
    }
    let authorization = match (&message.rate_limit, &message.networks) {
        (Some(_), _) => message.authorization_with_rate_limit,
        (None, Some(_)) => message.authorization_with_networks,
        (None, None) => message.authorization,
    };
    proto::Policy {
        authorization,
        authorization_with_networks: None,
        authorization_with_rate_limit: None,
        ..message
    }
}

fn precedence(overrides: bool) -> Precedence {
    if overrides {
        Precedence::Overrides
    } else {
        Precedence::Defaults
    }
}

/// The policy that refuses every request of a target, in the place of one that cannot be decoded. `None` if
/// that one does not restrict access, or its target is not known.
pub(super) fn refusing(key: &str, bytes: &[u8]) -> Option<Policy> {
    let mut message = proto::Policy::default();
    let is_read = message.merge(bytes).is_ok();
    // What this version does not know may restrict access in a new way.
    let mut needed = message.features.iter();
    let is_known = is_read
        && message.encoded_len() >= bytes.len()
        && needed.all(|name| Feature::of_name(name).is_some());
    let is_restricting = message.invalid
        || !message.features.is_empty()
        || message.jwt.is_some()
        || message.basic_auth.is_some()
        || message.api_keys.is_some()
        || message.authorization.is_some()
        || message.networks.is_some()
        || message.rate_limit.is_some()
        || message.respond.is_some()
        || message.path_rewrite.is_some();
    if is_known && !is_restricting {
        return None;
    }
    let problems = Findings::new();
    let at = FieldPath::root(&problems);
    let providers = message.jwt.into_iter().flat_map(|jwt| jwt.providers);
    let read = providers.flat_map(|provider| provider.from);
    let keys = message.api_keys.into_iter().flat_map(|keys| keys.from);
    let hidden = read.chain(keys).chain(message.hidden);
    Some(Policy {
        key: PolicyKey::parse(key).ok()?,
        target: target(&at, message.target?)?,
        spec: PolicySpec {
            is_invalid: true,
            precedence: precedence(message.overrides),
            closes_connections: !is_known
                || message.networks.is_some()
                || message.invalid_for_connections,
            hidden: hidden.filter_map(|it| source(&at, it)).collect(),
            ..PolicySpec::default()
        }
        .refusing_all(),
    })
}

/// The ways in which a policy that cannot be decoded would restrict access. What this version does not know is none
/// of them.
pub(super) fn restrictions(bytes: &[u8]) -> Restrictions {
    let mut message = proto::Policy::default();
    // A part that can be read counts, as in what refuses requests in its place.
    let _ = message.merge(bytes);
    let message = without_substitutes(message);
    let bounds_limits = message.overrides && message.limits.is_some();
    Restrictions::in_use([
        (Restrictions::JWT, message.jwt.is_some()),
        (Restrictions::BASIC_AUTH, message.basic_auth.is_some()),
        (Restrictions::API_KEYS, message.api_keys.is_some()),
        (Restrictions::AUTHORIZATION, message.authorization.is_some()),
        (
            Restrictions::NETWORKS,
            message.networks.is_some() || message.invalid_for_connections,
        ),
        (Restrictions::RATE_LIMIT, message.rate_limit.is_some()),
        (Restrictions::RESPOND, message.respond.is_some()),
        (Restrictions::PATH_REWRITE, message.path_rewrite.is_some()),
        (Restrictions::BOUNDS, bounds_limits),
        (Restrictions::ALL_REQUESTS, message.invalid),
    ])
}

fn target(at: &FieldPath<'_>, message: proto::PolicyTarget) -> Option<PolicyTarget> {
    match message.kind {
        Some(policy_target::Kind::Gateway(name)) => {
            object_name(&at.field("gateway"), name).map(PolicyTarget::Gateway)
        }
        Some(policy_target::Kind::ListenerSet(name)) => {
            let name = object_name(&at.field("listener_set"), name);
            name.map(PolicyTarget::ListenerSet)
        }
        Some(policy_target::Kind::Listener(key)) => at
            .parsed("listener", &key, ListenerKey::parse)
            .map(PolicyTarget::Listener),
        Some(policy_target::Kind::Route(message)) => route_target(&at.field("route"), message),
        Some(policy_target::Kind::Service(key)) => at
            .parsed("service", &key, ServiceKey::parse)
            .map(PolicyTarget::Service),
        Some(policy_target::Kind::Backend(key)) => at
            .parsed("backend", &key, BackendKey::parse)
            .map(PolicyTarget::Backend),
        None => at.record_missing_choice(),
    }
}

fn route_target(at: &FieldPath<'_>, message: proto::RouteTarget) -> Option<PolicyTarget> {
    let kind = at.text("kind", message.kind);
    let object = at.required("object", message.object, object_name);
    let rule = at.optional("rule", message.rule, set_text);
    let (kind, object) = (kind?, object?);
    Some(match rule? {
        Some(rule) => PolicyTarget::Rule { kind, object, rule },
        None => PolicyTarget::Route { kind, object },
    })
}

fn access_log(at: &FieldPath<'_>, message: proto::AccessLog) -> Option<AccessLog> {
    let format = choice(&at.field("format"), message.format, |format| match format {
        proto::LogFormat::Unspecified => None,
        proto::LogFormat::Text => Some(LogFormat::Text),
        proto::LogFormat::Json => Some(LogFormat::Json),
    });
    let sample = &at.field("sample_per_million");
    let sample_per_million = at_most(sample, message.sample_per_million, 1_000_000);
    let status_at_least = at.optional("status_at_least", message.status_at_least, status);
    let duration_at_least = at.optional("duration_at_least", message.duration_at_least, duration);
    Some(AccessLog {
        off: message.off,
        format: format?,
        sample_per_million: sample_per_million?,
        filter: AccessLogFilter {
            status_at_least: status_at_least?.map(|status| status.as_u16()),
            duration_at_least: duration_at_least?,
        },
    })
}

macro_rules! decode {
    ($($(#[$doc:meta])* $field:ident $name:literal:
        $kind:ident, $scope:ident, $default:literal, $least:literal..=$most:literal;)*) => {
        fn limits(at: &FieldPath<'_>, message: proto::Limits) -> Option<Limits> {
            $(let read = <limits::$kind as DecodeLimit>::decode;
            let $field = at.optional(stringify!($field), message.$field, read);)*
            Some(Limits { $($field: $field?,)* })
        }
    };
}

limits_table!(decode);

/// Reads the value of a limit.
trait DecodeLimit: LimitKind {
    type Message;

    fn decode(at: &FieldPath<'_>, message: Self::Message) -> Option<Self::Given>;
}

macro_rules! as_value {
    ($($kind:ident $message:ty: $read:expr;)*) => {
        $(impl DecodeLimit for limits::$kind {
            type Message = $message;

            fn decode(at: &FieldPath<'_>, message: $message) -> Option<Self::Given> {
                $read(at, message)
            }
        })*
    };
}

as_value! {
    Size u32: non_zero;
    OptionalSize u32: non_zero;
    Share u32: non_zero;
    Amount u64: non_zero;
    Rate u32: |_, rate| Some(rate);
    Requests u64: requests_per_connection;
    Time proto::Timeout: timeout;
}

/// A number of requests; 0 for any.
fn requests_per_connection(at: &FieldPath<'_>, number: u64) -> Option<u64> {
    let number: NonZeroU64 = non_zero(at, number)?;
    Some(match number.get() {
        ANY_NUMBER => 0,
        number => number,
    })
}

fn trust(at: &FieldPath<'_>, message: proto::Trust) -> Option<Trust> {
    match message.kind {
        Some(trust::Kind::Hops(hops)) => non_zero(&at.field("hops"), hops).map(Trust::Hops),
        Some(trust::Kind::Sources(list)) => at
            .field("sources")
            .list("networks", list.networks, network)
            .map(Trust::Sources),
        None => at.record_missing_choice(),
    }
}

fn proxy_protocol(at: &FieldPath<'_>, message: proto::ProxyProtocolIn) -> Option<ProxyProtocolIn> {
    let mode = choice(&at.field("mode"), message.mode, |mode| match mode {
        proto::ProxyProtocolMode::Unspecified => None,
        proto::ProxyProtocolMode::Off => Some(ProxyProtocolMode::Off),
        proto::ProxyProtocolMode::Optional => Some(ProxyProtocolMode::Optional),
        proto::ProxyProtocolMode::Required => Some(ProxyProtocolMode::Required),
    });
    let trusted_sources = at.list("trusted_sources", message.trusted_sources, network);
    Some(ProxyProtocolIn {
        mode: mode?,
        trusted_sources: trusted_sources?,
    })
}

fn path_options(at: &FieldPath<'_>, message: proto::PathOptions) -> Option<PathOptions> {
    let slash = &at.field("escaped_slash");
    let escaped_slash = choice(slash, message.escaped_slash, |slash| match slash {
        proto::EscapedSlash::Unspecified => None,
        proto::EscapedSlash::Keep => Some(EscapedSlash::Keep),
        proto::EscapedSlash::Reject => Some(EscapedSlash::Reject),
    });
    Some(PathOptions {
        merge_slashes: message.merge_slashes,
        escaped_slash: escaped_slash?,
    })
}

fn retry_constraint(
    at: &FieldPath<'_>,
    message: proto::RetryConstraint,
) -> Option<RetryConstraint> {
    let percent = at_most(&at.field("percent"), message.percent, 100);
    let interval = at.required("interval", message.interval, positive_duration);
    let count = non_zero(&at.field("min_count"), message.min_count);
    let min_interval = at.required("min_interval", message.min_interval, positive_duration);
    Some(RetryConstraint {
        percent: percent?,
        interval: interval?,
        min_rate: RetryRate {
            count: count?,
            interval: min_interval?,
        },
    })
}

fn ejection(at: &FieldPath<'_>, message: proto::Ejection) -> Option<Ejection> {
    let failures = &at.field("consecutive_failures");
    let consecutive_failures = non_zero(failures, message.consecutive_failures);
    let base = at.required("base", message.base, duration);
    let max = at.required("max", message.max, duration);
    let max_percent = at_most(&at.field("max_percent"), message.max_percent, 100);
    Some(Ejection {
        consecutive_failures: consecutive_failures?,
        base: base?,
        max: max?,
        max_percent: max_percent?,
    })
}
