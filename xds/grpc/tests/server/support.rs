//! A server for two Gateways, and proxies controlled by the test.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use xds::delta::{Encoded, Member, Publication, Refusal};
use xds::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};
use xds::model::{
    Features, Kind, ObjectName, Resource, ResourceKey, Service, ServiceKey, SessionAffinity,
};
use xds_grpc::server::{
    Authorize, AuthorizeError, AuthorizeFuture, Event, Limits, Observer, Proxy, ProxyIdentity,
    Published, Server, Transport,
};
use xds_grpc::{METHOD, Prost};

/// Timeout of conditions that must become true.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A timeout that tests wait for.
pub(crate) const SOON: Duration = Duration::from_millis(300);

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    let done = timeout(TIMEOUT, future).await;
    done.expect("it takes no longer than this")
}

pub(crate) fn web() -> ObjectName {
    ObjectName::new("a", "web")
}

pub(crate) fn other() -> ObjectName {
    ObjectName::new("b", "other")
}

/// A service whose content depends on `content`.
pub(crate) fn service(name: &str, content: u8, bytes: usize) -> Arc<Encoded> {
    let addresses = bytes / 6;
    Arc::new(Encoded::new(&Resource::from(Service {
        key: ServiceKey::new(&ObjectName::new("a", name)),
        vips: vec![[127, 0, 0, content].into(); addresses.max(1)],
        ports: Vec::new(),
        session_affinity: SessionAffinity::None,
    })))
}

pub(crate) fn key(name: &str) -> ResourceKey {
    ResourceKey {
        kind: Kind::Service,
        key: format!("Service/a/{name}").into(),
    }
}

/// Services of a Gateway by name, each with its content, or removed.
pub(crate) fn publication(gateway: &ObjectName, services: &[(&str, Option<u8>)]) -> Publication {
    let mut publication = Publication::default();
    for (name, content) in services {
        let encoded = content.map(|content| service(name, content, 0));
        let member = if encoded.is_some() {
            Member::Joined
        } else {
            Member::Left
        };
        publication.resources.push((key(name), encoded));
        publication
            .members
            .push((gateway.clone(), key(name), member));
    }
    publication
}

/// Tokens are texts: `<namespace>/<gateway>`, with `/<pod>` where they are bound to one, or
/// `expired`, or `stranger`.
struct Tokens;

impl Authorize for Tokens {
    fn authorize<'a>(&'a self, token: &'a str) -> AuthorizeFuture<'a> {
        let parts: Vec<&str> = token.split('/').collect();
        let identity = match parts[..] {
            ["expired"] => Err(AuthorizeError::Unauthenticated("it has expired".to_owned())),
            ["silent"] => return Box::pin(std::future::pending()),
            [namespace, gateway] => Ok((ObjectName::new(namespace, gateway), None)),
            [namespace, gateway, pod] => {
                Ok((ObjectName::new(namespace, gateway), Some(pod.into())))
            }
            _ => Err(AuthorizeError::Forbidden("it is of no Gateway".to_owned())),
        };
        let identity = identity.map(|(gateway, pod)| ProxyIdentity {
            gateway,
            pod,
            zone: Some("zone-a".into()),
        });
        Box::pin(std::future::ready(identity))
    }
}

/// An event that a test waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerEvent {
    Connected,
    Sent(Kind),
    Accepted,
    Refused(Vec<Refusal>),
    Symptoms,
    Disconnected(String),
    /// Of the Gateway in place of the proxy.
    TooLarge,
    /// The same.
    Outdated,
}

struct Events(mpsc::UnboundedSender<(String, ServerEvent)>);

impl Observer for Events {
    fn observe(&self, proxy: &Proxy, event: &Event<'_>) {
        let seen = match event {
            Event::Connected => ServerEvent::Connected,
            Event::Sent { kind, .. } => ServerEvent::Sent(*kind),
            Event::Accepted { .. } => ServerEvent::Accepted,
            Event::Refused { refusals, .. } => ServerEvent::Refused(refusals.to_vec()),
            Event::Symptoms => ServerEvent::Symptoms,
            Event::Disconnected { reason } => ServerEvent::Disconnected((*reason).to_owned()),
        };
        // The receiver is dropped at the end of a test.
        let _ = self.0.send((proxy.node.proxy.to_string(), seen));
    }

    fn too_large(&self, gateway: &ObjectName) {
        let _ = self.0.send((gateway.to_string(), ServerEvent::TooLarge));
    }

