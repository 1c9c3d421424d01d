//! The proxy's side: what is rejected and restricts access must not leave its target open.

use std::num::NonZeroU32;
use std::sync::Arc;

use xds::delta::{Client, Received};
use xds::discovery::{self, Any, DeltaDiscoveryResponse};
use xds::model::{
    AuthorizationPolicy, JwtExpiry, JwtForward, JwtKeys, JwtMode, JwtPolicy, JwtProvider,
    JwtSource, Kind, Limits, NetworkPolicy, ObjectName, Policy, PolicyKey, PolicySpec,
    PolicyTarget, Precedence, RateLimitHeaders, RateLimitPolicy, RateLimitRule, RateLimitStatus,
    Resource,
};

use crate::client::{held, response, whole};

/// A policy object's resource for the target `target`, with a way to restrict access if `restricts`.
fn restriction(target: &str, restricts: bool) -> Resource {
    restriction_of(target, restricts, Precedence::Defaults)
}

fn restriction_of(target: &str, restricts: bool, precedence: Precedence) -> Resource {
    let source = JwtSource::Query(format!("token-of-{target}"));
    let provider = JwtProvider {
        name: "issuer".to_owned(),
        issuer: "https://issuer.example".to_owned(),
        audiences: Vec::new(),
        keys: JwtKeys::Inline("{}".to_owned()),
        from: vec![source],
        forward: JwtForward::Strip,
        claims_to_headers: Vec::new(),
        clock_skew: None,
        expiry: JwtExpiry::Required,
    };
    let jwt = JwtPolicy {
        mode: JwtMode::Strict,
        realm: None,
        providers: vec![provider],
    };
    Resource::from(Policy {
        key: PolicyKey::new("TrafficPolicy", &ObjectName::new("a", "p"), target),
        target: PolicyTarget::Gateway(ObjectName::new("a", target)),
        spec: PolicySpec {
            jwt: restricts.then_some(jwt),
            // Bounds, of which a version of a later release has some too.
            limits: Limits {
                http2_streams: NonZeroU32::new(100).filter(|_| precedence == Precedence::Overrides),
                ..Limits::default()
            },
            precedence,
            ..PolicySpec::default()
        },
    })
}

/// As a later version may send it: a field that this one knows has a value that it does not.
fn of_a_later_version(mut response: DeltaDiscoveryResponse, name: &str) -> DeltaDiscoveryResponse {
    for resource in &mut response.resources {
        if resource.name.ends_with(name) {
            let mut value = content(resource);
            // `limits` with a largest head of 0 bytes.
            value.extend([0x22, 0x02, 0x10, 0x00]);
            resource.resource = Some(Any {
                value: value.into(),
                ..Any::default()
            });
        }
    }
    response
}

fn content(resource: &discovery::Resource) -> Vec<u8> {
    let content = resource.resource.as_ref().expect("it has content");
    content.value.to_vec()
}

/// The policies to apply: `<target> refuses` for those that refuse every request, with the places of tokens.
fn policies(received: &Received) -> Vec<String> {
    let changes = received.changes.iter();
    let shown = changes.map(|(key, resource)| {
        let name = key.key.rsplit('/').next().unwrap_or_default();
        match resource {
            None => format!("-{name}"),
            Some(Resource::Policy(policy)) if policy.spec.is_invalid => {
                format!("{name} refuses, {:?}", policy.spec.hidden)
            }
            Some(_) => name.to_owned(),
        }
    });
    shown.collect()
}

