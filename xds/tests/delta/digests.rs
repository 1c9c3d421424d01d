//! A proxy that reconnects reports digests, and lists only types that differ.

use std::sync::Arc;
use std::time::Instant;

use prost::Message as _;
use xds::delta::{
    Answered, Client, Encoded, Member, Poll, ProxySession, Publication, Report, Version, Views,
};
use xds::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use xds::model::{
    Features, Kind, ObjectName, Policy, PolicyKey, PolicySpec, PolicyTarget, Resource,
};

use crate::support::{Stream, decoded, gateway, names, publication, service};

/// A stream of a client that reports digests.
struct Link<'a> {
    client: &'a mut Client,
    session: ProxySession,
    now: Instant,
    /// The types whose versions the controller asked for.
    asked: Vec<Kind>,
}

impl<'a> Link<'a> {
    fn open(client: &'a mut Client, views: &mut Views) -> Self {
        let mut session = ProxySession::begin(views, gateway(), Features::all());
        let now = Instant::now();
        for request in client.connect(Report::Digests) {
            assert_eq!(request.initial_resource_versions.len(), 0);
            assert_eq!(session.receive(request, now), Ok(Answered::Nothing));
        }
        Self {
            client,
            session,
            now,
            asked: Vec::new(),
        }
    }

    /// The responses that are due.
    fn poll(&mut self, views: &mut Views) -> Vec<DeltaDiscoveryResponse> {
        match self.session.poll(views, self.now) {
            Poll::Send(unsent) => self.session.send(unsent).iter().map(decoded).collect(),
            Poll::Wait(None) => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    /// The client's answers to questions among these responses.
    fn answers(&mut self, responses: &[DeltaDiscoveryResponse]) -> Vec<DeltaDiscoveryRequest> {
        let mut answers = Vec::new();
        for response in responses {
            if let Some(answer) = self.client.answer(response) {
                self.asked.extend(Kind::from_type_url(&response.type_url));
                answers.push(answer);
            }
        }
        answers
    }

    fn receive(&mut self, request: DeltaDiscoveryRequest) {
        let answered = self.session.receive(request, self.now);
        assert_eq!(answered, Ok(Answered::Nothing));
    }

    /// The names that arrive until nothing is due.
    fn exchange(&mut self, views: &mut Views) -> Vec<String> {
        let mut arrived = Vec::new();
        loop {
            let responses = self.poll(views);
            if responses.is_empty() {
                assert!(!self.session.is_waiting());
                arrived.sort();
                return arrived;
            }
            let answers = self.answers(&responses);
            if !answers.is_empty() {
                assert_eq!(answers.len(), responses.len(), "questions come first");
                assert!(self.session.is_waiting(), "for the answers");
                for answer in answers {
                    self.receive(answer);
                }
                continue;
            }
            arrived.append(&mut names(&responses));
            for response in responses {
                let received = self.client.receive(response).expect("it is a part");
                let Some(received) = received else { continue };
                for request in self.client.acknowledge(received, Vec::new()) {
                    let answered = self.session.receive(request, self.now);
                    assert_eq!(answered, Ok(Answered::Accepted));
                }
            }
        }
    }
}

/// A client that holds everything that is published.
fn connected(views: &mut Views) -> Client {
    let mut client = Client::new("a/web/pod".to_owned());
    let mut link = Link::open(&mut client, views);
    link.exchange(views);
    assert_eq!(link.asked, [], "it holds nothing");
    link.session.end(views);
    client
}

/// A publication of policy `p` with this content.
fn policy(content: &str) -> Publication {
    let policy = Encoded::new(&Resource::from(Policy {
        key: PolicyKey::new("TrafficPolicy", &ObjectName::new("a", "p"), "p"),
        target: PolicyTarget::Gateway(ObjectName::new("a", content)),
        spec: PolicySpec::default(),
    }));
    let key = policy.key.clone();
    Publication {
        resources: vec![(key.clone(), Some(Arc::new(policy)))],
        members: vec![(gateway(), key, Member::Joined)],
    }
}

#[test]
fn a_proxy_that_holds_everything_lists_nothing_and_is_sent_nothing() {
    let mut views = Views::default();
    views.publish(publication(&[("x", Some(1)), ("y", Some(1))]));
    let mut client = connected(&mut views);
    // Another replica, which learned of them in another order.
    let mut views = Views::default();
    views.publish(publication(&[("y", Some(1)), ("z", Some(1))]));
    views.publish(publication(&[("z", None), ("x", Some(1))]));
    let mut link = Link::open(&mut client, &mut views);
    assert_eq!(link.exchange(&mut views), [""; 0]);
    assert_eq!(link.asked, []);
    // Changes follow as usual.
    views.publish(publication(&[("x", Some(2)), ("y", None)]));
    assert_eq!(link.exchange(&mut views), ["-y", "x"]);
    assert_eq!(link.asked, []);
}

#[test]
fn only_a_type_that_differs_is_listed_and_only_the_difference_sent() {
    let mut views = Views::default();
    views.publish(policy("same"));
    let services = [("x", Some(1)), ("y", Some(1)), ("z", Some(1))];
    views.publish(publication(&services));
    let mut client = connected(&mut views);
    views.publish(publication(&[("x", Some(2)), ("y", None)]));
    let mut link = Link::open(&mut client, &mut views);
    assert_eq!(link.exchange(&mut views), ["-y", "x"]);
    assert_eq!(link.asked, [Kind::Service]);
}

#[test]
fn what_could_not_be_applied_is_sent_again() {
    let mut views = Views::default();
    views.publish(publication(&[("x", Some(1)), ("y", Some(1))]));
    let mut client = connected(&mut views);
    client.restore([(&service("x", 1), None)]);
    let mut link = Link::open(&mut client, &mut views);
    assert_eq!(link.exchange(&mut views), ["x"]);
    assert_eq!(link.asked, [Kind::Service]);
}

/// The question is about one type, and the change of another whose digest was the same.
#[test]
fn what_changes_between_a_digest_and_an_answer_is_sent() {
    let mut views = Views::default();
    views.publish(policy("one"));
    views.publish(publication(&[("x", Some(1)), ("y", Some(1))]));
    let mut client = connected(&mut views);
    views.publish(policy("two"));
    let mut link = Link::open(&mut client, &mut views);
    let questions = link.poll(&mut views);
    let answers = link.answers(&questions);
    assert_eq!(link.asked, [Kind::Policy]);
    assert_eq!(link.poll(&mut views), [], "it waits for the answer");

    views.publish(publication(&[("x", Some(2))]));
    views.publish(policy("three"));
    assert_eq!(link.poll(&mut views).len(), 1, "now services differ, too");
    for answer in answers {
        link.receive(answer);
    }
    assert_eq!(link.poll(&mut views), [], "it waits for the other answer");
    let services = DeltaDiscoveryResponse {
        type_url: Kind::Service.type_url().to_owned(),
        report_versions: true,
        ..DeltaDiscoveryResponse::default()
    };
    let mut answer = link.client.answer(&services).expect("it is a question");
    link.receive(answer.clone());
    assert_eq!(link.poll(&mut views), [], "the answer to no question");
    // The second nonce of the stream.
    answer.response_nonce = format!("{}-2", link.session.number());
    link.receive(answer);
    assert_eq!(link.exchange(&mut views), ["p", "x"]);
    assert_eq!(link.asked, [Kind::Policy]);
}

#[test]
fn a_digest_of_another_release_is_one_that_differs() {
    let mut views = Views::default();
    views.publish(publication(&[("x", Some(1))]));
    let mut stream = Stream::to(&mut views);
    stream.services(DeltaDiscoveryRequest {
        initial_digest: vec![1; 32].into(),
        ..DeltaDiscoveryRequest::default()
    });
    let question = stream.sent(&mut views);
    assert!(question[0].report_versions, "{question:?}");
    stream.services(DeltaDiscoveryRequest {
        response_nonce: question[0].nonce.clone(),
        ..DeltaDiscoveryRequest::default()
    });
    assert_eq!(stream.names(&mut views), ["x"]);
}

/// Whatever the number of resources, the controller accepts the requests that a stream begins with.
#[test]
fn requests_of_a_proxy_do_not_grow_with_what_it_holds() {
    let version = Version::of(b"content");
    let mut client = Client::new("a/web/pod".to_owned());
    let many: Vec<Resource> = (0..200_000)
        .map(|number| service(&format!("{number:0100}"), 1))
        .collect();
    client.restore(many.iter().map(|it| (it, Some(version))));
    let requests = client.connect(Report::Digests).into_iter();
    let bytes: usize = requests.map(|request| request.encoded_len()).sum();
    assert!(bytes < 2_000, "{bytes}");

    // Asked for all of them, it is sent them again instead.
    let mut views = Views::default();
    views.publish(publication(&[("x", Some(1))]));
    let mut link = Link::open(&mut client, &mut views);
    assert_eq!(link.exchange(&mut views), ["x"]);
    assert_eq!(link.asked, [Kind::Service]);
    let held: Vec<_> = client.connect(Report::Versions).into_iter().collect();
    let held: Vec<_> = held
        .iter()
        .flat_map(|it| &it.initial_resource_versions)
        .collect();
    let x = Encoded::new(&service("x", 1));
    assert_eq!(held, [(&x.key.key.to_string(), &x.version.to_string())]);
}

#[test]
fn controllers_state_that_they_compare_digests() {
    for (stated, report) in [
        ("", Report::Versions),
        ("digest", Report::Versions),
        ("digests", Report::Digests),
        ("later, digests", Report::Digests),
    ] {
        assert_eq!(Report::stated(stated), report, "{stated}");
    }
}
