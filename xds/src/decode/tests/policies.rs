//! Policies: what is rejected, and what proxies of earlier releases make of them.

use std::num::NonZeroU64;

use prost::Message;

use super::{decoded, policy, problems, resource};
use crate::model::{AuthorizationPolicy, JwtMode, JwtSource, Kind, Policy, Resource};
use crate::proto;

/// Proxies of earlier versions know only `jwt` and `authorization`.
#[test]
fn an_invalid_policy_denies_at_proxies_that_do_not_know_it() {
    let decode = |message: &proto::Policy| {
        let decoded = resource(Kind::Policy, &message.encode_to_vec());
        match decoded.expect("it is valid") {
            Resource::Policy(policy) => Policy::clone(&policy),
            other => panic!("{other:?}"),
        }
    };
    let mut policy = decode(&policy());
    policy.spec.is_invalid = true;
    policy.spec.hidden = vec![JwtSource::Query("token".to_owned())];
    let message = proto::Policy::from(&policy);
    assert_eq!(decode(&message), policy);
    let to_them = decode(&proto::Policy {
        invalid: false,
        hidden: Vec::new(),
        ..message
    });
    let tokens = to_them.spec.jwt.expect("tokens are needed");
    assert_eq!((tokens.mode, tokens.providers.len()), (JwtMode::Strict, 0));
    let rules = to_them.spec.authorization;
    assert_eq!(rules, Some(AuthorizationPolicy::deny_all()));
}

/// Proxies of earlier versions refuse a whole policy, and what it protects, for a limit of 0.
#[test]
fn no_limit_of_requests_is_a_number_for_proxies_that_refuse_0() {
    let mut message = policy();
    message.limits = Some(proto::Limits {
        requests_per_connection: Some(u64::MAX),
        ..proto::Limits::default()
    });
    let decoded = resource(Kind::Policy, &message.encode_to_vec()).expect("it is valid");
    let Resource::Policy(decoded) = decoded else {
        panic!("{decoded:?}");
    };
    assert_eq!(decoded.spec.limits.requests_per_connection, Some(0));
    let limits = proto::Policy::from(&*decoded).limits.expect("it has one");
    let number = limits.requests_per_connection.expect("it is set");
    // Their rule.
    NonZeroU64::try_from(number).expect("not 0");
    assert_eq!(limits, message.limits.expect("set above"));
}

#[test]
fn invalid_jwt_policies_are_rejected() {
    let provider = proto::JwtProvider {
        audiences: vec![String::new()],
        keys: Some(proto::jwt_provider::Keys::Remote(proto::RemoteJwks {
            location: Some(proto::remote_jwks::Location::Backend(proto::BackendJwks {
                target: None,
                path: "certs".to_owned(),
            })),
            cache: None,
        })),
        from: vec![proto::JwtSource { kind: None }],
        claims_to_headers: vec![proto::ClaimHeader {
            claim: "sub".to_owned(),
            header: "a b".to_owned(),
        }],
        ..Default::default()
    };
    let message = proto::Policy {
        jwt: Some(proto::JwtPolicy {
            mode: 0,
            realm: Some(String::new()),
            providers: vec![provider, proto::JwtProvider::default()],
        }),
        client_certificate: Some(proto::Certificate::default()),
        session_keys: Some(proto::SessionKeys {
            accepted: vec![b"a short secret".to_vec()],
            signing: 0,
        }),
        ..policy()
    };
    assert_eq!(
        problems(Kind::Policy, &message),
        [
            "jwt.mode: is missing",
            "jwt.realm: is empty: set it, or leave it out",
            "jwt.providers[0].name: is missing",
            "jwt.providers[0].issuer: is missing",
            "jwt.providers[0].audiences[0]: is empty: set it, or leave it out",
            "jwt.providers[0].remote.backend.target: is missing",
            "jwt.providers[0].remote.backend.path: does not start with `/`",
            "jwt.providers[0].from[0]: is missing, or of a kind unknown to this version",
            "jwt.providers[0].claims_to_headers[0].header: `a b` is not a header name",
            "jwt.providers[1].name: is missing",
            "jwt.providers[1].issuer: is missing",
            "jwt.providers[1].keys: is missing, or of a kind unknown to this version",
            "client_certificate.chain: is empty: at least one is needed",
            "client_certificate.key: is missing",
            "session_keys.accepted[0]: a session key has 32 to 4096 bytes, and this one has 14: create one \
             with `openssl rand -base64 32`",
        ]
    );
}

