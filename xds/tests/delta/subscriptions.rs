//! Subscribing, unsubscribing, and starting a stream with held versions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use xds::delta::{Answered, Encoded, Member, Poll, ProxySession, Views};
use xds::discovery::DeltaDiscoveryRequest;
use xds::model::{Features, Kind, ObjectName};

use crate::support::{Stream, gateway, key, names, publication, service};

fn views(services: &[(&str, Option<u8>)]) -> Views {
    let mut views = Views::default();
    views.publish(publication(services));
    views
}

fn subscribe(names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        resource_names_subscribe: names.iter().map(|name| full(name)).collect(),
        ..DeltaDiscoveryRequest::default()
    }
}

fn unsubscribe(names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        resource_names_unsubscribe: names.iter().map(|name| full(name)).collect(),
        ..DeltaDiscoveryRequest::default()
    }
}

fn full(name: &str) -> String {
    if name == "*" {
        return name.to_owned();
    }
    format!("Service/a/{name}")
}

fn holding(versions: &[(&str, String)]) -> DeltaDiscoveryRequest {
    let versions = versions.iter();
    let versions: BTreeMap<_, _> = versions
        .map(|(name, version)| (full(name), version.clone()))
        .collect();
    DeltaDiscoveryRequest {
        initial_resource_versions: versions,
        ..DeltaDiscoveryRequest::default()
    }
}

fn version(name: &str, content: u8) -> String {
    Encoded::new(&service(name, content)).version.to_string()
}

#[test]
fn no_response_is_sent_before_the_first_publication() {
    let mut views = Views::default();
    let mut stream = Stream::subscribed(&mut views);
    assert_eq!(stream.poll(&mut views), Poll::Wait(None));
    views.publish(publication(&[]));
    let sent = stream.sent(&mut views);
    assert_eq!(
        sent.len(),
        Kind::ALL.len(),
        "each type, even without resources"
    );
}

#[test]
fn the_first_response_waits_a_bounded_time_for_the_other_types() {
    let mut views = views(&[("x", Some(1))]);
    let mut stream = Stream::to(&mut views);
    stream.request(Kind::Service, subscribe(&[]));
    let Poll::Wait(Some(until)) = stream.poll(&mut views) else {
        panic!("it responds before it knows the subscriptions");
    };
    let Poll::Send(unsent) = stream.session.poll(&mut views, until) else {
        panic!("it has waited long enough");
    };
    assert_eq!(stream.session.send(unsent).len(), 1);
}

#[test]
fn an_unknown_name_is_reported_as_removed() {
    let mut views = views(&[("x", Some(1))]);
    let mut stream = Stream::to(&mut views);
    stream.services(subscribe(&["x", "none"]));
    assert_eq!(stream.names(&mut views), ["-none", "x"]);
    views.publish(publication(&[("none", Some(1)), ("other", Some(1))]));
    assert_eq!(stream.names(&mut views), ["none"]);
}

#[test]
fn a_name_of_another_gateway_is_unknown() {
    let mut views = views(&[("x", Some(1))]);
    let mut of_other = publication(&[("secret", Some(1))]);
    of_other.members = vec![(ObjectName::new("b", "other"), key("secret"), Member::Joined)];
    views.publish(of_other);
    let mut named = Stream::to(&mut views);
    named.services(subscribe(&["secret"]));
    assert_eq!(named.names(&mut views), ["-secret"]);
    let mut all = Stream::subscribed(&mut views);
    assert_eq!(all.names(&mut views), ["x"]);
}

#[test]
fn an_acknowledgement_without_names_is_not_a_wildcard_subscription() {
    let mut views = views(&[("x", Some(1)), ("y", Some(1))]);
    let mut stream = Stream::to(&mut views);
    stream.services(subscribe(&["x"]));
    assert_eq!(stream.names(&mut views), ["x"]);
    assert_eq!(stream.names(&mut views), [""; 0]);
    views.publish(publication(&[("y", Some(2))]));
    assert_eq!(stream.names(&mut views), [""; 0]);
}

