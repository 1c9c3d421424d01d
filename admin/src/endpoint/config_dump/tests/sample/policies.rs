//! Policies.

use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};

use http::{HeaderName, HeaderValue};
use xds::model::{
    AccessLog, AccessLogFilter, AnswerContent, AnswerStatus, ApiKey, ApiKeyPolicy, ApiKeys,
    AuthorizationPolicy, AuthorizationRule, Balance, BasicAuthPolicy, BcryptCost, Body,
    BoundedLoad, ClaimHeader, Content, Ejection, ErrorPage, ErrorSource, EscapedSlash, HashBalance,
    HashKey, HashTableSize, HealthCheck, HealthPath, HealthProbe, Hostname, InitialHealth,
    JwksLocation, JwtExpiry, JwtForward, JwtKeys, JwtMode, JwtPolicy, JwtProvider, JwtSource,
    KeyDigest, Limits, Locality, LocalityMode, LogFormat, NetworkList, NetworkPolicy, ObjectName,
    PageContent, PasswordHash, PasswordUser, PasswordUsers, PathOptions, PathRewrite,
    PathRewriteRule, Policy, PolicyKey, PolicySpec, PolicyTarget, Precedence, ProbePath,
    ProxyProtocolIn, ProxyProtocolMode, Rate, RateLimitHeaders, RateLimitKey, RateLimitPolicy,
    RateLimitRule, RateLimitStatus, RatePeriod, Resource, RespondPolicy, RetryBudget,
    RetryConstraint, RetryRate, SessionKey, SessionKeys, SlowStart, Spill, StatusRange,
    Substitution, Timeout, Trust,
};

use super::{
    all, backend_key, certificate, count, gateway, header, ip, listener_key, seconds, service_key,
    to_service,
};

pub(super) fn policies() -> Vec<Resource> {
    let route = ObjectName::new("shop", "cart");
    let kind = || "HTTPRoute".to_owned();
    let rule = PolicyTarget::Rule {
        kind: kind(),
        object: route.clone(),
        rule: "forwarding".to_owned(),
    };
    let route = PolicyTarget::Route {
        kind: kind(),
        object: route,
    };
    let set = PolicyTarget::ListenerSet(ObjectName::new("shop", "own"));
    all([
        policy("a-gateway", PolicyTarget::Gateway(gateway()), every_field()),
        policy("b-set", set, other_values()),
        policy(
            "c-listener",
            PolicyTarget::Listener(listener_key("http")),
            invalid(),
        ),
        policy("d-route", route, of_limits(timeouts(Timeout::Never))),
        policy("e-rule", rule, of_limits(timeouts(Timeout::Default))),
        policy("f-service", PolicyTarget::Service(service_key()), nothing()),
        policy("g-backend", PolicyTarget::Backend(backend_key()), nothing()),
    ])
}

fn policy(name: &str, target: PolicyTarget, spec: PolicySpec) -> Policy {
    Policy {
        key: PolicyKey::new("TrafficPolicy", &ObjectName::new("shop", name), "target"),
        target,
        spec,
    }
}

fn every_field() -> PolicySpec {
    PolicySpec {
        access_log: Some(AccessLog {
            off: true,
            format: LogFormat::Json,
            sample_per_million: 250_000,
            filter: AccessLogFilter {
                status_at_least: Some(500),
                duration_at_least: Some(seconds(1)),
            },
        }),
        limits: limits(Timeout::After(seconds(75))),
        trust: Some(Trust::Hops(count(2))),
        proxy_protocol: Some(ProxyProtocolIn {
            mode: ProxyProtocolMode::Required,
            trusted_sources: vec![(ip("10.0.0.0"), 8), (ip("fd00::"), 64)],
        }),
        path_options: Some(PathOptions {
            merge_slashes: true,
            escaped_slash: EscapedSlash::Reject,
        }),
        health_path: Some(HealthPath::parse("/healthz").expect("a path")),
        retry_budget: Some(RetryBudget {
            percent: 20,
            floor: 3,
        }),
        retry_constraint: Some(RetryConstraint {
            percent: 30,
            interval: seconds(10),
            min_rate: RetryRate {
                count: count(4),
                interval: seconds(60),
            },
        }),
        ejection: Some(ejection()),
        health_check: Some(health_check()),
        balance: balance(),
        jwt: Some(JwtPolicy {
            mode: JwtMode::Optional,
            realm: Some("shop".to_owned()),
            providers: providers(),
        }),
        basic_auth: Some(basic_auth()),
        api_keys: Some(api_keys()),
        require_all: true,
        authorization: Some(authorization()),
        networks: Some(networks()),
        rate_limit: Some(rate_limit()),
        respond: Some(respond()),
        error_pages: Some(vec![error_page(), served_error_page()]),
        path_rewrite: Some(path_rewrite()),
        client_certificate: Some(certificate()),
        session_keys: Some(session_keys()),
        precedence: Precedence::Defaults,
        is_invalid: false,
        closes_connections: false,
        hidden: sources(),
    }
}

