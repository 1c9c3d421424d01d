use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use xds::model::{
    HealthCheck, HealthProbe, InitialHealth, JwtExpiry, JwtForward, JwtMode, JwtPolicy,
    JwtProvider, ObjectName, Policy, PolicySpec, PolicyTarget, ServiceKey,
};

use super::*;

fn location(host: &str) -> JwksLocation {
    JwksLocation::Url(format!("https://{host}/keys"))
}

fn missing(host: &str, failures: u32, since: Instant) -> MissingKeys {
    MissingKeys {
        location: location(host),
        from: format!("https://{host}/keys"),
        since,
        failures,
        was_fetched: false,
        error: Some("status 500".to_owned()),
    }
}

/// A policy at this target that takes tokens of these hosts.
fn policy(name: &str, target: &str, hosts: &[&str]) -> Policy {
    let provider = |host: &&str| JwtProvider {
        name: (*host).to_owned(),
        issuer: format!("https://{host}"),
        audiences: Vec::new(),
        keys: JwtKeys::Remote {
            location: location(host),
            cache: None,
        },
        from: Vec::new(),
        forward: JwtForward::Strip,
        clock_skew: None,
        expiry: JwtExpiry::Required,
        claims_to_headers: Vec::new(),
    };
    let gateway = ObjectName::new("infra", "edge");
    Policy {
        key: PolicyKey::new("TrafficPolicy", &ObjectName::new("app", name), target),
        target: PolicyTarget::Gateway(gateway),
        spec: PolicySpec {
            jwt: Some(JwtPolicy {
                mode: JwtMode::Strict,
                realm: None,
                providers: hosts.iter().map(provider).collect(),
            }),
            ..PolicySpec::default()
        },
    }
}

fn model(policies: Vec<Policy>) -> Model {
    let mut model = Model::default();
    for policy in policies {
        model.insert(policy.into());
    }
    model
}

#[test]
fn the_policies_of_a_key_set_that_keeps_failing_are_told() {
    let now = Instant::now();
    let model = model(vec![
        policy("both", "Gateway/a", &["one.test", "two.test"]),
        policy("both", "Gateway/b", &["one.test", "two.test"]),
        policy("good", "Gateway/a", &["good.test"]),
        policy("one", "Gateway/a", &["one.test"]),
    ]);
    let told = |failing: &[MissingKeys]| {
        let seen = seen(&model, failing).into_iter();
        let told = seen.map(|it| (it.key.key.to_string(), it.fact, it.text));
        told.collect::<Vec<_>>()
    };
    assert_eq!(
        told(&[missing("one.test", 1, now)]),
        [],
        "it may be a lost packet"
    );
    let text =
        |host: &str| format!("keys of provider `{host}` from https://{host}/keys: status 500");
    let (both, one) = (
        "TrafficPolicy/app/both/Gateway/a",
        "TrafficPolicy/app/one/Gateway/a",
    );
    let all = told(&[missing("one.test", 2, now), missing("two.test", 9, now)]);
    let expected = [
        (both, format!("{}; {}", text("one.test"), text("two.test"))),
        (one, text("one.test")),
    ];
    assert_eq!(
        all,
        expected.map(|(key, text)| (key.to_owned(), Fact::KeysNotFetched, text))
    );
    let old = MissingKeys {
        was_fetched: true,
        ..missing("one.test", 2, now)
    };
    assert!(
        told(&[old])
            .iter()
            .all(|(_, fact, _)| *fact == Fact::KeysNotRefreshed)
    );
}

#[test]
fn the_policies_of_limited_health_checks_are_told_with_their_target() {
    let now = Instant::now();
    let target = |name: &str| PolicyTarget::Service(ServiceKey::new(&ObjectName::new("app", name)));
    let policy = |name: &str, service: &str, health_check: Option<HealthCheck>| Policy {
        key: PolicyKey::new(
            "TrafficPolicy",
            &ObjectName::new("app", name),
            &format!("Service/app/{service}"),
        ),
        target: target(service),
        spec: PolicySpec {
            health_check,
            ..PolicySpec::default()
        },
    };
    let model = model(vec![
        policy("checks", "shop", Some(check())),
        policy("checks", "cart", Some(check())),
        policy("other", "shop", None),
    ]);
    let limited = |object: &str, limit, text: &str, age| LimitedCheck {
        object: object.into(),
        limit,
        since: now.checked_sub(Duration::from_secs(age)).expect("a time"),
        text: text.to_owned(),
    };
    let all = [
        limited("Service/app/shop", CheckLimit::Ignored, "one", 1),
        limited("Service/app/shop", CheckLimit::Ignored, "two", 2),
        limited("Service/app/shop", CheckLimit::Stretched, "three", 3),
        limited(
            "Backend/app/shop",
            CheckLimit::Ignored,
            "of another kind",
            4,
        ),
    ];
    let told = |limited: &[LimitedCheck]| {
        let seen = seen_of_checks(&model, limited).into_iter();
        let told = seen.map(|it| (it.key.key.to_string(), it.fact, it.text, now - it.since));
        told.collect::<Vec<_>>()
    };
    let key = "TrafficPolicy/app/checks/Service/app/shop";
    let seconds = Duration::from_secs;
    assert_eq!(
        told(&all),
        [
            (Fact::HealthChecksIgnored, "one; two", 2),
            (Fact::HealthChecksStretched, "three", 3),
        ]
        .map(|(fact, text, age)| (key.to_owned(), fact, text.to_owned(), seconds(age)))
    );
    assert_eq!(told(&[]), []);
}

/// Every endpoint is asked for a connection.
fn check() -> HealthCheck {
    HealthCheck {
        probe: HealthProbe::Tcp,
        port: None,
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        unhealthy_after: NonZeroU32::MIN,
        healthy_after: NonZeroU32::MIN,
        initial: InitialHealth::Healthy,
        panic_percent: 30,
    }
}

#[test]
fn changes_are_told_once_and_not_too_often() {
    let (mut told, mut now) = (ToldSymptoms::default(), Instant::now());
    let symptom = |text: &str| {
        vec![Symptom {
            key: ResourceKey {
                kind: Kind::Policy,
                key: Arc::from("TrafficPolicy/a/b/Gateway/a"),
            },
            fact: Fact::KeysNotFetched,
            since: now,
            text: text.to_owned(),
        }]
    };
    let (one, other) = (symptom("one"), symptom("other"));
    assert!(
        told.tell(Vec::new(), now).is_none(),
        "a controller expects none"
    );
    assert!(told.tell(one.clone(), now).is_some());
    assert!(told.tell(one.clone(), now).is_none());
    assert_eq!(told.next_at(), None);
    assert!(told.tell(other.clone(), now).is_none());
    let next = told.next_at().expect("it is told later");
    assert_eq!(next, now + SYMPTOMS_INTERVAL);
    now = next;
    assert!(told.tell(other.clone(), now).is_some());
    now += Duration::from_hours(1);
    assert!(told.tell(Vec::new(), now).is_some(), "it has ended");
    told.forget();
    assert!(
        told.tell(other, now).is_some(),
        "another controller knows nothing"
    );
}
