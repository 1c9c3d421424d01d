//! The proxy's side: parts, rejections of one object, and the initial requests of the next stream.

use prost::Message;
use xds::delta::{Client, Encoded, ProtocolError, Received, Refusal, Report};
use xds::discovery::{self, Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use xds::model::{
    Kind, ObjectName, Policy, PolicyKey, PolicySpec, PolicyTarget, Resource, ResourceKey,
};

use crate::support::{key, service};

/// One of the resources that the policy object `a/p` is.
fn policy(target: &str, content: &str) -> Resource {
    Resource::from(Policy {
        key: PolicyKey::new("TrafficPolicy", &ObjectName::new("a", "p"), target),
        target: PolicyTarget::Gateway(ObjectName::new("a", content)),
        spec: PolicySpec::default(),
    })
}

pub(crate) fn response(
    kind: Kind,
    position: &str,
    resources: &[Resource],
    removed: &[&ResourceKey],
) -> DeltaDiscoveryResponse {
    let resources = resources.iter().map(|resource| {
        let encoded = Encoded::new(resource);
        discovery::Resource {
            version: encoded.version.to_string(),
            name: encoded.key.key.to_string(),
            resource: Some(Any {
                type_url: kind.type_url().to_owned(),
                value: encoded.bytes,
            }),
        }
    });
    DeltaDiscoveryResponse {
        system_version_info: position.to_owned(),
        resources: resources.collect(),
        type_url: kind.type_url().to_owned(),
        nonce: format!("{kind} {position}"),
        removed_resources: removed.iter().map(|key| key.key.to_string()).collect(),
        ..DeltaDiscoveryResponse::default()
    }
}

/// The same with an invalid resource.
fn spoiled(mut response: DeltaDiscoveryResponse, name: &str) -> DeltaDiscoveryResponse {
    for resource in &mut response.resources {
        if resource.name.ends_with(name) {
            resource.resource = Some(Any {
                value: vec![0xff].into(),
                ..Any::default()
            });
        }
    }
    response
}

pub(crate) fn whole(client: &mut Client, response: DeltaDiscoveryResponse) -> Received {
    let received = client.receive(response).expect("it is a part");
    received.expect("it is the last part")
}

fn changed(received: &Received) -> Vec<String> {
    let changes = received.changes.iter();
    let changes = changes.map(|(key, resource)| {
        let sign = if resource.is_some() { "" } else { "-" };
        let name = key.key.rsplit('/').next().unwrap_or_default();
        format!("{sign}{name}")
    });
    changes.collect()
}

pub(crate) fn held(client: &mut Client, kind: Kind) -> Vec<(String, String)> {
    let mut requests = client.connect(Report::Versions).into_iter();
    let request = requests.find(|request| request.type_url == kind.type_url());
    let versions = request.expect("it subscribes to all types");
    let mut versions: Vec<_> = versions.initial_resource_versions.into_iter().collect();
    versions.sort();
    versions
}

#[test]
fn a_batch_is_applied_only_after_its_last_part() {
    let mut client = Client::new("pod".to_owned());
    let first = response(Kind::Service, "7/1/2", &[service("x", 1)], &[]);
    let second = response(Kind::Policy, "7/2/2", &[policy("t", "v")], &[]);
    assert!(client.receive(first).expect("it is a part").is_none());
    let received = whole(&mut client, second);
    assert_eq!(changed(&received), ["x", "t"]);
    let answers = client.acknowledge(received, Vec::new());
    let nonces: Vec<_> = answers
        .iter()
        .map(|it| it.response_nonce.as_str())
        .collect();
    assert_eq!(nonces, ["Service 7/1/2", "Policy 7/2/2"]);
    assert!(answers.iter().all(|it| it.error_detail.is_none()));
}

#[test]
fn an_unfinished_batch_of_a_stream_is_dropped() {
    let mut client = Client::new("pod".to_owned());
    let half = response(Kind::Service, "7/1/2", &[service("x", 1)], &[]);
    assert!(client.receive(half).expect("it is a part").is_none());
    assert_eq!(held(&mut client, Kind::Service), []);
    let next = response(Kind::Service, "3/1/1", &[service("y", 1)], &[]);
    let received = whole(&mut client, next);
    assert_eq!(changed(&received), ["y"]);
}

#[test]
fn parts_out_of_order_end_the_stream() {
    let part = |position| response(Kind::Service, position, &[], &[]);
    for (first, then) in [("7/1/3", "7/3/3"), ("7/1/2", "8/2/2"), ("7/1/2", "7/1/2")] {
        let mut client = Client::new("pod".to_owned());
        client.receive(part(first)).expect("the first part");
        let error = client.receive(part(then)).expect_err("it is not the next");
        assert!(matches!(error, ProtocolError::OutOfOrder { .. }), "{error}");
    }
    for position in [
        "",
        "7",
        "7/0/1",
        "7/2/1",
        "7/1/1/1",
        "7/1/99999",
        "x/1/1",
        "7/2/2",
    ] {
        let mut client = Client::new("pod".to_owned());
        client.receive(part(position)).expect_err(position);
    }
    let mut client = Client::new("pod".to_owned());
    let mut unknown = part("7/1/1");
    unknown.type_url = "x".to_owned();
    let error = client.receive(unknown).expect_err("it is not ours");
    assert_eq!(error, ProtocolError::UnknownType("x".to_owned()));
    let mut bare = part("7/1/1");
    bare.nonce.clear();
    assert_eq!(
        client.receive(bare).expect_err("no nonce"),
        ProtocolError::NoNonce
    );
}

#[test]
fn a_rejected_resource_is_named_and_the_others_are_applied() {
    let mut client = Client::new("pod".to_owned());
    let both = response(
        Kind::Service,
        "1/1/1",
        &[service("x", 1), service("y", 1)],
        &[],
    );
    let received = whole(&mut client, spoiled(both, "y"));
    assert_eq!(changed(&received), ["x"]);
    let answers = client.acknowledge(received, Vec::new());
    let status = answers[0].error_detail.as_ref().expect("it is a refusal");
    assert!(
        status
            .message
            .contains("Service `Service/a/y` was rejected"),
        "{}",
        status.message
    );
    let [detail] = &*status.details else {
        panic!("one resource was refused");
    };
    let refusal = discovery::Refusal::decode(&*detail.value).expect("it is a refusal");
    assert_eq!(refusal.name, "Service/a/y");
    let held = held(&mut client, Kind::Service);
    assert_eq!(held.len(), 1, "what was refused is not held");
}

#[test]
fn one_invalid_rule_keeps_the_whole_object_at_its_previous_version() {
    let mut client = Client::new("pod".to_owned());
    let old = [
        policy("one", "old"),
        policy("two", "old"),
        policy("three", "old"),
    ];
    let received = whole(&mut client, response(Kind::Policy, "1/1/1", &old, &[]));
    assert_eq!(changed(&received), ["one", "three", "two"]);
    let _ = client.acknowledge(received, Vec::new());
    let before = held(&mut client, Kind::Policy);

    let three = policy("three", "old").resource_key();
    let new = [policy("one", "new"), policy("two", "new")];
    let new = response(Kind::Policy, "2/1/1", &new, &[&three]);
    let received = whole(&mut client, spoiled(new, "two"));
    assert_eq!(changed(&received), [""; 0]);
    assert_eq!(received.refused.len(), 1, "those that wait are not refused");
    let _ = client.acknowledge(received, Vec::new());

    // The controller sends only changes, so it sends only the correction.
    let corrected = response(Kind::Policy, "3/1/1", &[policy("two", "newer")], &[]);
    let received = whole(&mut client, corrected);
    assert_eq!(changed(&received), ["one", "-three", "two"]);
    let _ = client.acknowledge(received, Vec::new());
    assert_ne!(held(&mut client, Kind::Policy), before);
}

#[test]
fn resources_waiting_for_a_correction_are_not_reported_as_held() {
    let mut client = Client::new("pod".to_owned());
    let old = [policy("one", "old"), policy("two", "old")];
    let received = whole(&mut client, response(Kind::Policy, "1/1/1", &old, &[]));
    let _ = client.acknowledge(received, Vec::new());
    let before = held(&mut client, Kind::Policy);
    let new = [policy("one", "new"), policy("two", "new")];
    let new = response(Kind::Policy, "2/1/1", &new, &[]);
    let received = whole(&mut client, spoiled(new, "two"));
    let _ = client.acknowledge(received, Vec::new());
    assert_eq!(held(&mut client, Kind::Policy), before);
}

#[test]
fn removing_a_rejected_resource_ends_its_rejection() {
    let mut client = Client::new("pod".to_owned());
    let both = response(
        Kind::Policy,
        "1/1/1",
        &[policy("one", "v"), policy("two", "v")],
        &[],
    );
    let received = whole(&mut client, spoiled(both, "two"));
    assert_eq!(changed(&received), [""; 0]);
    let _ = client.acknowledge(received, Vec::new());
    let two = policy("two", "v").resource_key();
    let received = whole(&mut client, response(Kind::Policy, "2/1/1", &[], &[&two]));
    assert_eq!(changed(&received), ["one", "-two"]);
    let _ = client.acknowledge(received, Vec::new());
}

#[test]
fn failed_resources_are_rejected_again_on_the_next_stream() {
    let mut client = Client::new("pod".to_owned());
    let received = whole(
        &mut client,
        response(Kind::Service, "1/1/1", &[service("x", 1)], &[]),
    );
    let failed = Refusal {
        key: key("x"),
        text: "the address is in use".to_owned(),
    };
    let answers = client.acknowledge(received, vec![failed]);
    assert!(answers[0].error_detail.is_some());
    // It is in the model, so its removal must be sent; but without a version.
    let expected = [("Service/a/x".to_owned(), String::new())];
    assert_eq!(held(&mut client, Kind::Service), expected);
}

#[test]
fn a_resource_under_another_name_is_rejected() {
    let mut client = Client::new("pod".to_owned());
    let mut response = response(
        Kind::Service,
        "1/1/1",
        &[service("x", 1), service("y", 1)],
        &[],
    );
    response.resources[0].name = "Service/a/z".to_owned();
    response.resources[1].version = "1".to_owned();
    let received = whole(&mut client, response);
    assert_eq!(changed(&received), [""; 0]);
    let texts: Vec<_> = received.refused.iter().map(|it| it.text.as_str()).collect();
    let expected = [
        "its content is named `Service/a/x`",
        "`1` is not a version: 64 bits in base64url are expected",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn a_client_is_complete_after_a_response_for_every_type() {
    let mut client = Client::new("pod".to_owned());
    let requests: Vec<DeltaDiscoveryRequest> = client.connect(Report::Versions);
    assert_eq!(requests.len(), Kind::ALL.len());
    for (part, kind) in (1..).zip(Kind::ALL) {
        assert!(!client.is_complete());
        let response = response(kind, &format!("0/{part}/{}", Kind::ALL.len()), &[], &[]);
        if let Some(received) = client.receive(response).expect("it is a part") {
            let _ = client.acknowledge(received, Vec::new());
        }
    }
    assert!(client.is_complete());
    client.connect(Report::Versions);
    assert!(client.is_complete(), "also while the controller is away");
}

#[test]
fn resources_cached_by_an_earlier_process_are_reported_as_held() {
    let mut client = Client::new("pod".to_owned());
    let (one, other) = (service("x", 1), service("y", 1));
    let x = Encoded::new(&one);
    client.restore([(&one, Some(x.version)), (&other, None)]);
    assert!(client.is_complete(), "it was complete when it was saved");
    let expected = [
        ("Service/a/x".to_owned(), x.version.to_string()),
        ("Service/a/y".to_owned(), String::new()),
    ];
    assert_eq!(held(&mut client, Kind::Service), expected);
}

#[test]
fn the_digest_of_a_type_covers_the_held_resources() {
    let mut one = Client::new("pod".to_owned());
    assert_eq!(one.digest(Kind::Service), None);
    let received = whole(
        &mut one,
        response(
            Kind::Service,
            "1/1/1",
            &[service("x", 1), service("y", 1)],
            &[],
        ),
    );
    let _ = one.acknowledge(received, Vec::new());
    let both = one.digest(Kind::Service);
    let changes = response(Kind::Service, "2/1/1", &[service("x", 2)], &[&key("y")]);
    let received = whole(&mut one, changes);
    let _ = one.acknowledge(received, Vec::new());

    let mut other = Client::new("pod".to_owned());
    let x = service("x", 2);
    other.restore([(&x, Some(Encoded::new(&x).version))]);
    assert_eq!(one.digest(Kind::Service), other.digest(Kind::Service));
    assert_ne!(one.digest(Kind::Service), both);
}

#[test]
fn a_resource_that_cannot_be_applied_is_rejected() {
    let check = |resource: &Resource| match resource.key() {
        "Service/a/x" => Err("there is no room".to_owned()),
        _ => Ok(()),
    };
    let mut client = Client::with_check("pod".to_owned(), check);
    let both = [service("x", 1), service("y", 1)];
    let received = whole(&mut client, response(Kind::Service, "1/1/1", &both, &[]));
    assert_eq!(changed(&received), ["y"]);
    assert_eq!(received.refused[0].text, "there is no room");
    let _ = client.acknowledge(received, Vec::new());
}

/// Otherwise the controller would refuse the stream, and the proxy would never be configured again.
#[test]
fn a_type_whose_versions_are_too_many_to_report_is_received_again_as_a_whole() {
    let mut client = Client::new("proxy".to_owned());
    let resources = [service("one", 1), service("two", 1), policy("x", "y")];
    let version = |resource| Some(Encoded::new(resource).version);
    client.restore(resources.iter().map(|it| (it, version(it))));
    let many = (0..130_000).map(|number| service(&format!("{number:0100}"), 1));
    let many: Vec<_> = many.collect();
    client.restore(many.iter().map(|it| (it, version(&resources[0]))));
    let size = |requests: &[DeltaDiscoveryRequest]| -> usize {
        requests.iter().map(Message::encoded_len).sum()
    };
    let requests = client.connect(Report::Versions);
    // What a proxy says of itself and of the few others: not 13 MB of names.
    assert!(size(&requests) < 2_000, "{}", size(&requests));
    assert_eq!(held(&mut client, Kind::Policy).len(), 1);
    assert_eq!(held(&mut client, Kind::Service), []);

    // All services that there are, of which one has changed.
    let first = response(Kind::Service, "1/1/1", &[service("one", 2)], &[]);
    let received = whole(&mut client, first);
    assert_eq!(received.changes.len(), 130_002);
    let kept = received
        .changes
        .iter()
        .filter(|(_, resource)| resource.is_some());
    let kept: Vec<_> = kept.map(|(key, _)| key.clone()).collect();
    assert_eq!(kept, [resources[0].resource_key()]);
    client.acknowledge(received, vec![]);
    assert_eq!(held(&mut client, Kind::Service).len(), 1);

    // Later batches have changes only.
    let second = response(Kind::Service, "2/1/1", &[service("two", 1)], &[]);
    let received = whole(&mut client, second);
    assert_eq!(changed(&received), ["two"]);
}