fn balance() -> Balance {
    Balance {
        hash: Some(every_key()),
        slow_start: Some(SlowStart::new(seconds(90), 5, 150).expect("in range")),
        locality: Some(Locality {
            mode: LocalityMode::PreferNode,
            spill: Spill::Never,
        }),
    }
}

fn ejection() -> Ejection {
    Ejection {
        consecutive_failures: count(5),
        base: seconds(30),
        max: seconds(300),
        max_percent: 50,
    }
}

fn health_check() -> HealthCheck {
    let range = |first, last| StatusRange::of_answers(first, last).expect("statuses");
    HealthCheck {
        probe: HealthProbe::Http {
            path: ProbePath::parse("/ready?full=1").expect("a path"),
            host: Some(Hostname::parse_exact("shop.example").expect("a name")),
            expect: vec![range(200, 299), range(404, 404)],
        },
        port: NonZeroU16::new(9_000),
        interval: seconds(10),
        timeout: seconds(2),
        unhealthy_after: count(3),
        healthy_after: count(2),
        initial: InitialHealth::Unhealthy,
        panic_percent: 30,
    }
}

fn networks() -> NetworkPolicy {
    NetworkPolicy::Lists {
        deny: NetworkList::new([(ip("10.1.0.0"), 16), (ip("fd00:1::"), 32)]),
        allow: Some(NetworkList::new([(ip("10.0.0.0"), 8)])),
    }
}

fn basic_auth() -> BasicAuthPolicy {
    let user = |name: &str, hash: PasswordHash| PasswordUser {
        name: name.into(),
        hashes: [hash].into(),
    };
    let bcrypt = PasswordHash::Bcrypt {
        cost: BcryptCost::new(10).expect("in range"),
        salt: [104; 16],
        digest: [117; 23],
    };
    BasicAuthPolicy {
        mode: JwtMode::Optional,
        realm: Some("the shop".to_owned()),
        user_header: Some(HeaderName::from_static("x-user")),
        users: PasswordUsers {
            accepted: [
                user("alice", bcrypt),
                user("bob", PasswordHash::Sha1([115; 20])),
            ]
            .into(),
            is_incomplete: true,
        },
    }
}

fn api_keys() -> ApiKeyPolicy {
    let key = |client: &str, key: &str| ApiKey {
        digest: KeyDigest::of(key.as_bytes()),
        client: client.into(),
    };
    ApiKeyPolicy {
        from: vec![
            header_source("x-api-key"),
            JwtSource::Query("key".to_owned()),
        ],
        client_header: Some(HeaderName::from_static("x-client")),
        forward: JwtForward::Strip,
        keys: ApiKeys {
            accepted: [key("acme", "hush-1"), key("globex", "hush-2")].into(),
            is_incomplete: true,
        },
    }
}

fn header_source(name: &'static str) -> JwtSource {
    JwtSource::Header {
        name: HeaderName::from_static(name),
        prefix: String::new(),
    }
}

fn session_keys() -> SessionKeys {
    let key = |byte| SessionKey::new(&[byte; 32]).expect("a key");
    SessionKeys::new(vec![key(b'n'), key(b'o')], 1).expect("two keys")
}

fn error_page() -> ErrorPage {
    let range = |first, last| StatusRange::new(first, last).expect("statuses");
    ErrorPage {
        statuses: vec![range(404, 404), range(502, 504)],
        source: ErrorSource::Any,
        content: PageContent::Bodies(vec![Content {
            media_type: HeaderValue::from_static("application/json"),
            body: Body::new(b"{}"),
        }]),
    }
}