/// Without the policy, everyone would have access.
#[test]
fn a_rejected_restriction_without_a_previous_version_refuses_every_request() {
    let mut client = Client::new("pod".to_owned());
    let both = [restriction("one", true), restriction("two", true)];
    let first = of_a_later_version(response(Kind::Policy, "1/1/1", &both, &[]), "two");
    let received = whole(&mut client, first);
    // The first one waits for the second, and has no previous version either.
    let refusing = |name: &str| format!("{name} refuses, [Query(\"token-of-{name}\")]");
    assert_eq!(
        policies(&received),
        ["two", "one"].map(refusing),
        "in any order"
    );
    let text = &received.refused[0].text;
    assert!(text.contains("status 503 (policy_invalid)"), "{text}");
    assert!(text.contains("limits.head_bytes: 0 is too small"), "{text}");
    let answers = client.acknowledge(received, Vec::new());
    assert!(answers[0].error_detail.is_some());
    // The next stream gets them again, and can remove them.
    let held_now = held(&mut client, Kind::Policy);
    assert!(held_now.iter().all(|(_, version)| version.is_empty()));
    assert_eq!(held_now.len(), 2);

    let again = of_a_later_version(response(Kind::Policy, "1/1/1", &both, &[]), "two");
    let received = whole(&mut client, again);
    assert_eq!(policies(&received), [""; 0], "they stay");
    let text = &received.refused[0].text;
    assert!(text.contains("status 503 (policy_invalid)"), "{text}");
    let _ = client.acknowledge(received, Vec::new());
    let corrected = response(Kind::Policy, "2/1/1", &both[1..], &[]);
    let received = whole(&mut client, corrected);
    assert_eq!(policies(&received), ["one", "two"]);
    let _ = client.acknowledge(received, Vec::new());

    // Now there is a previous version.
    let third = of_a_later_version(response(Kind::Policy, "3/1/1", &both, &[]), "two");
    let received = whole(&mut client, third);
    assert_eq!(policies(&received), [""; 0]);
    let text = &received.refused[0].text;
    assert!(!text.contains("policy_invalid"), "{text}");
    let _ = client.acknowledge(received, Vec::new());
}

#[test]
fn a_refusal_in_the_place_of_a_restriction_ends_when_that_is_removed() {
    let mut client = Client::new("pod".to_owned());
    let one = [restriction("one", true)];
    let first = of_a_later_version(response(Kind::Policy, "1/1/1", &one, &[]), "one");
    let received = whole(&mut client, first);
    assert_eq!(received.changes.len(), 1);
    let _ = client.acknowledge(received, Vec::new());
    let gone = response(Kind::Policy, "2/1/1", &[], &[&one[0].resource_key()]);
    let received = whole(&mut client, gone);
    assert_eq!(policies(&received), ["-one"]);
    let _ = client.acknowledge(received, Vec::new());
    assert_eq!(held(&mut client, Kind::Policy), []);
}

#[test]
fn a_rejected_policy_that_restricts_nothing_closes_nothing() {
    let mut client = Client::new("pod".to_owned());
    let one = [restriction("one", false)];
    let received = whole(
        &mut client,
        of_a_later_version(response(Kind::Policy, "1/1/1", &one, &[]), "one"),
    );
    assert_eq!(received.refused.len(), 1);
    assert_eq!(policies(&received), [""; 0]);
    let _ = client.acknowledge(received, Vec::new());

    // It may restrict access in a way that this version does not know: field 1000.
    let mut unknown = response(Kind::Policy, "2/1/1", &one, &[]);
    let mut value = content(&unknown.resources[0]);
    value.extend([0xc2, 0x3e, 0x00]);
    unknown.resources[0].resource = Some(Any {
        value: value.into(),
        ..Any::default()
    });
    let received = whole(&mut client, of_a_later_version(unknown, "one"));
    assert_eq!(policies(&received), ["one refuses, []"]);
    let _ = client.acknowledge(received, Vec::new());
}

/// The other way round, a health check that this version does not know would close a service.
#[test]
fn a_policy_is_applied_without_a_health_check_that_is_not_known() {
    let mut client = Client::new("pod".to_owned());
    let one = [restriction("one", true)];
    let mut later = response(Kind::Policy, "1/1/1", &one, &[]);
    let mut value = content(&later.resources[0]);
    // `health_check` without anything that is asked.
    value.extend([0xf2, 0x01, 0x00]);
    later.resources[0].resource = Some(Any {
        value: value.into(),
        ..Any::default()
    });
    let received = whole(&mut client, later);
    assert_eq!(policies(&received), ["one"]);
    let text = &received.refused[0].text;
    assert!(text.contains("health_check.probe: is missing"), "{text}");
    assert!(text.contains("the rest of the policy is applied"), "{text}");
    let answers = client.acknowledge(received, Vec::new());
    assert!(answers[0].error_detail.is_some(), "its status says so");
    let held_now = held(&mut client, Kind::Policy);
    assert!(held_now.iter().all(|(_, version)| version.is_empty()));

    let corrected = response(Kind::Policy, "2/1/1", &one, &[]);
    let received = whole(&mut client, corrected);
    assert!(received.refused.is_empty());
    assert_eq!(policies(&received), ["one"]);
    let answers = client.acknowledge(received, Vec::new());
    assert!(answers[0].error_detail.is_none());
}

