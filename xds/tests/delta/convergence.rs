//! Both sides converge to the same resources, whatever happens in between.

use std::collections::BTreeMap;
use std::time::Instant;

use proptest::prelude::*;
use xds::delta::{Client, Encoded, Poll, ProxySession, Report, Views};
use xds::discovery::{self, Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, Status};
use xds::model::{Features, Kind, Model, Resource};

use crate::support::{Stream, decoded, gateway, publication, service};

const NAMES: [&str; 4] = ["w", "x", "y", "z"];

#[derive(Debug, Clone)]
enum Step {
    Publish(Vec<(&'static str, Option<u8>)>),
    /// Everything that is due is sent and accepted.
    Deliver,
    /// The same, but one response is rejected, whatever its content.
    Refuse,
    /// Responses are sent, and the stream ends before this many of them arrive.
    Break(usize),
    Reconnect,
}

fn step() -> impl Strategy<Value = Step> {
    let content = prop::option::weighted(0.7, 1..4_u8);
    let change = (prop::sample::select(&NAMES[..]), content);
    prop_oneof![
        4 => prop::collection::vec(change, 0..3).prop_map(Step::Publish),
        3 => Just(Step::Deliver),
        1 => Just(Step::Refuse),
        1 => (0..8_usize).prop_map(Step::Break),
        1 => Just(Step::Reconnect),
    ]
}

/// A client that applies every response as it arrives.
#[derive(Default)]
struct Naive(BTreeMap<String, String>);

impl Naive {
    fn take(&mut self, response: &DeltaDiscoveryResponse) {
        for resource in &response.resources {
            self.0
                .insert(resource.name.clone(), resource.version.clone());
        }
        for name in &response.removed_resources {
            self.0.remove(name);
        }
    }

    fn connect(&self, views: &mut Views) -> Stream {
        let mut stream = Stream::to(views);
        for kind in Kind::ALL {
            let held = self.0.clone().into_iter();
            let initial_resource_versions = if kind == Kind::Service {
                held.collect()
            } else {
                BTreeMap::new()
            };
            stream.request(
                kind,
                DeltaDiscoveryRequest {
                    initial_resource_versions,
                    ..DeltaDiscoveryRequest::default()
                },
            );
        }
        stream
    }

    fn deliver(&mut self, stream: &mut Stream, views: &mut Views) {
        loop {
            let sent = stream.sent(views);
            if sent.is_empty() {
                return;
            }
            for response in &sent {
                self.take(response);
            }
            stream.acknowledge(&sent);
        }
    }
}

fn versions(services: &BTreeMap<&str, u8>) -> BTreeMap<String, String> {
    let services = services.iter().map(|(name, content)| {
        let encoded = Encoded::new(&service(name, *content));
        (encoded.key.key.to_string(), encoded.version.to_string())
    });
    services.collect()
}

proptest! {
    #[test]
    fn a_naive_client_reaches_the_published_state(steps in prop::collection::vec(step(), 1..40)) {
        let (mut views, mut naive) = (Views::default(), Naive::default());
        views.publish(publication(&[]));
        let mut stream = naive.connect(&mut views);
        let mut published = BTreeMap::new();
        for step in steps {
            match step {
                Step::Publish(changes) => {
                    views.publish(publication(&changes));
                    for (name, content) in changes {
                        match content {
                            Some(content) => published.insert(name, content),
                            None => published.remove(name),
                        };
                    }
                }
                Step::Deliver => naive.deliver(&mut stream, &mut views),
                Step::Refuse => {
                    let sent = stream.sent(&mut views);
                    for (at, response) in sent.iter().enumerate() {
                        naive.take(response);
                        let refusal = (at == 0).then(Status::default);
                        stream.answer(response, refusal);
                    }
                }
                Step::Break(arrive) => {
                    stream.sent(&mut views).iter().take(arrive).for_each(|it| naive.take(it));
                    std::mem::replace(&mut stream, naive.connect(&mut views)).session.end(&mut views);
                }
                Step::Reconnect => {
                    std::mem::replace(&mut stream, naive.connect(&mut views)).session.end(&mut views);
                }
            }
        }
        naive.deliver(&mut stream, &mut views);
        prop_assert_eq!(naive.0, versions(&published));
    }

    /// A server that compares its resources with those it assumes the client has.
    #[test]
    fn the_client_converges_with_a_naive_server(
        states in prop::collection::vec(
            prop::collection::btree_map(prop::sample::select(&NAMES[..]), 1..4_u8, 0..4),
            1..12,
        ),
        spoiled in prop::collection::vec(prop::option::of(0..4_usize), 12),
        reconnect in prop::collection::vec(any::<bool>(), 12),
        cut in prop::collection::vec(prop::bool::weighted(0.2), 12),
    ) {
        let (mut client, mut model) = (Client::new("pod".to_owned()), Model::default());
        let mut believed: BTreeMap<String, String> = BTreeMap::new();
        let last = states.len() - 1;
        for (at, state) in states.iter().enumerate() {
            // Finally everything is sent again without errors.
            if reconnect[at] || at == last {
                let mut requests = client.connect(Report::Versions).into_iter();
                let services = requests.find(|it| it.type_url == Kind::Service.type_url());
                believed = services.expect("it subscribes").initial_resource_versions
                    .into_iter().collect();
            }
            let parts = naive_parts(state, &mut believed);
            let cut = cut[at] && at < last;
            for (number, mut response) in parts.into_iter().enumerate() {
                if spoiled[at] == Some(number) && at < last {
                    response.resources.iter_mut().for_each(|it| it.resource = None);
                }
                if cut && response.system_version_info == "1/1/2" {
                    // The rest is lost with the stream.
                    client.receive(response).expect("it is a part");
                    client.connect(Report::Versions);
                    break;
                }
                if let Some(received) = client.receive(response).expect("it is a part") {
                    model.apply(received.changes.clone());
                    let _ = client.acknowledge(received, Vec::new());
                }
            }
        }
        let mut expected = Model::default();
        for (name, content) in &states[last] {
            expected.insert(service(name, *content));
        }
        prop_assert_eq!(model, expected);
    }

    #[test]
    fn the_client_and_the_server_converge(
        steps in prop::collection::vec(step(), 1..40),
        compares_digests in any::<bool>(),
    ) {
        let report = if compares_digests { Report::Digests } else { Report::Versions };
        let (mut views, mut model) = (Views::default(), Model::default());
        views.publish(publication(&[]));
        let mut client = Client::new("pod".to_owned());
        let mut session = connect(&mut client, report, &mut views);
        let mut published: BTreeMap<&str, Resource> = BTreeMap::new();
        for step in steps.into_iter().chain([Step::Reconnect, Step::Deliver]) {
            match step {
                Step::Publish(changes) => {
                    views.publish(publication(&changes));
                    for (name, content) in changes {
                        match content.map(|content| service(name, content)) {
                            Some(service) => published.insert(name, service),
                            None => published.remove(name),
                        };
                    }
                }
                Step::Deliver | Step::Refuse => {
                    exchange(&mut session, &mut client, &mut views, &mut model, usize::MAX);
                }
                Step::Break(arrive) => {
                    exchange(&mut session, &mut client, &mut views, &mut model, arrive);
                    let next = connect(&mut client, report, &mut views);
                    std::mem::replace(&mut session, next).end(&mut views);
                }
                Step::Reconnect => {
                    let next = connect(&mut client, report, &mut views);
                    std::mem::replace(&mut session, next).end(&mut views);
                }
            }
        }
        let mut expected = Model::default();
        for service in published.into_values() {
            expected.insert(service);
        }
        prop_assert_eq!(model, expected);
    }
}

/// The changes in two parts of equal size.
fn naive_parts(
    state: &BTreeMap<&str, u8>,
    believed: &mut BTreeMap<String, String>,
) -> Vec<DeltaDiscoveryResponse> {
    let mut parts = [1, 2].map(|part| DeltaDiscoveryResponse {
        system_version_info: format!("1/{part}/2"),
        type_url: Kind::Service.type_url().to_owned(),
        nonce: part.to_string(),
        ..DeltaDiscoveryResponse::default()
    });
    let wanted = versions(state);
    for (at, (name, content)) in state.iter().enumerate() {
        let encoded = Encoded::new(&service(name, *content));
        let version = encoded.version.to_string();
        if believed.get(&*encoded.key.key) != Some(&version) {
            parts[at % 2].resources.push(discovery::Resource {
                version,
                name: encoded.key.key.to_string(),
                resource: Some(Any {
                    type_url: Kind::Service.type_url().to_owned(),
                    value: encoded.bytes,
                }),
            });
        }
    }
    let gone = believed.keys().filter(|name| !wanted.contains_key(*name));
    parts[1].removed_resources = gone.cloned().collect();
    *believed = wanted;
    parts.into()
}

fn connect(client: &mut Client, report: Report, views: &mut Views) -> ProxySession {
    let mut session = ProxySession::begin(views, gateway(), Features::all());
    for request in client.connect(report) {
        session.receive(request, Instant::now()).expect("our types");
    }
    session
}

/// Sends until nothing is due, but at most this many responses.
fn exchange(
    session: &mut ProxySession,
    client: &mut Client,
    views: &mut Views,
    model: &mut Model,
    mut arrive: usize,
) {
    while let Poll::Send(unsent) = session.poll(views, Instant::now()) {
        for response in &session.send(unsent) {
            if arrive == 0 {
                return;
            }
            arrive -= 1;
            let response = decoded(response);
            if let Some(versions) = client.answer(&response) {
                session
                    .receive(versions, Instant::now())
                    .expect("our types");
                continue;
            }
            let received = client.receive(response).expect("it is a part");
            let Some(received) = received else { continue };
            model.apply(received.changes.clone());
            for answer in client.acknowledge(received, Vec::new()) {
                session.receive(answer, Instant::now()).expect("our types");
            }
        }
    }
}
