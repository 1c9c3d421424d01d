use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use xds::model::{
    Rate, RateLimitHeaders, RateLimitKey, RateLimitPolicy, RateLimitRule, RateLimitStatus,
    RatePeriod,
};

use super::{Counted, Moment, Pace, RateLimit, RateLimits, RuleCounter, no_counts};
use crate::policy::authorization::{ClaimValues, Subject};
use crate::policy::effective_fields::PolicyView;
use crate::policy::sample::{effective, fields};

fn rule(name: &str, requests: u32) -> RateLimitRule {
    let rate =
        NonZeroU32::new(requests).map(|it| Rate::new(it, RatePeriod::Minute, it).expect("a rate"));
    RateLimitRule {
        name: name.to_owned(),
        when: None,
        key: vec![RateLimitKey::ClientAddress {
            ipv4_prefix: 32,
            ipv6_prefix: 64,
        }],
        rate,
        dry_run: false,
        max_keys: 1024,
    }
}

/// The counter of a rule that is in force.
fn counter(rule: &RateLimitRule) -> Arc<RuleCounter> {
    let counter = RuleCounter::new(("TrafficPolicy/a/b", &rule.name), no_counts(2));
    counter.set(rule.rate.map(Pace::new), rule.max_keys, Duration::ZERO);
    Arc::new(counter)
}

/// Rules, and their counters.
fn limits(rules: Vec<RateLimitRule>) -> (RateLimits, Vec<Arc<RuleCounter>>) {
    let mut counters = Vec::new();
    let policy = RateLimitPolicy {
        rules,
        status: RateLimitStatus::TooManyRequests,
        headers: RateLimitHeaders::Draft,
    };
    let limit = RateLimit::compile(&policy, |rule| {
        let counter = counter(rule);
        counters.push(Arc::clone(&counter));
        counter
    });
    (at_rule(limit), counters)
}

fn at_rule(limit: RateLimit) -> RateLimits {
    let limits = [(Arc::new(limit), PolicyView::Effective)];
    RateLimits::at_rule(limits, None).expect("rules that count")
}

#[test]
fn rules_of_an_overriding_policy_count_once_each() {
    let by_address = RateLimitKey::ClientAddress {
        ipv4_prefix: 32,
        ipv6_prefix: 64,
    };
    let with = |name: &str, key: Vec<RateLimitKey>, when: Option<&str>| RateLimitRule {
        key,
        when: when.map(str::to_owned),
        ..rule(name, 10)
    };
    let rules = vec![
        with("address", vec![by_address.clone()], None),
        with(
            "some",
            vec![by_address.clone()],
            Some("request.method == 'GET'"),
        ),
        with("path", vec![by_address, RateLimitKey::Path], None),
        with("claim", vec![RateLimitKey::Claim("sub".to_owned())], None),
        with("all", Vec::new(), None),
    ];
    let policy = RateLimitPolicy {
        rules,
        status: RateLimitStatus::TooManyRequests,
        headers: RateLimitHeaders::Off,
    };
    let limit = Arc::new(RateLimit::compile(&policy, counter));
    let moments = |view: PolicyView| {
        let limits = || [(Arc::clone(&limit), view)];
        let here = RateLimits::at_rule(limits(), None).expect("rules that count");
        let head = RateLimits::at_head(limits());
        let names = |limits: &RateLimits, moment| {
            let counted = count(limits, moment, None);
            let names = counted.explanations.iter().map(|(_, name, _)| *name);
            names.collect::<Vec<_>>().join(" ")
        };
        [
            head.map_or_else(String::new, |head| names(&head, Moment::Head)),
            names(&here, Moment::Early),
            names(&here, Moment::Late),
        ]
    };
    let overriding = ["address", "some path all", "claim"];
    assert_eq!(moments(PolicyView::AsSent), overriding);
    assert_eq!(moments(PolicyView::AsSentWithClaims), overriding);
    assert_eq!(
        moments(PolicyView::Effective),
        ["", "address some path all", "claim"]
    );
}

