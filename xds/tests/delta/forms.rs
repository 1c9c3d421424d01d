//! The proxy's side when its controller is replaced by one of another release, which sends rules in another form.

use std::sync::Arc;

use xds::delta::{Client, Encoded, Received, Refusal, Report};
use xds::discovery::{Any, DeltaDiscoveryResponse};
use xds::model::{
    Attachment, Hostname, Kind, L4Rule, ListenerKey, ObjectName, Resource, ResourceKey, Route,
    RouteKey, RouteRule,
};

use crate::client::{held, response, whole};
use crate::support::gateway;

/// Rule 0 of route `a/shop` at both of its listeners.
fn shared(created: i64) -> Resource {
    shared_at(&["one", "two"], created)
}

/// The same at these listeners.
fn shared_at(listeners: &[&str], created: i64) -> Resource {
    shared_for(listeners, &[], created)
}

/// The same for these host names.
fn shared_for(listeners: &[&str], hosts: &[&str], created: i64) -> Resource {
    let hosts = hosts.iter();
    let hosts = hosts.map(|host| Hostname::parse(host).expect("a host name"));
    let hostnames: Arc<[Hostname]> = hosts.collect();
    let attachments = listeners.iter().map(|name| Attachment {
        listener: ListenerKey::new("Gateway", &gateway(), name),
        hostnames: Arc::clone(&hostnames),
    });
    Resource::from(Route {
        key: RouteKey::new("TLSRoute", &ObjectName::new("a", "shop"), 0, &gateway()),
        attachments: attachments.collect(),
        created,
        rule: RouteRule::Tls(L4Rule {
            name: None,
            backends: Vec::new(),
        }),
    })
}

/// The same in the form for one listener.
fn at_listeners(created: i64) -> Vec<Resource> {
    for_each_listener(shared(created))
}

