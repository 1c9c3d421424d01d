//! CPU time of the controller's xDS server while all proxies of a large Gateway reconnect, and what they send.
//!
//! `cargo run --release -p xds-grpc --example reconnect`: 100 proxies of a Gateway with 64 listeners and 260 routes of
//! 16 rules connect over TLS and report what they hold. The server has a thread of its own, whose CPU time is
//! measured; proxies are clients without a configuration, on another one.

#![allow(
    clippy::print_stdout,
    reason = "a program that reports what it measured"
)]

use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use prost::Message as _;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use xds::delta::{Client, Encoded, Member, Publication, Report, Version};
use xds::model::{
    Attachment, Attachments, BindKey, HttpMatch, HttpRule, Kind, Listener, ListenerKey,
    ListenerProtocol, ObjectName, PathMatch, Resource, Route, RouteKey, RouteRule,
};
use xds_grpc::client::{Controller, Stream};
use xds_grpc::server::{
    Authorize, AuthorizeFuture, Event, Limits, Observer, Proxy, ProxyIdentity, Published, Server,
    Transport,
};

const PROXIES: usize = 100;
const LISTENERS: usize = 64;
const ROUTES: usize = 260;
const RULES: u16 = 16;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let held = resources();
    let resources: Vec<Arc<Encoded>> = held.iter().map(|it| Arc::new(Encoded::new(it))).collect();
    let folder = TempDir::new()?;
    let running = Running::start(folder.path(), &resources)?;
    println!("{} resources, {PROXIES} proxies", resources.len());
    let clients = Builder::new_current_thread().enable_all().build()?;
    for report in [Report::Versions, Report::Digests] {
        for case in [Case::Same, Case::OneDiffers] {
            let measured = measure(&running, folder.path(), (&held, &resources), (case, report));
            println!("{report:?}, {case:?}: {}", clients.block_on(measured)?);
        }
    }
    Ok(())
}

/// What proxies hold when they reconnect.
#[derive(Debug, Clone, Copy)]
enum Case {
    Same,
    /// One rule is of another version.
    OneDiffers,
}

async fn measure(
    running: &Running,
    folder: &Path,
    (held, encoded): (&[Resource], &[Arc<Encoded>]),
    (case, report): (Case, Report),
) -> Result<String> {
    let address = format!("https://localhost:{}", running.address.port());
    let file = |name: &str| Some(folder.join(name));
    let controller = Controller::new(&address, file("ca"), file("token"))?;
    let clients = (0..PROXIES).map(|number| {
        let mut client = Client::new(format!("infra/edge/edge-{number}"));
        let restored = held.iter().zip(encoded).enumerate();
        client.restore(restored.map(|(at, (resource, encoded))| {
            let other = matches!(case, Case::OneDiffers) && at == held.len() / 2;
            let version = if other {
                Version::of(b"")
            } else {
                encoded.version
            };
            (resource, Some(version))
        }));
        client
    });
    let clients: Vec<Client> = clients.collect();
    let (before, begun) = (running.cpu_time().await?, Instant::now());
    let mut proxies = JoinSet::new();
    for client in clients {
        proxies.spawn(reconnect(controller.clone(), client, report));
    }
    let mut requested = 0;
    let mut open = Vec::new();
    while let Some(proxy) = proxies.join_next().await {
        let (bytes, stream) = proxy??;
        requested += bytes;
        open.push(stream);
    }
    let took = begun.elapsed();
    let cpu = running.cpu_time().await?.saturating_sub(before);
    let begun = Instant::now();
    let summary = running.server.ack_summary(&gateway(), Kind::Listener);
    let summarised = begun.elapsed();
    Ok(format!(
        "{cpu:.1?} of CPU of the server, {took:.1?} in all; {} bytes of requests of a proxy; a summary of what {} \
         acknowledge takes {summarised:.1?}",
        requested / PROXIES,
        summary.connected,
    ))
}

/// Connects a proxy until it has acknowledged its first batch. Returns the bytes of its requests, and its stream.
async fn reconnect(
    controller: Controller,
    mut client: Client,
    report: Report,
) -> Result<(usize, Stream)> {
    let mut stream = controller.connect().await?;
    let mut requested = 0;
    for request in client.connect(report) {
        requested += request.encoded_len();
        stream.send(request);
    }
    loop {
        let response = stream.next().await?.ok_or("the stream ended")?;
        if let Some(versions) = client.answer(&response) {
            requested += versions.encoded_len();
            stream.send(versions);
        } else if let Some(received) = client.receive(response)? {
            for request in client.acknowledge(received, Vec::new()) {
                requested += request.encoded_len();
                stream.send(request);
            }
            return Ok((requested, stream));
        }
    }
}