fn served_error_page() -> ErrorPage {
    ErrorPage {
        source: ErrorSource::Gateway,
        content: PageContent::Server(to_service()),
        ..error_page()
    }
}

fn respond() -> RespondPolicy {
    RespondPolicy {
        status: AnswerStatus::UNAVAILABLE,
        content: AnswerContent::Given(Content {
            media_type: HeaderValue::from_static("text/html"),
            body: Body::new(b"<h1>Back soon</h1>"),
        }),
        headers: vec![(
            HeaderName::from_static("set-cookie"),
            HeaderValue::from_static("secret=1"),
        )],
        retry_after: NonZeroU32::new(300),
        except: Some("cidr('10.0.0.0/8').contains(client.address)".to_owned()),
    }
}

fn every_key() -> HashBalance {
    let by = vec![
        HashKey::Header(HeaderName::from_static("mcp-session-id")),
        HashKey::Cookie("session".to_owned()),
        HashKey::Query("room".to_owned()),
        HashKey::client_address(),
    ];
    let bound = BoundedLoad::new(150).expect("in range");
    HashBalance::new(by, HashTableSize::default(), Some(bound)).expect("four keys")
}

fn other_values() -> PolicySpec {
    PolicySpec {
        access_log: Some(AccessLog {
            off: false,
            format: LogFormat::Text,
            sample_per_million: 1_000_000,
            filter: AccessLogFilter {
                status_at_least: None,
                duration_at_least: None,
            },
        }),
        limits: Limits::default(),
        trust: Some(Trust::Sources(vec![
            (ip("10.0.0.0"), 8),
            (ip("fd00::"), 64),
        ])),
        proxy_protocol: Some(ProxyProtocolIn {
            mode: ProxyProtocolMode::Optional,
            trusted_sources: Vec::new(),
        }),
        path_options: Some(PathOptions {
            merge_slashes: false,
            escaped_slash: EscapedSlash::Keep,
        }),
        jwt: Some(JwtPolicy {
            mode: JwtMode::Strict,
            realm: None,
            providers: Vec::new(),
        }),
        authorization: Some(AuthorizationPolicy {
            deny: Vec::new(),
            allow: Vec::new(),
        }),
        networks: Some(NetworkPolicy::ListMissing),
        rate_limit: Some(RateLimitPolicy {
            rules: vec![rate_limit_rule("blocked", None)],
            status: RateLimitStatus::TooManyRequests,
            headers: RateLimitHeaders::Off,
        }),
        path_rewrite: Some(PathRewrite::Invalid),
        ..nothing()
    }
}

fn invalid() -> PolicySpec {
    PolicySpec {
        proxy_protocol: Some(ProxyProtocolIn {
            mode: ProxyProtocolMode::Off,
            trusted_sources: Vec::new(),
        }),
        precedence: Precedence::Overrides,
        is_invalid: true,
        closes_connections: true,
        hidden: sources(),
        ..nothing()
    }
}

fn of_limits(limits: Limits) -> PolicySpec {
    PolicySpec {
        limits,
        ..nothing()
    }
}

fn nothing() -> PolicySpec {
    PolicySpec::default()
}

fn limits(time: Timeout) -> Limits {
    Limits {
        request_line_bytes: Some(count(101)),
        head_bytes: Some(count(102)),
        header_fields: Some(count(103)),
        response_head_bytes: Some(count(104)),
        response_header_fields: Some(count(105)),
        request_body_bytes: NonZeroU64::new(106),
        head_timeout: Some(time),
        body_idle_timeout: Some(time),
        body_min_rate: Some(0),
        stream_idle_timeout: Some(time),
        write_idle_timeout: Some(time),
        keep_alive_timeout: Some(time),
        half_close_timeout: Some(time),
        requests_per_connection: Some(0),
        connection_age: Some(time),
        connect_timeout: Some(time),
        response_head_timeout: Some(time),
        handshake_timeout: Some(time),
        datagram_idle_timeout: Some(time),
        http2_streams: Some(count(107)),
        http2_stream_window_bytes: Some(count(108)),
        http2_connection_window_bytes: Some(count(109)),
        upstream_connections: Some(count(110)),
        upstream_pending: Some(count(111)),
        client_connections: Some(count(112)),
        endpoint_connections: Some(count(113)),
        endpoint_pending: Some(count(114)),
    }
}