fn for_each_listener(rule: Resource) -> Vec<Resource> {
    let Resource::Route(route) = rule else {
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

/// The last parts of the keys of changed rules; `closes` and its listeners with their host names for what refuses
/// requests beside a previous version, and `opens` if that ends.
fn changed_at(received: &Received) -> Vec<String> {
    let changes = received.changes.iter();
    let mut at: Vec<_> = changes
        .map(|(key, rule)| shown(&key.key, rule.as_ref()))
        .collect();
    at.sort();
    at
}

fn shown(key: &str, rule: Option<&Resource>) -> String {
    let place = key.rsplit('/').next().unwrap_or_default();
    let is_beside = key.contains("/substitute/");
    match rule {
        Some(Resource::Route(rule)) if is_beside => {
            let mut words = vec!["closes"];
            for Attachment {
                listener,
                hostnames,
            } in rule.attachments.iter()
            {
                words.push(listener.object_and_name().1);
                words.extend(hostnames.iter().map(Hostname::as_str));
            }
            words.join(" ")
        }
        Some(_) => place.to_owned(),
        None if is_beside => "opens".to_owned(),
        None => format!("-{place}"),
    }
}

/// Takes rules that this version cannot read. Returns where rules changed.
fn rejects(client: &mut Client, rules: &[Resource]) -> Vec<String> {
    let rules = of_a_later_version(response(Kind::Route, "1/1/1", rules, &[]));
    let received = whole(client, rules);
    let changed = changed_at(&received);
    for closes in received.changes.iter().flat_map(|(_, rule)| rule) {
        let saved = xds::decode::resource(Kind::Route, &Encoded::new(closes).bytes);
        assert_eq!(saved.as_ref(), Ok(closes), "the next process can read it");
    }
    let refused = received.refused.clone();
    let _ = client.acknowledge(received, Vec::new());
    let are_closed = client.substituted().count() > 0;
    for Refusal { text, .. } in &refused {
        assert_eq!(text.contains("status 500"), are_closed, "{text}");
    }
    changed
}

fn applies(client: &mut Client, rules: &[Resource]) -> Vec<String> {
    let received = whole(client, response(Kind::Route, "1/1/1", rules, &[]));
    let changed = changed_at(&received);
    let _ = client.acknowledge(received, Vec::new());
    changed
}

/// A wider rule there, which may be less protected, would get its requests.
#[test]
fn a_rejected_rule_refuses_its_requests_at_listeners_without_a_previous_version() {
    let mut client = Client::new("pod".to_owned());
    assert_eq!(applies(&mut client, &[shared_at(&["one"], 1)]), ["web"]);
    let none: [&str; 0] = [];
    assert_eq!(rejects(&mut client, &[shared_at(&["one"], 2)]), none);
    let two = [shared_at(&["one", "two"], 3)];
    assert_eq!(rejects(&mut client, &two), ["closes two"]);
    assert_eq!(rejects(&mut client, &two), none);
    let moved = [shared_at(&["one", "three"], 4)];
    assert_eq!(rejects(&mut client, &moved), ["closes three"]);
    let more = [shared_at(&["one", "three", "two"], 5)];
    assert_eq!(rejects(&mut client, &more), ["closes three two"]);
    assert_eq!(client.substituted().count(), 1);
    assert_eq!(rejects(&mut client, &[shared_at(&["one"], 6)]), ["opens"]);
    assert_eq!(rejects(&mut client, &two), ["closes two"]);
    let corrected = [shared_at(&["one", "two"], 7)];
    assert_eq!(applies(&mut client, &corrected), ["opens", "web"]);
    assert_eq!(client.substituted().count(), 0);
    assert_eq!(held(&mut client, Kind::Route).len(), 1);

    // The same if the previous version is that of another process.
    let (before, two) = (shared_at(&["one"], 1), shared_at(&["one", "two"], 2));
    let mut client = Client::new("pod".to_owned());
    client.restore([(&before, Some(Encoded::new(&before).version))]);
    let two = std::slice::from_ref(&two);
    assert_eq!(rejects(&mut client, two), ["closes two"]);
    // A new stream reports it as held, so it can be removed.
    let held_now = held(&mut client, Kind::Route);
    assert_eq!(held_now.len(), 2);
    assert_eq!(
        held_now
            .iter()
            .filter(|(_, version)| version.is_empty())
            .count(),
        1
    );
    let two_now: ResourceKey = client
        .substituted()
        .next()
        .expect("beside the rule")
        .clone();
    let gone = response(Kind::Route, "1/1/1", &[], &[&two_now]);
    let received = whole(&mut client, gone);
    assert_eq!(
        changed_at(&received),
        ["opens"],
        "the controller has the previous version too"
    );
    let _ = client.acknowledge(received, Vec::new());
    assert_eq!(client.substituted().count(), 0);
}

#[test]
fn a_rule_that_comes_for_each_listener_refuses_its_requests_at_new_ones() {
    let mut client = Client::new("pod".to_owned());
    let [one, two] = [1, 2].map(|created| for_each_listener(shared_at(&["one", "two"], created)));
    assert_eq!(applies(&mut client, &one[..1]), ["one"]);
    assert_eq!(rejects(&mut client, &two), ["closes two"]);
    assert_eq!(applies(&mut client, &two), ["one", "opens", "two"]);
    assert_eq!(client.substituted().count(), 0);
}

/// A wider rule, for `*.test`, would get the requests for the others.
#[test]
fn a_rejected_rule_refuses_its_requests_for_host_names_without_a_previous_version() {
    let every: &[&str] = &[];
    for (before, after, closes) in [
        (&["a.test"][..], &["a.test", "b.test"][..], &[" b.test"][..]),
        (&["a.test", "b.test"], &["b.test"], &[]),
        (&["a.test"], &["*.test"], &[" *.test"]),
        (&["a.test"], every, &[""]),
        (&["*.test"], &["*.test", "a.test"], &[]),
        (every, &["a.test"], &[]),
    ] {
        let before = shared_for(&["one"], before, 1);
        let after = shared_for(&["one"], after, 2);
        let forms = |rule: &Resource| [vec![rule.clone()], for_each_listener(rule.clone())];
        for (before, after) in forms(&before).into_iter().flat_map(|before| {
            let after = forms(&after).into_iter();
            after.map(move |after| (before.clone(), after))
        }) {
            let mut client = Client::new("pod".to_owned());
            assert_eq!(applies(&mut client, &before).len(), 1);
            let closes = closes.iter().map(|hosts| format!("closes one{hosts}"));
            let closes: Vec<String> = closes.collect();
            assert_eq!(rejects(&mut client, &after), closes, "{before:?} {after:?}");
            assert_eq!(client.substituted().count(), closes.len());
            let held_now = held(&mut client, Kind::Route);
            let previous = held_now.iter().filter(|(_, version)| !version.is_empty());
            let previous: Vec<_> = previous.map(|(key, _)| key.as_str()).collect();
            assert_eq!(previous, [before[0].key()], "it stays");
            let _ = applies(&mut client, &after);
            assert_eq!(client.substituted().count(), 0);
        }
    }
}

/// Each has its own.
#[test]
fn a_rule_that_comes_for_each_listener_refuses_its_requests_for_new_host_names() {
    let mut client = Client::new("pod".to_owned());
    let listeners = ["one", "two"];
    let before = for_each_listener(shared_for(&listeners, &["a.test"], 1));
    let after = for_each_listener(shared_for(&listeners, &["a.test", "b.test"], 2));
    assert_eq!(applies(&mut client, &before), ["one", "two"]);
    let closes = ["closes one b.test", "closes two b.test"];
    assert_eq!(rejects(&mut client, &after), closes);
    let opens = ["one", "opens", "opens", "two"];
    assert_eq!(applies(&mut client, &after), opens);
    assert_eq!(client.substituted().count(), 0);
}
