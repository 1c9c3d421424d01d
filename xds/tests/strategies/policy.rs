//! Policies and their targets.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use proptest::prelude::*;
use proptest::{collection::vec, option};
use xds::model::{
    AccessLog, AccessLogFilter, ApiKeyPolicy, AuthorizationPolicy, BasicAuthPolicy, Ejection,
    EscapedSlash, HealthPath, JwtPolicy, Limits, LogFormat, NetworkList, NetworkPolicy,
    PathOptions, PathRewrite, Policy, PolicyKey, PolicySpec, PolicyTarget, Precedence,
    ProxyProtocolIn, ProxyProtocolMode, RateLimitPolicy, RespondPolicy, RetryBudget,
    RetryConstraint, RetryRate, Timeout, Trust,
};

use super::answer::{error_page, respond};
use super::api_keys::api_keys;
use super::authorization::authorization;
use super::balance::balance;
use super::basic_auth::basic_auth;
use super::health_check::health_check;
use super::jwt::{jwt_policy, source};
use super::path_rewrite::path_rewrite;
use super::rate_limit::rate_limit;
use super::session_keys::session_keys;
use super::tls::certificate;
use super::value::{
    backend_key, duration, listener_key, name, network, object_name, service_key, timeout,
};

prop_compose! {
    pub(super) fn policy()(
        object in object_name(),
        target in target(),
        spec in spec().boxed(),
    ) -> Policy {
        Policy { key: PolicyKey::new("TrafficPolicy", &object, "Gateway/a/b"), target, spec }
    }
}

fn target() -> impl Strategy<Value = PolicyTarget> {
    let kind = || Just("HTTPRoute".to_owned());
    prop_oneof![
        object_name().prop_map(PolicyTarget::Gateway),
        object_name().prop_map(PolicyTarget::ListenerSet),
        listener_key().prop_map(PolicyTarget::Listener),
        (kind(), object_name()).prop_map(|(kind, object)| PolicyTarget::Route { kind, object }),
        (kind(), object_name(), name()).prop_map(|(kind, object, rule)| PolicyTarget::Rule {
            kind,
            object,
            rule
        }),
        service_key().prop_map(PolicyTarget::Service),
        backend_key().prop_map(PolicyTarget::Backend),
    ]
}

prop_compose! {
    fn spec()(
        access_log in option::of(access_log()),
        limits in limits(),
        trust in option::of(prop_oneof![
            any::<NonZeroU32>().prop_map(Trust::Hops),
            vec(network(), 0..3).prop_map(Trust::Sources),
        ]),
        proxy_protocol in option::of(proxy_protocol()),
        path_options in option::of(path_options()),
        health_path in option::of("(/[a-z0-9]{1,8}){1,3}/?"),
        retry_budget in option::of(
            (any::<u32>(), any::<u32>())
                .prop_map(|(percent, floor)| RetryBudget { percent, floor }),
        ),
        retry_constraint in option::of(retry_constraint()),
        (ejection, health_check, balance) in
            (option::of(ejection()), option::of(health_check()).boxed(), balance().boxed()),
        ((jwt, (basic_auth, api_keys), authorization, networks, rate_limit, respond, path_rewrite), is_invalid) in restrictions(),
        ((closes_connections, overrides, require_all), error_pages) in
            (any::<(bool, bool, bool)>(), option::of(vec(error_page(), 1..3)).boxed()),
        hidden in vec(source(), 0..3),
        (client_certificate, session_keys) in (option::of(certificate()), option::of(session_keys())),
    ) -> PolicySpec {
        PolicySpec {
            access_log,
            limits,
            trust,
            proxy_protocol,
            path_options,
            health_path: health_path.map(|path| HealthPath::parse(&path).expect("a path")),
            retry_budget,
            retry_constraint,
            ejection,
            health_check,
            balance,
            jwt,
            basic_auth,
            api_keys,
            require_all,
            authorization,
            networks,
            rate_limit,
            respond,
            error_pages,
            path_rewrite,
            client_certificate,
            session_keys,
            precedence: if overrides { Precedence::Overrides } else { Precedence::Defaults },
            is_invalid,
            closes_connections,
            hidden,
        }
    }
}

type Restrictions = (
    Option<JwtPolicy>,
    (Option<BasicAuthPolicy>, Option<ApiKeyPolicy>),
    Option<AuthorizationPolicy>,
    Option<NetworkPolicy>,
    Option<RateLimitPolicy>,
    Option<RespondPolicy>,
    Option<PathRewrite>,
);

