//! A controller in a thread of the test: it publishes resources translated from Gateway API YAML,
//! like the real one.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

use bytes::Buf as _;
use prost::Message as _;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::Grpc;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};
use tower::service_fn;
use translate::budgets::Limits;
use translate::files::{self, Source};
use translate::{Options, Store};
use xds::delta::{
    Answered, Encoded, Member, Outgoing, Poll, ProxySession, Publication, Refusal, Report, Symptom,
    Views,
};
use xds::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use xds::model::{Features, Kind, ObjectName, ResourceKey};
use xds_grpc::{METHOD, Prost};

use crate::support::pki::Credential;
use crate::support::{GatewayBuilder, Ports, TIMEOUT};

/// A controller, running or not, at an address that stays.
pub(crate) struct Controller {
    shared: Arc<Shared>,
    port: Ports,
    scheme: &'static str,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

#[derive(Default)]
struct Shared {
    published: Mutex<Published>,
    news: watch::Sender<()>,
    /// The accepted token; if `None`, any token or none is accepted.
    token: Mutex<Option<String>>,
    /// Whether it states no features, as the release before.
    is_former: AtomicBool,
    seen: Mutex<StreamLog>,
    changed: Condvar,
}

#[derive(Default)]
struct Published {
    views: Views,
    resources: BTreeMap<ResourceKey, Arc<Encoded>>,
}

/// The record of its streams.
#[derive(Debug, Default)]
pub(crate) struct StreamLog {
    /// Node IDs of proxies, by stream.
    pub(crate) nodes: Vec<String>,
    /// Names of resources that were sent, `-` before those that were removed.
    pub(crate) sent: Vec<String>,
    /// The types of which names and versions were reported.
    pub(crate) listed: Vec<Kind>,
    /// The types of responses that were accepted.
    pub(crate) accepted: Vec<Kind>,
    pub(crate) refused: Vec<Refusal>,
    /// The lists of symptoms.
    pub(crate) symptoms: Vec<Vec<Symptom>>,
    /// Rejected streams.
    pub(crate) denied: usize,
}

impl StreamLog {
    /// How many responses of a type were accepted.
    pub(crate) fn accepted_of(&self, kind: Kind) -> usize {
        self.accepted.iter().filter(|it| **it == kind).count()
    }
}

/// A running controller in plain text.
pub(crate) fn controller() -> Controller {
    let mut controller = Controller::new("http");
    controller.start(None);
    controller
}

/// A running controller with this certificate.
pub(crate) fn secure_controller(shows: &Credential) -> Controller {
    let mut controller = Controller::new("https");
    controller.start(Some(shows));
    controller
}

impl Controller {
    fn new(scheme: &'static str) -> Self {
        Self {
            shared: Arc::default(),
            port: Ports::free(1),
            scheme,
            running: None,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port[0])
    }