#[test]
fn invalid_policies_are_rejected() {
    let networks = vec![proto::Network {
        address: vec![10, 0, 0, 0],
        prefix_length: 33,
    }];
    let message = proto::Policy {
        access_log: Some(proto::AccessLog {
            sample_per_million: 1_000_001,
            status_at_least: Some(1000),
            ..Default::default()
        }),
        limits: Some(proto::Limits {
            head_bytes: Some(0),
            requests_per_connection: Some(0),
            connection_age: Some(proto::Timeout::default()),
            ..Default::default()
        }),
        trust: Some(proto::Trust {
            kind: Some(proto::trust::Kind::Sources(proto::Networks { networks })),
        }),
        proxy_protocol: Some(proto::ProxyProtocolIn::default()),
        path_options: Some(proto::PathOptions {
            merge_slashes: true,
            escaped_slash: -1,
        }),
        ejection: Some(proto::Ejection {
            max_percent: 101,
            base: Some(proto::Duration::default()),
            ..Default::default()
        }),
        ..policy()
    };
    assert_eq!(
        problems(Kind::Policy, &message),
        [
            "access_log.format: is missing",
            "access_log.sample_per_million: 1000001 is too large: use 1000000 or less",
            "access_log.status_at_least: 1000 is not a status code: use 100 to 999",
            "limits.head_bytes: 0 is too small: use 1 or more",
            "limits.requests_per_connection: 0 is too small: use 1 or more",
            "limits.connection_age: is missing, or of a kind unknown to this version",
            "trust.sources.networks[0].prefix_length: 33 is too long a prefix of 10.0.0.0: use 0 \
             to 32",
            "proxy_protocol.mode: is missing",
            "path_options.escaped_slash: -1 is unknown to this version",
            "ejection.consecutive_failures: 0 is too small: use 1 or more",
            "ejection.max: is missing",
            "ejection.max_percent: 101 is too large: use 100 or less",
        ]
    );
}

/// What is left out opens no door.
#[test]
fn a_health_check_that_cannot_be_decoded_is_left_out_alone() {
    let seconds = |seconds| {
        Some(proto::Duration {
            seconds,
            ..proto::Duration::default()
        })
    };
    let mut message = policy();
    message.networks = Some(proto::NetworkPolicy::default());
    message.health_check = Some(proto::HealthCheck {
        probe: Some(proto::health_check::Probe::Tcp(proto::Unit {})),
        interval: seconds(3_601),
        timeout: seconds(61),
        unhealthy_after: 1,
        healthy_after: 1,
        ..proto::HealthCheck::default()
    });
    let decode = |message: &proto::Policy| decoded(Kind::Policy, &message.encode_to_vec());
    let found = decode(&message).expect("the rest is valid");
    let problems = found.left_out.expect("a problem").to_string();
    let interval = "health_check.interval: is too long: use 1 hour or less";
    let timeout = "health_check.timeout: is too long: use 60 seconds or less";
    assert_eq!(problems, format!("{interval}; {timeout}"));
    let spec = |resource| match resource {
        Resource::Policy(policy) => policy.spec.clone(),
        other => panic!("{other:?}"),
    };
    let rest = spec(found.resource);
    assert!(rest.health_check.is_none() && rest.networks.is_some());
    if let Some(check) = &mut message.health_check {
        check.interval = seconds(3_600);
        check.timeout = seconds(60);
    }
    let found = decode(&message).expect("it is valid");
    assert!(found.left_out.is_none());
    assert!(spec(found.resource).health_check.is_some());
}