#[test]
fn a_request_with_a_stale_nonce_changes_the_subscription() {
    let mut views = views(&[("x", Some(1)), ("y", Some(1))]);
    let mut stream = Stream::to(&mut views);
    stream.services(subscribe(&["x"]));
    stream.names(&mut views);
    let stale = DeltaDiscoveryRequest {
        response_nonce: "0-0".to_owned(),
        ..subscribe(&["y"])
    };
    assert_eq!(stream.services(stale), Answered::Nothing);
    assert_eq!(stream.names(&mut views), ["y"]);
}

#[test]
fn a_nack_changes_the_subscription() {
    let mut views = views(&[("x", Some(1)), ("y", Some(1))]);
    let mut stream = Stream::to(&mut views);
    stream.services(subscribe(&["x"]));
    let sent = stream.sent(&mut views);
    let refusal = DeltaDiscoveryRequest {
        response_nonce: sent[0].nonce.clone(),
        error_detail: Some(xds::discovery::Status::default()),
        ..subscribe(&["y"])
    };
    assert!(matches!(stream.services(refusal), Answered::Refused(_)));
    assert_eq!(stream.names(&mut views), ["y"]);
}

#[test]
fn a_resubscribed_name_is_sent_again() {
    let mut views = views(&[("x", Some(1))]);
    let mut stream = Stream::to(&mut views);
    stream.services(subscribe(&["x"]));
    assert_eq!(stream.names(&mut views), ["x"]);
    stream.services(subscribe(&["x"]));
    assert_eq!(stream.names(&mut views), ["x"]);
}

#[test]
fn unsubscribed_names_are_no_longer_sent() {
    let mut views = views(&[("x", Some(1)), ("y", Some(1))]);
    let mut stream = Stream::to(&mut views);
    stream.services(subscribe(&["x", "y"]));
    stream.names(&mut views);
    stream.services(unsubscribe(&["x"]));
    views.publish(publication(&[("x", Some(2)), ("y", Some(2))]));
    assert_eq!(stream.names(&mut views), ["y"]);
}

#[test]
fn a_name_covered_by_a_wildcard_is_sent_again_when_unsubscribed() {
    let mut views = views(&[("x", Some(1))]);
    let mut stream = Stream::to(&mut views);
    stream.services(subscribe(&["*", "x", "none"]));
    assert_eq!(stream.names(&mut views), ["-none", "x"]);
    stream.services(unsubscribe(&["x", "none"]));
    assert_eq!(stream.names(&mut views), ["-none", "x"]);
    stream.services(unsubscribe(&["*"]));
    views.publish(publication(&[("x", Some(2))]));
    assert_eq!(stream.names(&mut views), [""; 0]);
    stream.services(subscribe(&["*"]));
    assert_eq!(stream.names(&mut views), ["x"]);
}

#[test]
fn a_reconnected_client_is_sent_differences_and_removals() {
    let mut views = views(&[("same", Some(1)), ("changed", Some(2)), ("new", Some(1))]);
    let mut stream = Stream::to(&mut views);
    stream.services(holding(&[
        ("same", version("same", 1)),
        ("changed", version("changed", 1)),
        ("gone", version("gone", 1)),
    ]));
    assert_eq!(stream.names(&mut views), ["-gone", "changed", "new"]);
}

#[test]
fn a_reconnected_client_of_some_names_is_sent_theirs_only() {
    let mut views = views(&[
        ("changed", Some(2)),
        ("new", Some(1)),
        ("other", Some(1)),
        ("same", Some(1)),
    ]);
    let mut stream = Stream::to(&mut views);
    let wanted = ["a", "changed", "gone", "new", "never", "same", "z"];
    let held = ["a", "changed", "gone", "other", "same", "unwanted", "z"];
    let held = held.map(|name| (name, version(name, 1)));
    stream.services(DeltaDiscoveryRequest {
        resource_names_subscribe: subscribe(&wanted).resource_names_subscribe,
        ..holding(&held)
    });
    let expected = ["-a", "changed", "-gone", "-never", "new", "-z"];
    let mut sent = stream.names(&mut views);
    sent.sort_by(|one, other| {
        one.trim_start_matches('-')
            .cmp(other.trim_start_matches('-'))
    });
    assert_eq!(sent, expected);
}