/// A server on a thread of its own.
struct Running {
    server: Arc<Server>,
    address: SocketAddr,
    runtime: Handle,
}

impl Running {
    fn start(folder: &Path, resources: &[Arc<Encoded>]) -> Result<Self> {
        let published = Arc::new(Published::default());
        let mut publication = Publication::default();
        for encoded in resources {
            let key = &encoded.key;
            publication
                .resources
                .push((key.clone(), Some(Arc::clone(encoded))));
            publication
                .members
                .push((gateway(), key.clone(), Member::Joined));
        }
        published.publish(publication);
        let limits = Limits {
            unauthenticated: PROXIES,
            ..Limits::default()
        };
        let server = Server::new(limits, published, Arc::new(Anyone), Arc::new(Nobody));
        let transport = Transport::Tls(watch::Sender::new(certificate(folder)?).subscribe());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
        let address = listener.local_addr()?;
        let serving = Arc::clone(&server).serve(listener, transport);
        thread::spawn(move || runtime.block_on(serving));
        Ok(Self {
            server,
            address,
            runtime: handle,
        })
    }

    /// The CPU time of the server's thread until now.
    async fn cpu_time(&self) -> Result<Duration> {
        let (sender, time) = oneshot::channel();
        self.runtime.spawn(async {
            // Nanoseconds on a processor, then others.
            let statistics = fs::read_to_string("/proc/thread-self/schedstat");
            // The receiver waits for it.
            let _ = sender.send(statistics);
        });
        let statistics = time.await??;
        let nanoseconds = statistics.split_ascii_whitespace().next();
        let nanoseconds = nanoseconds.ok_or("no statistics")?.parse()?;
        Ok(Duration::from_nanos(nanoseconds))
    }
}

fn gateway() -> ObjectName {
    ObjectName::new("infra", "edge")
}

/// Listeners, and rules that are attached to all of them.
fn resources() -> Vec<Resource> {
    let keys: Vec<ListenerKey> = (0..LISTENERS)
        .map(|number| ListenerKey::new("Gateway", &gateway(), &format!("listener-{number}")))
        .collect();
    let listeners = keys.iter().map(|key| {
        Resource::from(Listener {
            key: key.clone(),
            bind: BindKey::new(xds::model::Transport::Tcp, 80, &gateway()),
            gateway: gateway(),
            name: key.object_and_name().1.to_owned(),
            hostname: None,
            protocol: ListenerProtocol::Http,
            external_auth: Vec::new(),
        })
    });
    let attachments: Attachments = keys
        .iter()
        .map(|key| Attachment {
            listener: key.clone(),
            hostnames: [].into(),
        })
        .collect();
    let rules = (0..ROUTES).flat_map(|route| (0..RULES).map(move |rule| (route, rule)));
    let rules = rules.map(|(route, rule)| {
        let object = ObjectName::new(&format!("tenant-{}", route % 10), &format!("route-{route}"));
        let matched = HttpMatch {
            path: PathMatch::Exact(format!("/{route}/{rule}").into()),
            method: None,
            headers: [].into(),
            query: [].into(),
        };
        Resource::from(Route {
            key: RouteKey::new("HTTPRoute", &object, rule, &gateway()),
            attachments: attachments.clone(),
            created: 1,
            rule: RouteRule::Http(HttpRule::refusing(vec![matched])),
        })
    });
    listeners.chain(rules).collect()
}

/// Writes an authority and a token for proxies, and returns the server's configuration.
fn certificate(folder: &Path) -> Result<Arc<rustls::ServerConfig>> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    fs::write(folder.join("ca"), certified.cert.pem())?;
    fs::write(folder.join("token"), "token")?;
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider);
    let config = config
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    let mut config = config.with_single_cert(vec![certified.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// Every token is one of a proxy of the Gateway.
struct Anyone;

impl Authorize for Anyone {
    fn authorize<'a>(&'a self, _: &'a str) -> AuthorizeFuture<'a> {
        let identity = ProxyIdentity {
            gateway: gateway(),
            pod: None,
            zone: None,
        };
        Box::pin(std::future::ready(Ok(identity)))
    }
}

struct Nobody;

impl Observer for Nobody {
    fn observe(&self, _: &Proxy, _: &Event<'_>) {}
    fn too_large(&self, _: &ObjectName) {}
    fn outdated(&self, _: &ObjectName) {}
}