/// An invalid policy has no restrictions. Boxed: unoptimised, the values of all strategies together do not fit
/// into the stack of a test.
fn restrictions() -> impl Strategy<Value = (Restrictions, bool)> {
    let all = (
        option::of(jwt_policy()).boxed(),
        (option::of(basic_auth()), option::of(api_keys())).boxed(),
        option::of(authorization()).boxed(),
        option::of(network_policy()).boxed(),
        option::of(rate_limit()).boxed(),
        option::of(respond()).boxed(),
        option::of(path_rewrite()).boxed(),
    );
    prop_oneof![
        all.prop_map(|all| (all, false)),
        Just(((None, (None, None), None, None, None, None, None), true)),
    ]
}

fn network_policy() -> impl Strategy<Value = NetworkPolicy> {
    let list = || vec(network(), 0..4).prop_map(NetworkList::new);
    prop_oneof![
        (list(), option::of(list())).prop_map(|(deny, allow)| NetworkPolicy::Lists { deny, allow }),
        Just(NetworkPolicy::ListMissing),
    ]
}

prop_compose! {
    fn access_log()(
        off in any::<bool>(),
        format in prop_oneof![Just(LogFormat::Text), Just(LogFormat::Json)],
        sample_per_million in 0..=1_000_000_u32,
        status_at_least in option::of(100..=999_u16),
        duration_at_least in option::of(duration()),
    ) -> AccessLog {
        let filter = AccessLogFilter { status_at_least, duration_at_least };
        AccessLog { off, format, sample_per_million, filter }
    }
}

fn count() -> impl Strategy<Value = Option<NonZeroU32>> {
    option::of(any::<NonZeroU32>())
}

fn time() -> impl Strategy<Value = Option<Timeout>> {
    option::of(timeout())
}

/// Each field from its place in a list: proptest's tuples end at twelve.
fn limits() -> impl Strategy<Value = Limits> {
    let counts = prop::array::uniform13(count());
    let times = prop::array::uniform11(time());
    let (body, requests) = (option::of(any::<NonZeroU64>()), option::of(0..u64::MAX));
    let rate = option::of(any::<u32>());
    let drawn = (counts, body, requests, times, rate);
    drawn.prop_map(|(counts, body, requests, times, rate)| Limits {
        request_line_bytes: counts[0],
        head_bytes: counts[1],
        header_fields: counts[2],
        upstream_connections: counts[3],
        upstream_pending: counts[4],
        http2_streams: counts[5],
        http2_stream_window_bytes: counts[6],
        http2_connection_window_bytes: counts[7],
        response_head_bytes: counts[8],
        response_header_fields: counts[9],
        client_connections: counts[10],
        endpoint_connections: counts[11],
        endpoint_pending: counts[12],
        request_body_bytes: body,
        requests_per_connection: requests,
        head_timeout: times[0],
        body_idle_timeout: times[1],
        stream_idle_timeout: times[2],
        write_idle_timeout: times[3],
        keep_alive_timeout: times[4],
        connection_age: times[5],
        connect_timeout: times[6],
        response_head_timeout: times[7],
        handshake_timeout: times[8],
        datagram_idle_timeout: times[9],
        half_close_timeout: times[10],
        body_min_rate: rate,
    })
}

prop_compose! {
    fn proxy_protocol()(
        mode in prop_oneof![
            Just(ProxyProtocolMode::Off),
            Just(ProxyProtocolMode::Optional),
            Just(ProxyProtocolMode::Required),
        ],
        trusted_sources in vec(network(), 0..3),
    ) -> ProxyProtocolIn {
        ProxyProtocolIn { mode, trusted_sources }
    }
}

prop_compose! {
    fn path_options()(
        merge_slashes in any::<bool>(),
        escaped_slash in prop_oneof![Just(EscapedSlash::Keep), Just(EscapedSlash::Reject)],
    ) -> PathOptions {
        PathOptions { merge_slashes, escaped_slash }
    }
}

prop_compose! {
    fn retry_constraint()(
        percent in 0..=100_u32,
        interval in positive_duration(),
        count in any::<NonZeroU32>(),
        min_interval in positive_duration(),
    ) -> RetryConstraint {
        let min_rate = RetryRate { count, interval: min_interval };
        RetryConstraint { percent, interval, min_rate }
    }
}

fn positive_duration() -> impl Strategy<Value = Duration> {
    duration().prop_filter("zero", |duration| !duration.is_zero())
}

prop_compose! {
    fn ejection()(
        consecutive_failures in any::<NonZeroU32>(),
        base in duration(),
        max in duration(),
        max_percent in 0..=100_u32,
    ) -> Ejection {
        Ejection { consecutive_failures, base, max, max_percent }
    }
}