/// Nearer policies would replace the previous version.
#[test]
fn a_rejected_restriction_refuses_every_request_if_the_previous_one_does_less() {
    use Precedence::{Defaults, Overrides};
    let refuses = vec!["one refuses, [Query(\"token-of-one\")]".to_owned()];
    for ((did_restrict, before), after, closes) in [
        ((true, Defaults), Defaults, false),
        ((true, Defaults), Overrides, true),
        ((true, Overrides), Defaults, false),
        ((true, Overrides), Overrides, false),
        ((false, Defaults), Defaults, true),
        ((false, Overrides), Overrides, true),
    ] {
        let mut client = Client::new("pod".to_owned());
        let previous = [restriction_of("one", did_restrict, before)];
        let received = whole(&mut client, response(Kind::Policy, "1/1/1", &previous, &[]));
        let _ = client.acknowledge(received, Vec::new());
        let next = [restriction_of("one", true, after)];
        let spoiled = || of_a_later_version(response(Kind::Policy, "2/1/1", &next, &[]), "one");
        let received = whole(&mut client, spoiled());
        let expected = if closes { refuses.clone() } else { Vec::new() };
        assert_eq!(policies(&received), expected, "{before:?}, {after:?}");
        let text = &received.refused[0].text;
        assert_eq!(
            text.contains("status 503 (policy_invalid)"),
            closes,
            "{text}"
        );
        let _ = client.acknowledge(received, Vec::new());

        let received = whole(&mut client, spoiled());
        assert_eq!(policies(&received), [""; 0], "it stays as it is");
        let _ = client.acknowledge(received, Vec::new());
        let corrected = response(Kind::Policy, "3/1/1", &previous, &[]);
        let received = whole(&mut client, corrected);
        assert_eq!(policies(&received), ["one"]);
        let _ = client.acknowledge(received, Vec::new());
        assert_eq!(client.substituted().count(), 0);
    }
}

/// A policy with these of the fields that restrict access.
fn with_fields(fields: &[&str]) -> Resource {
    let has = |name: &str| fields.contains(&name);
    let limits = || RateLimitPolicy {
        rules: vec![RateLimitRule {
            name: "all".to_owned(),
            when: None,
            key: Vec::new(),
            rate: None,
            dry_run: false,
            max_keys: RateLimitRule::DEFAULT_KEYS,
        }],
        status: RateLimitStatus::TooManyRequests,
        headers: RateLimitHeaders::Off,
    };
    let Resource::Policy(mut policy) = restriction("one", has("jwt")) else {
        unreachable!("it is a policy");
    };
    let spec = &mut Arc::make_mut(&mut policy).spec;
    spec.authorization = has("authorization").then(AuthorizationPolicy::deny_all);
    spec.networks = has("networks").then_some(NetworkPolicy::ListMissing);
    spec.rate_limit = has("rateLimit").then(limits);
    spec.is_invalid = has("invalid");
    Resource::Policy(policy)
}

/// What is new in the rejected version protects nothing while the previous one stands in.
#[test]
fn a_rejected_restriction_of_another_way_refuses_every_request() {
    for (before, after, closes) in [
        (
            &["rateLimit"][..],
            &["rateLimit", "authorization"][..],
            true,
        ),
        (&["rateLimit"], &["authorization"], true),
        (&["jwt"], &["jwt", "networks"], true),
        (&["networks"], &["networks", "rateLimit"], true),
        (&["authorization"], &["jwt"], true),
        (&["jwt"], &["invalid"], true),
        (&["jwt", "authorization"], &["authorization"], false),
        (
            &["networks", "rateLimit"],
            &["rateLimit", "networks"],
            false,
        ),
        (&["invalid"], &["jwt", "authorization", "rateLimit"], false),
        // Of a refusal of all requests, connections are no part.
        (&["invalid"], &["networks"], true),
        (&["jwt"], &[], false),
    ] {
        let mut client = Client::new("pod".to_owned());
        let previous = [with_fields(before)];
        let received = whole(&mut client, response(Kind::Policy, "1/1/1", &previous, &[]));
        assert_eq!(received.refused, [], "{before:?}");
        let _ = client.acknowledge(received, Vec::new());
        let next = [with_fields(after)];
        let spoiled = of_a_later_version(response(Kind::Policy, "2/1/1", &next, &[]), "one");
        let received = whole(&mut client, spoiled);
        let refuses = policies(&received)
            .iter()
            .any(|it| it.starts_with("one refuses"));
        assert_eq!(refuses, closes, "{before:?}, {after:?}");
        let text = &received.refused[0].text;
        let says_so = text.contains("status 503 (policy_invalid)");
        assert_eq!(says_so, closes, "{text}");
    }
}
