//! Batches: coalescing, sharing, parts, acknowledgement and refusal.

use std::sync::Arc;

use xds::delta::{Acknowledged, Answered, Encoded, Member, Poll, Publication, Refusal, Views};
use xds::discovery::Status;
use xds::model::{Kind, ObjectName, Resource, Service, ServiceKey, SessionAffinity};

use crate::support::{Stream, gateway, key, names, publication};

fn connected(services: &[(&str, Option<u8>)]) -> (Views, Stream) {
    let mut views = Views::default();
    views.publish(publication(services));
    let mut stream = Stream::subscribed(&mut views);
    stream.names(&mut views);
    (views, stream)
}

#[test]
fn only_changes_are_sent() {
    let (mut views, mut stream) = connected(&[("x", Some(1)), ("y", Some(1))]);
    views.publish(publication(&[("x", Some(2))]));
    assert_eq!(stream.names(&mut views), ["x"]);
    let changed = views.publish(publication(&[("x", Some(2))]));
    assert!(changed.is_empty(), "the same again is no change");
    assert_eq!(stream.poll(&mut views), Poll::Wait(None));
}

/// A part of the configuration would be a wrong one.
#[test]
fn what_is_staged_is_sent_with_the_first_publication() {
    let mut views = Views::default();
    views.stage(publication(&[("x", Some(1)), ("y", Some(1))]));
    let mut stream = Stream::subscribed(&mut views);
    assert_eq!(stream.poll(&mut views), Poll::Wait(None));
    views.stage(publication(&[("x", Some(2)), ("y", None), ("z", Some(1))]));
    assert!(!views.is_complete());
    let changed = views.publish(Publication::default());
    assert_eq!(changed, [gateway()].into());
    assert!(views.is_complete());
    assert_eq!(stream.names(&mut views), ["x", "z"]);
}

#[test]
fn changes_during_a_batch_form_the_next_batch() {
    let (mut views, mut stream) = connected(&[("x", Some(1)), ("y", Some(1))]);
    views.publish(publication(&[("x", Some(2))]));
    let sent = stream.sent(&mut views);
    views.publish(publication(&[("x", Some(3)), ("z", Some(1))]));
    views.publish(publication(&[("y", None), ("z", None)]));
    assert_eq!(stream.poll(&mut views), Poll::Wait(None));
    stream.acknowledge(&sent);
    assert_eq!(stream.names(&mut views), ["-y", "-z", "x"]);
}

#[test]
fn a_recreated_resource_is_sent() {
    let (mut views, mut stream) = connected(&[("x", Some(1))]);
    views.publish(publication(&[("x", None)]));
    views.publish(publication(&[("x", Some(1))]));
    assert_eq!(stream.names(&mut views), ["x"]);
}

#[test]
fn a_resource_can_leave_one_view_and_stay_in_others() {
    let (mut views, mut stream) = connected(&[("x", Some(1))]);
    let leave = Publication {
        members: vec![
            (ObjectName::new("b", "other"), key("x"), Member::Joined),
            (gateway(), key("x"), Member::Left),
        ],
        ..Publication::default()
    };
    views.publish(leave);
    assert_eq!(stream.names(&mut views), ["-x"]);
    let rejoin = Publication {
        members: vec![(gateway(), key("x"), Member::Joined)],
        ..Publication::default()
    };
    views.publish(rejoin);
    assert_eq!(stream.names(&mut views), ["x"]);
}

#[test]
fn connections_at_the_same_version_share_encoded_responses() {
    let (mut views, mut one) = connected(&[("x", Some(1))]);
    let mut other = Stream::subscribed(&mut views);
    other.names(&mut views);
    views.publish(publication(&[("x", Some(2))]));
    let (one, other) = (one.outgoing(&mut views), other.outgoing(&mut views));
    assert_eq!(one[0].body.as_ptr(), other[0].body.as_ptr());
    assert_ne!(one[0].tail, other[0].tail, "nonces are of one stream");
}

