//! Proxies of the release before, which state no features.

use std::collections::BTreeMap;
use std::sync::Arc;

use xds::decode;
use xds::delta::{Encoded, Member, Publication, Refusal, Views};
use xds::discovery::{DeltaDiscoveryResponse, Status};
use xds::model::{
    Attachment, Features, Hostname, Kind, L4Rule, ListenerKey, ObjectName, Resource, ResourceKey,
    Route, RouteKey, RouteRule,
};

use crate::support::{Stream, gateway};

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
    let key = ResourceKey {
        kind: Kind::Route,
        key: "TCPRoute/a/shop/0/a/web".into(),
    };
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
    let key = ResourceKey {
        kind: Kind::Route,
        key: "TCPRoute/a/shop/0/a/web".into(),
    };
    assert!(views.version(&gateway(), &key).is_some());
    let text = "no".to_owned();
    assert_eq!(former.session.refused(&views), [Refusal { key, text }]);
}