    fn outdated(&self, gateway: &ObjectName) {
        let _ = self.0.send((gateway.to_string(), ServerEvent::Outdated));
    }
}

pub(crate) struct Controller {
    pub(crate) server: Arc<Server>,
    pub(crate) published: Arc<Published>,
    pub(crate) address: SocketAddr,
    pub(crate) serving: JoinHandle<()>,
    events: Mutex<mpsc::UnboundedReceiver<(String, ServerEvent)>>,
}

impl Controller {
    pub(crate) async fn start() -> Self {
        Self::with(Limits::default(), Transport::Plaintext).await
    }

    pub(crate) async fn limited(limits: Limits) -> Self {
        Self::with(limits, Transport::Plaintext).await
    }

    pub(crate) async fn with(limits: Limits, transport: Transport) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let published = Arc::new(Published::default());
        let server = Server::new(
            limits,
            Arc::clone(&published),
            Arc::new(Tokens),
            Arc::new(Events(sender)),
        );
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let serving = tokio::spawn(Arc::clone(&server).serve(listener, transport));
        Self {
            server,
            published,
            address,
            serving,
            events: Mutex::new(events),
        }
    }

    /// Publishes services of [`web`].
    pub(crate) fn publish(&self, services: &[(&str, Option<u8>)]) {
        self.published.publish(publication(&web(), services));
    }

    /// How many proxies of [`web`] have a service in force.
    pub(crate) fn accepted(&self, name: &str) -> usize {
        let ack_summary = self.server.ack_summary(&web(), Kind::Service);
        ack_summary.accepted.get(&key(name)).copied().unwrap_or(0)
    }

    /// How many batches were made for [`web`].
    pub(crate) fn batches(&self) -> u64 {
        self.published.views().batches(&web())
    }

    /// Waits for an event of a proxy.
    #[expect(
        clippy::await_holding_lock,
        reason = "a test waits for one event at a time"
    )]
    pub(crate) async fn sees(
        &self,
        proxy: &str,
        is_it: impl Fn(&ServerEvent) -> bool,
    ) -> ServerEvent {
        let mut events = self.events.lock().expect("nothing panics with it");
        loop {
            let (of, seen) = within(events.recv()).await.expect("the server is there");
            if of == proxy && is_it(&seen) {
                return seen;
            }
        }
    }

    /// Why the stream of a proxy ended.
    pub(crate) async fn sees_end(&self, proxy: &str) -> String {
        let ended = |seen: &ServerEvent| matches!(seen, ServerEvent::Disconnected(_));
        match self.sees(proxy, ended).await {
            ServerEvent::Disconnected(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    /// A proxy of [`web`] that subscribes to everything and holds nothing.
    pub(crate) async fn proxy(&self, name: &str) -> Stream {
        let mut stream = self.stream("a/web", &format!("a/web/{name}")).await;
        stream.subscribe(&BTreeMap::new()).await;
        stream
    }

    /// A stream with this token and node ID.
    pub(crate) async fn stream(&self, token: &str, node: &str) -> Stream {
        let stream = Stream::open(self.channel().await, Some(token), node).await;
        stream.expect("it is served")
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        endpoint.expect("an address")
    }

    pub(crate) async fn channel(&self) -> Channel {
        let channel = within(self.endpoint().connect()).await;
        channel.expect("it listens")
    }

    /// Why a stream is refused.
    pub(crate) async fn refusal(&self, token: Option<&str>, node: &str) -> Status {
        match Stream::open(self.channel().await, token, node).await {
            Err(status) => status,
            Ok(mut stream) => {
                stream
                    .request(Kind::Service, DeltaDiscoveryRequest::default())
                    .await;
                stream.end().await
            }
        }
    }
}

/// A client that sends only what the test says.
pub(crate) struct Stream {
    node: String,
    /// Of the proxy: none, as of the release before, unless a test states them.
    features: Vec<String>,
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Stream {
    pub(crate) async fn open(
        channel: Channel,
        token: Option<&str>,
        node: &str,
    ) -> Result<Self, Status> {
        let mut grpc = Grpc::new(channel).max_decoding_message_size(64 << 20);
        within(grpc.ready()).await.expect("it is connected");
        let (requests, receiver) = mpsc::channel(1);
        let mut request = Request::new(ReceiverStream::new(receiver));
        if let Some(token) = token {
            let bearer = format!("Bearer {token}").parse().expect("a header field");
            request.metadata_mut().insert("authorization", bearer);
        }
        let path = PathAndQuery::from_static(METHOD);
        let codec = Prost::<DeltaDiscoveryRequest, DeltaDiscoveryResponse>::default();
        let response = within(grpc.streaming(request, path, codec)).await?;
        Ok(Self {
            node: node.to_owned(),
            features: Vec::new(),
            requests,
            responses: response.into_inner(),
        })
    }

    pub(crate) async fn request(&mut self, kind: Kind, request: DeltaDiscoveryRequest) {
        self.send(DeltaDiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            ..request
        })
        .await;
    }

    /// Sends a request, with the node ID added.
    pub(crate) async fn send(&mut self, request: DeltaDiscoveryRequest) {
        let request = DeltaDiscoveryRequest {
            node: Some(Node {
                id: self.node.clone(),
                client_features: self.features.clone(),
            }),
            ..request
        };
        // If the stream has ended, its status has the reason.
        let _ = within(self.requests.send(request)).await;
    }

    /// Becomes one of a proxy of this release.
    pub(crate) fn states_all_features(&mut self) {
        self.features = Features::all().names();
    }

    /// Subscribes to everything, holding these services.
    pub(crate) async fn subscribe(&mut self, held: &BTreeMap<String, String>) {
        for kind in Kind::ALL {
            let initial_resource_versions = if kind == Kind::Service {
                held.clone()
            } else {
                BTreeMap::new()
            };
            let request = DeltaDiscoveryRequest {
                initial_resource_versions,
                ..DeltaDiscoveryRequest::default()
            };
            self.request(kind, request).await;
        }
    }

    pub(crate) async fn response(&mut self) -> DeltaDiscoveryResponse {
        let response = within(self.responses.message()).await;
        response.expect("no error").expect("no end")
    }

    /// The status with which the stream ends, ignoring earlier messages.
    pub(crate) async fn end(&mut self) -> Status {
        loop {
            match within(self.responses.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }

    /// The responses of one batch.
    pub(crate) async fn batch(&mut self) -> Vec<DeltaDiscoveryResponse> {
        let mut batch = Vec::new();
        loop {
            let response = self.response().await;
            let info: Vec<&str> = response.system_version_info.split('/').collect();
            let is_last = matches!(info[..], [_, part, parts] if part == parts);
            batch.push(response);
            if is_last {
                return batch;
            }
        }
    }

    pub(crate) async fn acknowledge(&mut self, batch: &[DeltaDiscoveryResponse]) {
        for response in batch {
            self.answer(response, None).await;
        }
    }

    pub(crate) async fn answer(
        &mut self,
        response: &DeltaDiscoveryResponse,
        error_detail: Option<xds::discovery::Status>,
    ) {
        self.send(DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            error_detail,
            ..DeltaDiscoveryRequest::default()
        })
        .await;
    }

    /// The names of the next batch, which is accepted: `name` for a resource, `-name` for a
    /// removal.
    pub(crate) async fn names(&mut self) -> Vec<String> {
        let batch = self.batch().await;
        self.acknowledge(&batch).await;
        names(&batch)
    }
}

pub(crate) fn names(batch: &[DeltaDiscoveryResponse]) -> Vec<String> {
    let short = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let mut names = Vec::new();
    for response in batch {
        names.extend(response.resources.iter().map(|it| short(&it.name)));
        let removed = response.removed_resources.iter();
        names.extend(removed.map(|name| format!("-{}", short(name))));
    }
    names.sort();
    names
}

/// The versions that a proxy holds after a batch, by name.
pub(crate) fn versions(batch: &[DeltaDiscoveryResponse]) -> BTreeMap<String, String> {
    let resources = batch.iter().flat_map(|response| &response.resources);
    let versions = resources.map(|it| (it.name.clone(), it.version.clone()));
    versions.collect()
}

/// A certificate authority, and server certificates of it for `localhost`.
pub(crate) struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        let issuer = rcgen::Issuer::new(params, key);
        Self { issuer, pem }
    }

    pub(crate) fn config(&self) -> Arc<rustls::ServerConfig> {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(["localhost".to_owned()]);
        let params = params.expect("parameters");
        let leaf = params.signed_by(&key, &self.issuer).expect("a leaf");
        let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions();
        let config = config.expect("versions").with_no_client_auth();
        let config = config.with_single_cert(vec![leaf.der().clone()], key.expect("a key"));
        let mut config = config.expect("they belong together");
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }

    pub(crate) fn configs(&self) -> watch::Sender<Arc<rustls::ServerConfig>> {
        watch::Sender::new(self.config())
    }
}