/// Counts a request of a client with a claim `plan`, after a second.
fn count<'a>(limits: &'a RateLimits, moment: Moment, plan: Option<&str>) -> Counted<'a> {
    let claims = plan.map(|plan| json!({"plan": plan}));
    let claims = claims
        .as_ref()
        .and_then(|it| it.as_object())
        .map(ClaimValues::new);
    let head = fields(&[]);
    let subject = Subject {
        method: b"GET",
        host: "a.test",
        path: "/a",
        fields: effective(&head),
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        claims: claims.as_ref(),
    };
    limits.count(moment, |_| subject, (Duration::from_secs(1), 0), true)
}

fn results(counter: &RuleCounter) -> Vec<u64> {
    counter.results().iter().map(|(_, count)| *count).collect()
}

#[test]
fn the_request_that_is_too_many_is_refused_and_told_when_to_return() {
    let (limits, counters) = limits(vec![rule("each", 2)]);
    for left in [1, 0] {
        let counted = count(&limits, Moment::Early, None);
        assert_eq!(counted.refusal, None);
        let (balance, _) = counted.balance.expect("headers are on");
        assert_eq!((balance.limit, balance.remaining), (2, left));
        assert_eq!(balance.window.as_secs(), 60);
    }
    let counted = count(&limits, Moment::Early, None);
    let refusal = counted.refusal.expect("it is the third");
    assert_eq!(
        (refusal.rule, refusal.policy),
        ("each", "TrafficPolicy/a/b")
    );
    let wait = refusal.retry_after.expect("it passes again");
    assert!(wait.as_millis().abs_diff(30_000) < 10, "{wait:?}");
    assert_eq!(results(&counters[0]), [2, 1, 0, 0]);
}

#[test]
fn a_request_that_one_rule_refuses_counts_in_none() {
    let (limits, counters) = limits(vec![rule("wide", 100), rule("narrow", 1)]);
    for number in 0..50 {
        let counted = count(&limits, Moment::Early, None);
        assert_eq!(
            counted.refusal.map(|it| it.rule),
            (number > 0).then_some("narrow")
        );
    }
    assert_eq!(results(&counters[0]), [1, 0, 0, 0]);
    assert_eq!(results(&counters[1]), [1, 49, 0, 0]);
}

#[test]
fn the_rule_that_leaves_least_is_told() {
    let (limits, _) = limits(vec![
        rule("wide", 100),
        rule("narrow", 3),
        rule("middle", 9),
    ]);
    let counted = count(&limits, Moment::Early, None);
    let (balance, _) = counted.balance.expect("headers are on");
    assert_eq!((balance.rule, balance.remaining), ("narrow", 2));
}

#[test]
fn a_rule_of_nothing_refuses_all_and_names_no_time() {
    let (limits, _) = limits(vec![rule("each", 1), rule("blocked", 0)]);
    for _ in 0..2 {
        let refusal = count(&limits, Moment::Early, None)
            .refusal
            .expect("it is blocked");
        assert_eq!((refusal.rule, refusal.retry_after), ("blocked", None));
    }
}

#[test]
fn a_dry_run_counts_and_refuses_nothing() {
    let (limits, counters) = limits(vec![
        RateLimitRule {
            dry_run: true,
            ..rule("tried", 1)
        },
        rule("each", 3),
    ]);
    let refused: Vec<bool> = (0..4)
        .map(|_| count(&limits, Moment::Early, None).refusal.is_some())
        .collect();
    assert_eq!(refused, [false, false, false, true]);
    assert_eq!(results(&counters[0]), [1, 0, 3, 0]);
    assert_eq!(results(&counters[1]), [3, 1, 0, 0]);
}

#[test]
fn rules_that_read_claims_count_late() {
    let of_plan = |name: &str, when: &str| RateLimitRule {
        when: Some(when.to_owned()),
        ..rule(name, 1)
    };
    let by_claim = RateLimitRule {
        key: vec![RateLimitKey::Claim("plan".to_owned())],
        ..rule("by-claim", 5)
    };
    let (limits, counters) = limits(vec![
        rule("early", 100),
        of_plan("free", "claims.plan == 'free'"),
        by_claim,
    ]);
    assert!(limits.counts_at(Moment::Early) && limits.counts_at(Moment::Late));
    count(&limits, Moment::Early, None);
    assert_eq!(results(&counters[0])[0], 1);
    for (plan, refused) in [
        (Some("free"), false),
        (Some("free"), true),
        (Some("paid"), false),
        // It cannot be evaluated, and applies.
        (None, true),
    ] {
        let counted = count(&limits, Moment::Late, plan);
        assert_eq!(counted.refusal.is_some(), refused, "{plan:?}");
        let told = counted
            .explanations
            .iter()
            .any(|(.., it)| it.contains("cannot be evaluated"));
        assert_eq!(told, plan.is_none());
    }
    assert_eq!(results(&counters[0])[0], 1, "once");
}

