//! Proxies of the release before, which state no features.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use prost::Message as _;
use xds::decode;
use xds::delta::{
    Acknowledged, Answered, Encoded, Member, Outgoing, Poll, Publication, Refusal, Views,
};
use xds::discovery::{self, Any, DeltaDiscoveryResponse, Status};
use xds::model::{
    Attachment, Features, Hostname, Kind, L4Rule, ListenerKey, ObjectName, Resource, ResourceKey,
    Route, RouteKey, RouteRule,
};

use crate::support::{Stream, decoded, gateway};

/// Rule 0 of route `a/shop` at these listeners of the Gateway.
fn rule(listeners: &[&str], created: i64) -> Route {
    let attachments = listeners.iter().map(|name| Attachment {
        listener: ListenerKey::new("Gateway", &gateway(), name),
        hostnames: [Hostname::parse(&format!("{name}.test")).expect("a host name")].into(),
    });
    Route {
        key: RouteKey::new("TCPRoute", &ObjectName::new("a", "shop"), 0, &gateway()),
        attachments: attachments.collect(),
        created,
        rule: RouteRule::Tcp(L4Rule {
            name: None,
            backends: Vec::new(),
        }),
    }
}

fn publish(views: &mut Views, rule: Option<Route>) {
    let key = rule_key(0);
    let member = if rule.is_some() {
        Member::Joined
    } else {
        Member::Left
    };
    let encoded = rule.map(|rule| Arc::new(Encoded::new(&Resource::from(rule))));
    views.publish(Publication {
        resources: vec![(key.clone(), encoded)],
        members: vec![(gateway(), key, member)],
    });
}

/// What was sent of rules: by name, or `None` for removed ones.
fn rules(sent: &[DeltaDiscoveryResponse]) -> BTreeMap<String, Option<Route>> {
    let mut rules = BTreeMap::new();
    for response in sent {
        for resource in &response.resources {
            let bytes = &resource.resource.as_ref().expect("content").value;
            let Ok(Resource::Route(route)) = decode::resource(Kind::Route, bytes) else {
                panic!("it is a rule");
            };
            assert_eq!(route.key.as_str(), resource.name);
            rules.insert(resource.name.clone(), Some(Route::clone(&route)));
        }
        let removed = response.removed_resources.iter();
        rules.extend(removed.map(|name| (name.clone(), None)));
    }
    rules
}

fn at(listener: &str) -> String {
    format!("TCPRoute/a/shop/0/Gateway/a/web/{listener}")
}

#[test]
fn a_proxy_without_features_gets_a_rule_for_each_listener() {
    let mut views = Views::default();
    publish(&mut views, Some(rule(&["one", "two"], 1)));
    let mut former = Stream::subscribed_with(&mut views, Features::NONE);
    let mut current = Stream::subscribed(&mut views);
    let sent = current.sent(&mut views);
    current.acknowledge(&sent);
    let names: Vec<String> = rules(&sent).into_keys().collect();
    assert_eq!(names, ["TCPRoute/a/shop/0/a/web"]);

    let sent = former.sent(&mut views);
    former.acknowledge(&sent);
    let first = rules(&sent);
    assert_eq!(first.keys().collect::<Vec<_>>(), [&at("one"), &at("two")]);
    let one = first[&at("one")].as_ref().expect("it is there");
    assert_eq!(one.attachments[..], rule(&["one"], 1).attachments[..]);

    // One listener less and another one: the others are as before.
    publish(&mut views, Some(rule(&["one", "three"], 1)));
    let sent = former.sent(&mut views);
    former.acknowledge(&sent);
    let changed = rules(&sent);
    assert_eq!(
        changed.keys().collect::<Vec<_>>(),
        [&at("three"), &at("two")]
    );
    assert!(changed[&at("two")].is_none() && changed[&at("three")].is_some());

    publish(&mut views, Some(rule(&["one", "three"], 2)));
    let sent = former.sent(&mut views);
    former.acknowledge(&sent);
    assert_eq!(rules(&sent).len(), 2);
    publish(&mut views, None);
    let sent = former.sent(&mut views);
    former.acknowledge(&sent);
    assert!(rules(&sent).values().all(Option::is_none));
    former.session.end(&mut views);
    current.session.end(&mut views);
    assert_eq!(views.resource_count(), 0);
}

/// Its status is that of the rule, whichever proxies report it.
#[test]
fn a_rejection_of_a_rule_at_one_listener_is_of_the_rule() {
    let mut views = Views::default();
    publish(&mut views, Some(rule(&["one", "two"], 1)));
    let mut former = Stream::subscribed_with(&mut views, Features::NONE);
    let sent = former.sent(&mut views);
    for response in &sent {
        let rejected = !response.resources.is_empty();
        former.answer(
            response,
            rejected.then(|| Status {
                message: "no".to_owned(),
                ..Status::default()
            }),
        );
    }
    let key = rule_key(0);
    assert!(views.version(&gateway(), &key).is_some());
    let text = "no".to_owned();
    assert_eq!(former.session.refused(&views), [Refusal { key, text }]);
}

/// The key of a published rule.
fn rule_key(number: u16) -> ResourceKey {
    ResourceKey {
        kind: Kind::Route,
        key: format!("TCPRoute/a/shop/{number}/a/web").into(),
    }
}