    /// Restarts, as another process that publishes the same.
    pub(crate) fn start(&mut self, shows: Option<&Credential>) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port[0]));
        let listener = TcpListener::bind(address).expect("our own port");
        listener.set_nonblocking(true).expect("a socket of ours");
        let mut server = Server::builder();
        if let Some(shows) = shows {
            let identity = Identity::from_pem(shows.pem(), shows.key_pem());
            let tls = ServerTlsConfig::new().identity(identity);
            server = server.tls_config(tls).expect("a valid configuration");
        }
        {
            let mut published = self.shared.published();
            published.views = Views::default();
            let all = published.resources.clone().into_iter();
            let all: Vec<_> = all.map(|(key, encoded)| (key, Some(encoded))).collect();
            if !all.is_empty() {
                published.publish(all);
            }
        }
        let shared = Arc::clone(&self.shared);
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let listener =
                    tokio::net::TcpListener::from_std(listener).expect("a socket of ours");
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                let service = service_fn(move |call| serve(call, Arc::clone(&shared)));
                tokio::select! {
                    ended = server.serve_with_incoming(service, incoming) => ended.expect("no failure"),
                    _ = stopped => {}
                }
            });
        });
        self.running = Some((stop, thread));
    }

    /// Stops immediately and closes all its connections.
    pub(crate) fn stop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
    }

    /// Accepts only this token from now on.
    pub(crate) fn accepts(&self, token: &str) {
        let mut accepted = self.shared.token.lock().expect("no holder panics");
        *accepted = Some(token.to_owned());
    }

    /// Withdraws the first resource of a kind while it is stopped. Returns its key.
    pub(crate) fn withdraws(&self, kind: Kind) -> ResourceKey {
        let mut published = self.shared.published();
        let mut keys = published.resources.keys();
        let key = keys
            .find(|key| key.kind == kind)
            .expect("there is one")
            .clone();
        published.resources.remove(&key);
        key
    }

    /// Becomes one of the release before, which does not compare digests.
    pub(crate) fn states_no_features(&self) {
        self.shared.is_former.store(true, Ordering::Relaxed);
    }

    /// Publishes exactly the translation of a gateway's YAML with listeners on these ports.
    pub(crate) fn publish(&self, builder: &GatewayBuilder, ports: &[u16]) {
        self.publish_with(builder, ports, |_| {});
    }

    /// The same, with some resources made undecodable.
    pub(crate) fn publish_with(
        &self,
        builder: &GatewayBuilder,
        ports: &[u16],
        spoil: impl Fn(&mut Encoded),
    ) {
        self.publish_all(resources(&builder.yaml(ports), &Options::machine(), spoil));
    }

    /// Publishes exactly the translation of a gateway's YAML within these budgets.
    pub(crate) fn publish_within(&self, builder: &GatewayBuilder, ports: &[u16], budgets: Limits) {
        let options = Options {
            budgets,
            ..Options::machine()
        };
        self.publish_all(resources(&builder.yaml(ports), &options, |_| {}));
    }

    fn publish_all(&self, new: BTreeMap<ResourceKey, Arc<Encoded>>) {
        let mut published = self.shared.published();
        let gone = published
            .resources
            .keys()
            .filter(|key| !new.contains_key(key));
        let gone = gone.map(|key| (key.clone(), None));
        let there = new
            .iter()
            .map(|(key, it)| (key.clone(), Some(Arc::clone(it))));
        let changes: Vec<_> = gone.chain(there).collect();
        published.publish(changes);
        published.resources = new;
        drop(published);
        self.shared.news.send_replace(());
    }

    /// Publishes these as well.
    pub(crate) fn publish_more(&self, resources: &[(ResourceKey, Arc<Encoded>)]) {
        let mut published = self.shared.published();
        let there = resources.iter();
        let there = there.map(|(key, it)| (key.clone(), Some(Arc::clone(it))));
        published.publish(there.collect());
        published.resources.extend(resources.iter().cloned());
        drop(published);
        self.shared.news.send_replace(());
    }

    /// The events so far.
    pub(crate) fn seen(&self) -> MutexGuard<'_, StreamLog> {
        self.shared.seen()
    }

    /// Waits until it has seen this.
    #[track_caller]
    pub(crate) fn waits_until(&self, is: impl Fn(&StreamLog) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        let mut seen = self.shared.seen();
        while !is(&seen) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "not seen: {seen:?}");
            let waited = self.shared.changed.wait_timeout(seen, left);
            (seen, _) = waited.expect("no holder panics");
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Published {
    fn publish(&mut self, resources: Vec<(ResourceKey, Option<Arc<Encoded>>)>) {
        let member = |(key, encoded): &(ResourceKey, Option<_>)| {
            let member = if encoded.is_some() {
                Member::Joined
            } else {
                Member::Left
            };
            (gateway(), key.clone(), member)
        };
        let members = resources.iter().map(member).collect();
        self.views.publish(Publication { resources, members });
    }
}

impl Shared {
    fn published(&self) -> MutexGuard<'_, Published> {
        self.published.lock().expect("no holder panics")
    }

    fn seen(&self) -> MutexGuard<'_, StreamLog> {
        self.seen.lock().expect("no holder panics")
    }

    fn note(&self, change: impl FnOnce(&mut StreamLog)) {
        change(&mut self.seen());
        self.changed.notify_all();
    }

    fn is_accepted(&self, request: &Request<Streaming<DeltaDiscoveryRequest>>) -> bool {
        let header = request.metadata().get("authorization");
        let header = header.and_then(|value| value.to_str().ok());
        let accepted = self.token.lock().expect("no holder panics");
        let Some(accepted) = &*accepted else {
            return true;
        };
        header == Some(&format!("Bearer {accepted}"))
    }
}

/// The Gateway of [`GatewayBuilder`].
fn gateway() -> ObjectName {
    ObjectName::new("default", "gw")
}