#[test]
fn conditions_compare_the_address_with_networks() {
    let of_network = |name: &str, when: &str| RateLimitRule {
        when: Some(when.to_owned()),
        ..rule(name, 1)
    };
    let (limits, counters) = limits(vec![
        of_network("inside", "cidr('127.0.0.0/8').contains(client.address)"),
        of_network("outside", "cidr('10.0.0.0/8').contains(client.address)"),
        of_network("others", "!cidr('127.0.0.0/8').contains(client.address)"),
    ]);
    let counted = count(&limits, Moment::Early, None);
    let told = counted.explanations.iter();
    assert!(
        !told
            .clone()
            .any(|(.., it)| it.contains("cannot be evaluated"))
    );
    let allowed: Vec<u64> = counters.iter().map(|it| results(it)[0]).collect();
    assert_eq!(allowed, [1, 0, 0]);
}

/// A request of an earlier configuration counts by the rule as it is now.
#[test]
fn another_rate_applies_at_once_and_keeps_what_clients_owe() {
    let (limits, counters) = limits(vec![rule("each", 2)]);
    let passes = || count(&limits, Moment::Early, None).refusal.is_none();
    assert_eq!([passes(), passes(), passes()], [true, true, false]);
    let (since, pace) = (Duration::from_secs(1), rule("each", 3).rate.map(Pace::new));
    let same = rule("each", 2).rate.map(Pace::new);
    assert!(
        counters[0].set(same, 1024, since).is_none(),
        "nothing changes"
    );
    // A minute is owed, which is all three of the new rate.
    assert!(counters[0].set(pace, 2048, since).is_some());
    assert!(!passes());
    assert_eq!(results(&counters[0]), [2, 2, 0, 0], "counters go on");
    assert!(counters[0].set(None, 1, since).is_some());
    let blocked = count(&limits, Moment::Early, None).refusal;
    assert_eq!(blocked.map(|it| it.retry_after), Some(None));
}

#[test]
fn a_rule_that_was_removed_counts_and_refuses_nothing() {
    let (limits, counters) = limits(vec![rule("gone", 1), rule("each", 2)]);
    assert!(counters[0].end().is_some());
    for passes in [true, true, false] {
        let counted = count(&limits, Moment::Early, None);
        assert_eq!(counted.refusal.is_none(), passes);
        let (_, name, what) = &counted.explanations[0];
        assert_eq!(*name, "gone");
        assert!(what.contains("no longer configured"), "{what}");
    }
    assert_eq!(results(&counters[0]), [0; 4]);
}

/// The second and third rule have one counter: the second takes what the third has seen, as another shard may.
#[test]
fn what_was_counted_before_a_lost_race_is_given_back() {
    let rules = [rule("wide", 100), rule("raced", 1), rule("loser", 1)];
    let (wide, shared) = (counter(&rules[0]), counter(&rules[1]));
    let compile = |rules: &[RateLimitRule]| {
        let policy = RateLimitPolicy {
            rules: rules.to_vec(),
            status: RateLimitStatus::TooManyRequests,
            headers: RateLimitHeaders::Draft,
        };
        let limit = RateLimit::compile(&policy, |rule| match &*rule.name {
            "wide" => Arc::clone(&wide),
            _ => Arc::clone(&shared),
        });
        at_rule(limit)
    };
    let (all, alone) = (compile(&rules), compile(&rules[..2]));
    for _ in 0..3 {
        assert!(count(&all, Moment::Early, None).refusal.is_some());
    }
    assert_eq!(results(&wide), [0; 4]);
    let counted = count(&alone, Moment::Early, None);
    assert_eq!(counted.refusal, None, "nothing was taken");
    let told = counted.explanations.first().map(|(.., it)| it.as_str());
    assert!(
        told.is_some_and(|it| it.contains("99 of 100 left")),
        "{told:?}"
    );
}