#[test]
fn held_versions_are_reported_only_at_the_start() {
    let mut views = views(&[("x", Some(1))]);
    let mut stream = Stream::to(&mut views);
    stream.services(subscribe(&[]));
    assert_eq!(stream.names(&mut views), ["x"]);
    stream.services(holding(&[("other", version("other", 1))]));
    assert_eq!(stream.names(&mut views), [""; 0]);
}

#[test]
fn an_up_to_date_client_gets_an_empty_batch() {
    let mut views = views(&[("x", Some(1))]);
    let mut stream = Stream::to(&mut views);
    stream.services(holding(&[("x", version("x", 1))]));
    let sent = stream.sent(&mut views);
    assert_eq!(sent.len(), 1);
    assert_eq!(names(&sent), [""; 0]);
}

#[test]
fn a_request_for_an_unknown_type_does_not_affect_others() {
    let mut views = views(&[("x", Some(1))]);
    let mut session = ProxySession::begin(&mut views, gateway(), Features::all());
    let request = DeltaDiscoveryRequest {
        type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned(),
        ..DeltaDiscoveryRequest::default()
    };
    let error = session.receive(request, Instant::now());
    assert!(
        error
            .expect_err("it is not ours")
            .to_string()
            .contains("Cluster")
    );
    let mut stream = Stream::subscribed(&mut views);
    assert_eq!(stream.names(&mut views), ["x"]);
}

/// The requests of a later version, which has one more type.
#[test]
fn a_type_of_a_later_version_is_answered_once_and_empty() {
    let later = "type.googleapis.com/gateway_system.model.v1.Meter";
    let mut views = views(&[("x", Some(1))]);
    let mut stream = Stream::to(&mut views);
    let now = Instant::now();
    let request = |nonce: &str| DeltaDiscoveryRequest {
        type_url: later.to_owned(),
        response_nonce: nonce.to_owned(),
        ..DeltaDiscoveryRequest::default()
    };
    stream
        .session
        .receive(request(""), now)
        .expect_err("to be logged");
    for kind in Kind::ALL {
        stream.request(kind, DeltaDiscoveryRequest::default());
    }
    let sent = stream.sent(&mut views);
    let (own, others): (Vec<_>, Vec<_>) = sent.iter().partition(|it| it.type_url == later);
    let [answer] = &*own else {
        panic!("one response: {sent:?}");
    };
    assert!(answer.resources.is_empty() && answer.removed_resources.is_empty());
    let position: Vec<_> = answer.system_version_info.split('/').collect();
    assert_eq!(position[1..], ["1", "1"], "a batch of its own");
    let nonces: BTreeSet<_> = sent.iter().map(|it| &it.nonce).collect();
    assert!(nonces.len() == sent.len() && !answer.nonce.is_empty());
    let types: BTreeSet<_> = others.iter().map(|it| &*it.type_url).collect();
    assert_eq!(types, Kind::ALL.iter().map(|it| it.type_url()).collect());
    assert_eq!(names(&sent), ["x"]);

    // Neither its acknowledgement nor another request is answered.
    for nonce in [&answer.nonce, ""] {
        let answered = stream.session.receive(request(nonce), now);
        assert_eq!(answered, Ok(Answered::Nothing));
    }
    for response in others {
        stream.answer(response, None);
    }
    assert_eq!(stream.sent(&mut views), []);
}

#[test]
fn only_some_unknown_types_of_a_stream_are_answered() {
    let mut views = views(&[]);
    let mut stream = Stream::to(&mut views);
    for number in 0..1_000 {
        let request = DeltaDiscoveryRequest {
            type_url: format!("type {number}"),
            ..DeltaDiscoveryRequest::default()
        };
        let received = stream.session.receive(request, Instant::now());
        received.expect_err("it is not ours");
    }
    assert_eq!(stream.sent(&mut views).len(), 16);
}
