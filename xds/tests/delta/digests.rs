//! A proxy that reconnects reports digests, and lists only what differs.

use std::time::{Duration, Instant};

use xds::delta::{Answered, Client, Poll, ProxySession, Report, Views};
use xds::discovery::DeltaDiscoveryResponse;
use xds::model::{Features, Kind};

use crate::support::{decoded, gateway, key, names, publication};

/// A stream of a client that reports digests, until the controller waits.
struct Link<'a> {
    client: &'a mut Client,
    session: ProxySession,
    now: Instant,
    /// The types whose versions the controller asked for.
    asked: Vec<Kind>,
}

impl<'a> Link<'a> {
    fn open(client: &'a mut Client, views: &mut Views) -> Self {
        let session = ProxySession::begin(views, gateway(), Features::all());
        let mut link = Self {
            client,
            session,
            now: Instant::now(),
            asked: Vec::new(),
        };
        for request in link.client.connect(Report::Digests) {
            let answered = link.session.receive(request, link.now);
            assert_eq!(answered, Ok(Answered::Nothing));
        }
        link
    }

    /// The names that arrive until the controller waits.
    fn exchange(&mut self, views: &mut Views) -> Vec<String> {
        let mut arrived: Vec<DeltaDiscoveryResponse> = Vec::new();
        while let Poll::Send(responses) = self.session.poll(views, self.now) {
            for response in responses.iter().map(decoded) {
                if let Some(answer) = self.client.report_versions(&response) {
                    self.asked.extend(Kind::from_type_url(&response.type_url));
                    assert!(self.session.is_waiting(), "for the answer");
                    let nothing = self.session.poll(views, self.now);
                    let is_idle = matches!(nothing, Poll::Wait(_) | Poll::Send(_));
                    assert!(is_idle);
                    self.session.receive(answer, self.now).expect("a known type");
                    continue;
                }
                let received = self.client.receive(response.clone());
                arrived.push(response);
                if let Some(received) = received.expect("a valid response") {
                    for request in self.client.acknowledge(received, Vec::new()) {
                        self.session.receive(request, self.now).expect("a known type");
                    }
                }
            }
            self.now += Duration::from_millis(1);
        }
        names(&arrived)
    }
}

fn connected(views: &mut Views) -> Client {
    let mut client = Client::new("a/web/pod".to_owned());
    let mut link = Link::open(&mut client, views);
    link.exchange(views);
    assert_eq!(link.asked, [], "it holds nothing");
    link.session.end(views);
    client
}

#[test]
fn a_proxy_that_holds_everything_lists_nothing_and_gets_nothing() {
    let mut views = Views::default();
    views.publish(publication(&[("x", Some(1)), ("y", Some(1))]));
    let mut client = connected(&mut views);
    let mut link = Link::open(&mut client, &mut views);
    assert_eq!(link.exchange(&mut views), Vec::<String>::new());
    assert_eq!(link.asked, []);
    assert!(!link.session.is_waiting());
    // Changes follow as usual.
    views.publish(publication(&[("x", Some(2))]));
    assert_eq!(link.exchange(&mut views), ["x"]);
}

#[test]
fn what_differs_is_listed_and_only_that_is_sent() {
    let mut views = Views::default();
    views.publish(publication(&[("x", Some(1)), ("y", Some(1)), ("z", Some(1))]));
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
    client.restore([(key("x"), None)]);
    let mut link = Link::open(&mut client, &mut views);
    assert_eq!(link.exchange(&mut views), ["x"]);
    assert_eq!(link.asked, [Kind::Service]);
}