#[test]
fn large_batches_are_sent_in_numbered_parts() {
    let service = |number: u32| {
        Resource::from(Service {
            key: ServiceKey::new(&ObjectName::new("a", &number.to_string())),
            vips: vec![std::net::Ipv6Addr::from(u128::from(number)).into(); 10_000],
            ports: Vec::new(),
            session_affinity: SessionAffinity::None,
        })
    };
    let services: Vec<Resource> = (0..30).map(service).collect();
    let publication = Publication {
        resources: services
            .iter()
            .map(|it| (it.resource_key(), Some(Arc::new(Encoded::new(it)))))
            .collect(),
        members: services
            .iter()
            .map(|it| (gateway(), it.resource_key(), Member::Joined))
            .collect(),
    };
    let mut views = Views::default();
    views.publish(publication);
    let mut stream = Stream::subscribed(&mut views);
    let outgoing = stream.outgoing(&mut views);
    let sizes = outgoing.iter().map(|it| it.body.len() + it.tail.len());
    assert!(sizes.max().is_some_and(|max| max <= 1 << 20));
    let sent: Vec<_> = outgoing.iter().map(crate::support::decoded).collect();
    assert_eq!(names(&sent).len(), services.len());
    let services = sent
        .iter()
        .filter(|it| it.type_url == Kind::Service.type_url());
    assert!(services.count() > 1);
    let positions: Vec<_> = sent
        .iter()
        .map(|it| it.system_version_info.as_str())
        .collect();
    let expected = (1..=sent.len()).map(|part| format!("30/{part}/{}", sent.len()));
    assert_eq!(positions, expected.collect::<Vec<_>>());
}

#[test]
fn each_part_is_acknowledged_once_by_its_own_nonce_and_type() {
    let mut views = Views::default();
    views.publish(publication(&[("x", Some(1))]));
    let mut stream = Stream::subscribed(&mut views);
    let sent = stream.sent(&mut views);
    let mut of_other_type = sent[0].clone();
    of_other_type.nonce.clone_from(&sent[1].nonce);
    assert_eq!(stream.answer(&of_other_type, None), Answered::Nothing);
    let mut of_other_stream = sent[0].clone();
    of_other_stream.nonce = format!("9{}", sent[0].nonce);
    assert_eq!(stream.answer(&of_other_stream, None), Answered::Nothing);
    assert_eq!(
        stream.session.acknowledged(&views, &key("x")),
        Acknowledged::Open
    );
    stream.acknowledge(&sent);
    assert_eq!(stream.answer(&sent[0], None), Answered::Nothing, "again");
    assert_eq!(
        stream.session.acknowledged(&views, &key("x")),
        Acknowledged::Yes
    );
}

#[test]
fn a_rejected_resource_is_not_sent_again_until_it_changes() {
    let (mut views, mut stream) = connected(&[("x", Some(1)), ("y", Some(1))]);
    views.publish(publication(&[("x", Some(2)), ("y", Some(2))]));
    let sent = stream.sent(&mut views);
    let status = Status {
        code: 3,
        message: "it is wrong".to_owned(),
        details: Vec::new(),
    };
    let refusal = |name| Refusal {
        key: key(name),
        text: "it is wrong".to_owned(),
    };
    let answered = stream.answer(&sent[0], Some(status));
    assert_eq!(
        answered,
        Answered::Refused(vec![refusal("x"), refusal("y")])
    );
    let known =
        |stream: &Stream, views: &Views, name| match stream.session.acknowledged(views, &key(name))
        {
            Acknowledged::Refused(text) => text.to_owned(),
            other => format!("{other:?}"),
        };
    assert_eq!(known(&stream, &views, "x"), "it is wrong");
    assert_eq!(stream.poll(&mut views), Poll::Wait(None));

    views.publish(publication(&[("x", Some(3))]));
    assert_eq!(known(&stream, &views, "x"), "Open");
    assert_eq!(stream.names(&mut views), ["x"]);
    assert_eq!(known(&stream, &views, "x"), "Yes");
    assert_eq!(known(&stream, &views, "y"), "it is wrong");
}

#[test]
fn a_connection_too_far_behind_must_resynchronise() {
    let (mut views, mut slow) = connected(&[("x", Some(1))]);
    views.publish(publication(&[("x", Some(2))]));
    let unanswered = slow.sent(&mut views);
    for number in 0..5_000 {
        let name = number.to_string();
        views.publish(publication(&[(&name, Some(1))]));
        views.publish(publication(&[(&name, None)]));
    }
    slow.acknowledge(&unanswered);
    assert_eq!(slow.poll(&mut views), Poll::Resynchronise);
    slow.session.end(&mut views);
    let mut again = Stream::subscribed(&mut views);
    assert_eq!(again.names(&mut views), ["x"]);
}