/// Publishes rules of these numbers, each at 64 listeners.
fn publish_many(views: &mut Views, numbers: Range<u16>, member: Member) {
    let names: Vec<String> = (0..64).map(|number| format!("l{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let template = rule(&names, 1);
    let mut publication = Publication::default();
    for number in numbers {
        let key = rule_key(number);
        let encoded = (member == Member::Joined).then(|| {
            Arc::new(Encoded::new(&Resource::from(Route {
                key: RouteKey::parse(&key.key).expect("a key"),
                ..template.clone()
            })))
        });
        publication.resources.push((key.clone(), encoded));
        publication.members.push((gateway(), key, member));
    }
    views.publish(publication);
}

/// A rule becomes one for each listener: what a release admits may be 64 times what that before it did.
#[test]
fn proxies_of_the_release_before_are_sent_no_more_than_it_admitted() {
    let mut views = Views::default();
    publish_many(&mut views, 0..100, Member::Joined);
    let mut early = Stream::subscribed_with(&mut views, Features::NONE);
    let mut asleep = Stream::subscribed_with(&mut views, Features::NONE);
    for stream in [&mut early, &mut asleep] {
        let sent = stream.sent(&mut views);
        stream.acknowledge(&sent);
        assert_eq!(rules(&sent).len(), 6_400);
    }
    publish_many(&mut views, 100..2_561, Member::Joined);
    let mut late = Stream::subscribed_with(&mut views, Features::NONE);
    let mut current = Stream::subscribed(&mut views);
    // 163 904 rules at listeners: nothing is derived.
    assert_eq!(late.poll_once(&mut views), Poll::TooManyRules);
    assert_eq!(early.poll_once(&mut views), Poll::TooManyRules);
    assert_eq!(rules(&current.sent(&mut views)).len(), 2_561);

    publish_many(&mut views, 1..2_561, Member::Left);
    let mut again = Stream::subscribed_with(&mut views, Features::NONE);
    assert_eq!(rules(&again.sent(&mut views)).len(), 64);
    // It has missed what happened in between.
    assert_eq!(asleep.poll(&mut views), Poll::Resynchronise);
    for stream in [early, asleep, late, current, again] {
        stream.session.end(&mut views);
    }
}

#[test]
fn streams_share_what_is_derived_for_them() {
    let mut views = Views::default();
    publish(&mut views, Some(rule(&["one", "two"], 1)));
    let mut first = Stream::subscribed_with(&mut views, Features::NONE);
    let mut second = Stream::subscribed_with(&mut views, Features::NONE);
    let Poll::Derive(given_up) = first.poll_once(&mut views) else {
        panic!("their form has to be derived");
    };
    assert_eq!(second.poll_once(&mut views), Poll::Wait(None));
    drop(given_up);
    let Poll::Derive(derivation) = second.poll_once(&mut views) else {
        panic!("nobody derives it");
    };
    assert_eq!(first.poll_once(&mut views), Poll::Wait(None));
    // Meanwhile, there is another version.
    publish(&mut views, Some(rule(&["two", "three"], 2)));
    views.install(derivation.run());
    let (one, other) = (first.outgoing(&mut views), second.outgoing(&mut views));
    let bodies = |sent: &[Outgoing]| sent.iter().map(|it| it.body.as_ptr()).collect::<Vec<_>>();
    assert_eq!(bodies(&one), bodies(&other), "it is encoded once");
    let sent: Vec<DeltaDiscoveryResponse> = one.iter().map(decoded).collect();
    let sent = rules(&sent);
    assert_eq!(sent.keys().collect::<Vec<_>>(), [&at("three"), &at("two")]);
    assert!(sent.values().flatten().all(|rule| rule.created == 2));
    for stream in [first, second] {
        stream.session.end(&mut views);
    }
}

#[test]
fn a_stream_that_asks_for_nothing_derives_nothing() {
    let mut views = Views::default();
    publish(&mut views, Some(rule(&["one"], 1)));
    let mut silent = Stream::with(&mut views, Features::NONE);
    assert_eq!(silent.poll_once(&mut views), Poll::Wait(None));
    silent.session.end(&mut views);
}

#[test]
fn a_rule_is_applied_once_it_is_at_each_listener() {
    let mut views = Views::default();
    publish(&mut views, Some(rule(&["one", "two"], 1)));
    let mut former = Stream::subscribed_with(&mut views, Features::NONE);
    let key = rule_key(0);
    assert_eq!(
        former.session.acknowledged(&views, &key),
        Acknowledged::Open
    );
    let sent = former.sent(&mut views);
    assert_eq!(
        former.session.acknowledged(&views, &key),
        Acknowledged::Open
    );
    former.acknowledge(&sent);
    assert_eq!(former.session.acknowledged(&views, &key), Acknowledged::Yes);

    publish(&mut views, Some(rule(&["one", "two"], 2)));
    let open = former.session.acknowledged(&views, &key);
    assert_eq!(open, Acknowledged::Open, "it is not derived yet");
    let sent = former.sent(&mut views);
    for response in &sent {
        let names = response.resources.iter().map(|it| it.name.clone());
        let second = names.filter(|name| name.ends_with("/two")).map(|name| {
            let refusal = discovery::Refusal {
                name,
                text: "no".to_owned(),
            };
            Any {
                type_url: REFUSAL.to_owned(),
                value: refusal.encode_to_vec().into(),
            }
        });
        let details: Vec<Any> = second.collect();
        let rejected = (!details.is_empty()).then(|| Status {
            details,
            ..Status::default()
        });
        let is_rejected = rejected.is_some();
        let answered = former.answer(response, rejected);
        if is_rejected {
            let (key, text) = (key.clone(), "no".to_owned());
            assert_eq!(answered, Answered::Refused(vec![Refusal { key, text }]));
        }
    }
    let refused = former.session.acknowledged(&views, &key);
    assert_eq!(refused, Acknowledged::Refused("no"));
    former.session.end(&mut views);
}

const REFUSAL: &str = "type.googleapis.com/envoy.service.discovery.v3.Refusal";
