//! The proxy's side when its controller is replaced by one of another release, which sends rules in another form.

use xds::delta::{Client, Received, Report};
use xds::discovery::{Any, DeltaDiscoveryResponse};
use xds::model::{
    Attachment, Kind, L4Rule, ListenerKey, ObjectName, Resource, ResourceKey, Route, RouteKey,
    RouteRule,
};

use crate::client::{held, response, whole};
use crate::support::gateway;

/// Rule 0 of route `a/shop` at both of its listeners.
fn shared(created: i64) -> Resource {
    let attachments = ["one", "two"].map(|name| Attachment {
        listener: ListenerKey::new("Gateway", &gateway(), name),
        hostnames: [].into(),
    });
    Resource::from(Route {
        key: RouteKey::new("TCPRoute", &ObjectName::new("a", "shop"), 0, &gateway()),
        attachments: attachments.into_iter().collect(),
        created,
        rule: RouteRule::Tcp(L4Rule {
            name: None,
            backends: Vec::new(),
        }),
    })
}

/// The same in the form for one listener.
fn at_listeners(created: i64) -> Vec<Resource> {
    let Resource::Route(route) = shared(created) else {
        panic!("it is a rule");
    };
    let rules = route.at_listeners().map(|it| {
        Resource::from(Route {
            key: it.key(),
            attachments: it.attachment.clone().into(),
            ..Route::clone(&route)
        })
    });
    rules.collect()
}

/// As a later version may send it: it needs a feature that this one does not have.
fn of_a_later_version(mut response: DeltaDiscoveryResponse) -> DeltaDiscoveryResponse {
    for resource in &mut response.resources {
        let content = resource.resource.take().expect("it has content");
        let mut value = content.value.to_vec();
        // Field 100 with a name of five bytes.
        value.extend([0xa2, 0x06, 0x05]);
        value.extend(b"later");
        resource.resource = Some(Any {
            value: value.into(),
            ..content
        });
    }
    response
}

/// The names of changed rules; `-` before those that are removed.
fn changed(received: &Received) -> Vec<String> {
    let changes = received.changes.iter();
    let names = changes.map(|(key, rule)| {
        let sign = if rule.is_some() { "" } else { "-" };
        format!("{sign}{}", key.key)
    });
    names.collect()
}

fn keys(rules: &[Resource]) -> Vec<ResourceKey> {
    rules.iter().map(Resource::resource_key).collect()
}

/// What refuses requests in the place of a rejected rule is for one without a previous version: beside one, it
/// would win at equal matches.
#[test]
fn a_rejected_rule_keeps_its_previous_version_in_another_form() {
    for (before, after) in [
        (at_listeners(1), vec![shared(2)]),
        (vec![shared(1)], at_listeners(2)),
    ] {
        let mut client = Client::new("pod".to_owned());
        let first = response(Kind::Route, "1/1/1", &before, &[]);
        let received = whole(&mut client, first);
        let _ = client.acknowledge(received, Vec::new());
        let held_before = held(&mut client, Kind::Route);
        assert_eq!(held_before.len(), before.len());

        // A new stream, to another controller.
        let gone = keys(&before);
        let gone: Vec<&ResourceKey> = gone.iter().collect();
        let other = response(Kind::Route, "1/1/1", &after, &gone);
        let received = whole(&mut client, of_a_later_version(other));
        assert_eq!(changed(&received), [""; 0], "the previous version stays");
        assert_eq!(received.refused.len(), after.len());
        for refused in &received.refused {
            assert!(!refused.text.contains("status 500"), "{}", refused.text);
        }
        let _ = client.acknowledge(received, Vec::new());
        assert_eq!(client.substituted().count(), 0);
        assert_eq!(held(&mut client, Kind::Route), held_before);

        // And goes once it can be applied.
        let corrected = response(Kind::Route, "1/1/1", &after, &gone);
        let received = whole(&mut client, corrected);
        assert_eq!(changed(&received).len(), before.len() + after.len());
        let _ = client.acknowledge(received, Vec::new());
        assert_eq!(held(&mut client, Kind::Route).len(), after.len());
    }
}

/// A rejected rule whose requests are refused has no previous version in any form.
#[test]
fn a_refusal_in_another_form_is_no_previous_version() {
    for (before, after) in [
        (at_listeners(1), vec![shared(2)]),
        (vec![shared(1)], at_listeners(2)),
    ] {
        let mut client = Client::new("pod".to_owned());
        let first = of_a_later_version(response(Kind::Route, "1/1/1", &before, &[]));
        let received = whole(&mut client, first);
        assert_eq!(changed(&received).len(), before.len());
        let _ = client.acknowledge(received, Vec::new());
        assert_eq!(client.substituted().count(), before.len());

        let _ = client.connect(Report::Versions);
        let gone = keys(&before);
        let gone: Vec<&ResourceKey> = gone.iter().collect();
        let other = response(Kind::Route, "1/1/1", &after, &gone);
        let received = whole(&mut client, of_a_later_version(other));
        let mut refusing = changed(&received);
        refusing.sort();
        let expected: Vec<&str> = after.iter().map(Resource::key).collect();
        assert_eq!(refusing, expected);
        for refused in &received.refused {
            assert!(refused.text.contains("status 500"), "{}", refused.text);
        }
        let _ = client.acknowledge(received, Vec::new());

        let _ = client.connect(Report::Versions);
        let corrected = response(Kind::Route, "1/1/1", &after, &gone);
        let received = whole(&mut client, corrected);
        let _ = client.acknowledge(received, Vec::new());
        assert_eq!(client.substituted().count(), 0);
        assert_eq!(held(&mut client, Kind::Route).len(), after.len());
    }
}