pub(crate) fn resources(
    yaml: &str,
    options: &Options,
    spoil: impl Fn(&mut Encoded),
) -> BTreeMap<ResourceKey, Arc<Encoded>> {
    let sources = [Source::from_bytes("test.yaml", yaml.as_bytes().to_vec())];
    let admitted = files::admit(&sources);
    assert!(admitted.findings.is_empty(), "{:?}", admitted.findings);
    let objects = admitted.objects.into_iter().map(|(object, _)| object);
    let store: Store = objects.collect();
    let model = translate::translate(&store, options).model;
    let encoded = model.resources().map(|resource| {
        let mut encoded = Encoded::new(&resource);
        spoil(&mut encoded);
        (encoded.key.clone(), Arc::new(encoded))
    });
    encoded.collect()
}

type Responses = UnboundedReceiverStream<Result<DeltaDiscoveryResponse, Status>>;

async fn serve(
    call: http::Request<Body>,
    shared: Arc<Shared>,
) -> Result<http::Response<Body>, Infallible> {
    assert_eq!(call.uri().path(), METHOD);
    let codec = Prost::<DeltaDiscoveryResponse, DeltaDiscoveryRequest>::default();
    let stream = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { begin(request, shared) }
    });
    Ok(Grpc::new(codec).streaming(stream, call).await)
}

fn begin(
    request: Request<Streaming<DeltaDiscoveryRequest>>,
    shared: Arc<Shared>,
) -> Result<Response<Responses>, Status> {
    if !shared.is_accepted(&request) {
        shared.note(|seen| seen.denied += 1);
        return Err(Status::unauthenticated("the token has expired"));
    }
    let (responses, sent) = unbounded_channel();
    let is_former = shared.is_former.load(Ordering::Relaxed);
    tokio::spawn(follow(request.into_inner(), responses, shared));
    let mut response = Response::new(UnboundedReceiverStream::new(sent));
    if !is_former {
        let features = format!("{}, {}", Report::DIGESTS, Symptom::FEATURE);
        let features = features.parse().expect("a header field");
        response.metadata_mut().insert(Report::HEADER, features);
    }
    Ok(response)
}

/// Follows a stream to its end.
async fn follow(
    mut requests: Streaming<DeltaDiscoveryRequest>,
    responses: UnboundedSender<Result<DeltaDiscoveryResponse, Status>>,
    shared: Arc<Shared>,
) {
    let mut news = shared.news.subscribe();
    let mut session =
        ProxySession::begin(&mut shared.published().views, gateway(), Features::all());
    let mut is_named = false;
    loop {
        let next = session.poll(&mut shared.published().views, Instant::now());
        let until = match next {
            Poll::Send(unsent) => {
                for response in session.send(unsent).iter().map(decoded) {
                    shared.note(|seen| seen.sent.extend(names(&response)));
                    let _ = responses.send(Ok(response));
                }
                continue;
            }
            Poll::Wait(until) => until.unwrap_or_else(|| Instant::now() + TIMEOUT),
            Poll::Derive(derivation) => {
                shared.published().views.install(derivation.run());
                continue;
            }
            Poll::Resynchronise | Poll::TooManyRules => break,
        };
        let request = tokio::select! {
            request = requests.message() => request,
            _ = news.changed() => continue,
            () = tokio::time::sleep_until(until.into()) => continue,
        };
        let Ok(Some(request)) = request else {
            break;
        };
        let (node, kind) = (request.node.clone(), Kind::from_type_url(&request.type_url));
        let lists = !request.initial_resource_versions.is_empty();
        let answered = session.receive(request, Instant::now());
        let answered = answered.expect("one of our types");
        shared.note(|seen| {
            if !std::mem::replace(&mut is_named, true) {
                seen.nodes.extend(node.map(|node| node.id));
            }
            seen.listed.extend(kind.filter(|_| lists));
            match answered {
                Answered::Nothing => {}
                Answered::Accepted => seen.accepted.extend(kind),
                Answered::Refused(refused) => seen.refused.extend(refused),
                Answered::Symptoms => seen
                    .symptoms
                    .push(session.symptoms(&shared.published().views)),
            }
        });
    }
    session.end(&mut shared.published().views);
}

fn decoded(outgoing: &Outgoing) -> DeltaDiscoveryResponse {
    let bytes = outgoing.body.clone().chain(outgoing.tail.clone());
    DeltaDiscoveryResponse::decode(bytes).expect("it is a response")
}

fn names(response: &DeltaDiscoveryResponse) -> Vec<String> {
    let removed = response.removed_resources.iter();
    let removed = removed.map(|name| format!("-{name}"));
    let resources = response.resources.iter();
    resources.map(|it| it.name.clone()).chain(removed).collect()
}