/// Two timeouts and nothing else.
fn timeouts(time: Timeout) -> Limits {
    Limits {
        head_timeout: Some(time),
        connect_timeout: Some(time),
        ..Limits::default()
    }
}

fn sources() -> Vec<JwtSource> {
    vec![
        JwtSource::Header {
            name: header("x-token"),
            prefix: "Token ".to_owned(),
        },
        JwtSource::Query("token".to_owned()),
        JwtSource::Cookie("session".to_owned()),
    ]
}

fn providers() -> Vec<JwtProvider> {
    let jwks =
        r#"{"keys": [{"kty": "oct", "kid": "a", "k": "hush-6"}, {"kty": "oct", "k": "hush-7"}]}"#;
    let full = JwtProvider {
        name: "inline".to_owned(),
        issuer: "https://issuer.example".to_owned(),
        audiences: vec!["shop".to_owned(), "cart".to_owned()],
        keys: JwtKeys::Inline(jwks.to_owned()),
        from: sources(),
        forward: JwtForward::Keep,
        claims_to_headers: vec![ClaimHeader {
            claim: "user.name".to_owned(),
            header: header("x-user"),
        }],
        clock_skew: Some(seconds(30)),
        expiry: JwtExpiry::Optional,
    };
    let remote = |name: &str, location, cache| JwtProvider {
        name: name.to_owned(),
        issuer: "https://issuer.example".to_owned(),
        audiences: Vec::new(),
        keys: JwtKeys::Remote { location, cache },
        from: Vec::new(),
        forward: JwtForward::Strip,
        claims_to_headers: Vec::new(),
        clock_skew: None,
        expiry: JwtExpiry::Required,
    };
    let backend = JwksLocation::Backend {
        target: to_service(),
        path: "/keys?token=hush-8".to_owned(),
    };
    let url = JwksLocation::Url("https://user:hush-9@keys.example/keys?key=hush-10".to_owned());
    vec![
        full,
        remote("backend", backend, Some(seconds(300))),
        remote("url", url.clone(), Some(seconds(60))),
        remote("default", url, None),
    ]
}

fn authorization() -> AuthorizationPolicy {
    let rule = |name: &str, when: &str| AuthorizationRule {
        name: name.to_owned(),
        when: when.to_owned(),
    };
    AuthorizationPolicy {
        deny: vec![rule("no-bots", "request.headers['user-agent'] == 'bot'")],
        allow: vec![rule("", "jwt.claims.admin == true")],
    }
}

fn path_rewrite() -> PathRewrite {
    let substitution = Substitution::parse(r"/\2?brand=\1").expect("a substitution");
    let rule = PathRewriteRule::parse(r"^/(\w+)/(.*)$", substitution);
    PathRewrite::Rule(rule.expect("an expression"))
}

fn rate_limit() -> RateLimitPolicy {
    let rate = Rate::new(count(10), RatePeriod::Minute, count(20)).expect("a short burst");
    let each = RateLimitRule {
        when: Some("request.method != 'GET'".to_owned()),
        key: vec![
            RateLimitKey::ClientAddress {
                ipv4_prefix: 32,
                ipv6_prefix: 64,
            },
            RateLimitKey::Header(header("x-tenant")),
            RateLimitKey::Claim("sub".to_owned()),
            RateLimitKey::Cookie("sid".to_owned()),
        ],
        dry_run: true,
        ..rate_limit_rule("each", Some(rate))
    };
    let target = RateLimitRule {
        key: vec![RateLimitKey::Host, RateLimitKey::Path],
        ..rate_limit_rule("target", Some(rate))
    };
    RateLimitPolicy {
        rules: vec![each, target],
        status: RateLimitStatus::Unavailable,
        headers: RateLimitHeaders::Draft,
    }
}

fn rate_limit_rule(name: &str, rate: Option<Rate>) -> RateLimitRule {
    RateLimitRule {
        name: name.to_owned(),
        when: None,
        key: Vec::new(),
        rate,
        dry_run: false,
        max_keys: 4096,
    }
}
