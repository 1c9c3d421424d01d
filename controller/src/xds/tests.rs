//! The server as the controller runs it, and proxies with the client that they have.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use xds::delta::{Client, Encoded, Member, Publication, Refusal};
use xds::model::{
    BindKey, Hostname, Listener, ListenerKey, ListenerProtocol, Resource, ResourceKey,
};
use xds_grpc::client::{ConnectError, Controller, Stream, StreamError};

use super::cluster::{Cluster, Replica, locked, web};
use super::*;
use crate::isolation::Isolated;
use crate::outputs::Acknowledgements;
use crate::xds::listen;

const TIMEOUT: Duration = Duration::from_mins(1);

struct Running {
    cluster: Arc<Cluster>,
    replica: Replica,
    address: SocketAddr,
    files: TempDir,
    server: JoinHandle<()>,
}

impl Running {
    async fn start(mode: &str) -> Self {
        let cluster = Cluster::new();
        let replica = cluster.replica(&["--xds-mode", mode]);
        replica.election.set(true);
        let listener = listen(([127, 0, 0, 1], 0).into()).await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let server = tokio::spawn(run(replica.context.clone(), listener));
        let files = TempDir::new().expect("a folder");
        let token = cluster.signer.token(&web(), "web-1");
        std::fs::write(files.path().join("token"), token).expect("it is written");
        Self {
            cluster,
            replica,
            address,
            files,
            server,
        }
    }

    /// Writes the authorities that the deployer would put beside a proxy.
    async fn trust(&self) {
        let mut authorities = self.replica.context.outputs.authorities.subscribe();
        let authorities = authorities.wait_for(|pem| !pem.is_empty());
        let pem = within(authorities).await.expect("it is sent").to_string();
        std::fs::write(self.files.path().join("ca"), pem).expect("it is written");
    }

    /// Connects a proxy with this node ID.
    async fn connect(&self, scheme: &str, node: &str) -> Result<(Client, Stream), ConnectError> {
        let file = |name: &str| Some(self.files.path().join(name));
        let address = format!("{scheme}://localhost:{}", self.address.port());
        let controller = Controller::new(&address, file("ca"), file("token"));
        let mut client = Client::new(node.to_owned());
        let controller = controller.expect("an address");
        let stream = within(controller.connect()).await?;
        for request in client.connect(stream.report()) {
            stream.send(request);
        }
        Ok((client, stream))
    }

    /// Publishes the listener of the Gateway, for this host.
    fn publish(&self, host: &str) -> ResourceKey {
        let listener = Arc::new(Encoded::new(&Resource::from(Listener {
            key: ListenerKey::new("Gateway", &web(), "http"),
            bind: BindKey::new(xds::model::Transport::Tcp, 80, &web()),
            gateway: web(),
            name: "http".to_owned(),
            hostname: Some(Hostname::parse(host).expect("a host")),
            protocol: ListenerProtocol::Http,
            external_auth: Vec::new(),
        })));
        let key = listener.key.clone();
        let published = &self.replica.context.outputs.published;
        published.publish(Publication {
            resources: vec![(key.clone(), Some(listener))],
            members: vec![(web(), key.clone(), Member::Joined)],
        });
        key
    }

    /// Waits until the known state of the proxies satisfies the condition.
    async fn sees(&self, is_it: impl Fn(Option<&Acknowledgements>) -> bool) {
        let board = &self.replica.context.outputs.acknowledgements;
        let seen = async {
            while !is_it(board.get(&web()).as_deref()) {
                board.changed().await;
            }
        };
        within(seen).await;
    }
}

/// Receives a batch, and accepts or rejects all of it.
async fn answer(client: &mut Client, stream: &mut Stream, refusal: Option<&str>) {
    loop {
        let response = within(stream.next()).await.expect("no error");
        let received = client.receive(response.expect("no end"));
        let Some(received) = received.expect("it is valid") else {
            continue;
        };
        let changed = received.changes.iter().map(|(key, _)| key.clone());
        let refused = refusal.into_iter().flat_map(|text| {
            changed.clone().map(|key| Refusal {
                key,
                text: text.to_owned(),
            })
        });
        let refused = refused.collect();
        for request in client.acknowledge(received, refused) {
            stream.send(request);
        }
        return;
    }
}

async fn within<F: Future>(future: F) -> F::Output {
    let done = timeout(TIMEOUT, future).await;
    done.expect("it takes no longer than this")
}

#[tokio::test]
async fn a_proxy_is_served_over_tls_and_its_reports_reach_the_status_writer() {
    let running = Running::start("tls").await;
    running.trust().await;
    let key = running.publish("one.example");
    let (mut client, mut stream) = running
        .connect("https", "a/web/web-1")
        .await
        .expect("served");
    answer(&mut client, &mut stream, None).await;
    running
        .sees(|known| known.is_some_and(|it| it.listeners.get(&key) == Some(&1)))
        .await;

    running.publish("two.example");
    answer(&mut client, &mut stream, Some("no such address")).await;
    running
        .sees(|known| {
            known.is_some_and(|it| {
                it.connected == 1
                    && it.listeners.is_empty()
                    && it
                        .refused
                        .get(&key)
                        .is_some_and(|it| it == "no such address")
            })
        })
        .await;
    let metrics = running.replica.context.metrics.text();
    let count = "gateway_controller_xds_refused_resources_total{type=\"Listener\"} 1";
    assert!(metrics.contains(count), "{metrics}");

    drop(stream);
    running.sees(|known| known.is_none()).await;
    running.replica.stop.stop();
    within(running.server).await.expect("no panic");
}

#[tokio::test]
async fn a_proxy_without_a_valid_token_gets_advice() {
    let running = Running::start("either").await;
    running.trust().await;
    let refusal = |result: Result<_, ConnectError>| match result {
        Err(ConnectError::Refused(refusal)) => refusal,
        other => panic!("{:?}", other.map(|(_, stream): (Client, Stream)| stream)),
    };
    *locked(&running.cluster.user) = json!({
        "username": "system:serviceaccount:b:other",
        "extra": {"authentication.kubernetes.io/pod-name": ["web-1"]},
    });
    let refused = refusal(running.connect("https", "a/web/web-1").await);
    assert!(matches!(refused, StreamError::Forbidden(_)), "{refused}");
    assert!(refused.to_string().contains("b/other"), "{refused}");

    *locked(&running.cluster.user) = serde_json::Value::Null;
    let token = running.cluster.signer.token(&web(), "web-2");
    std::fs::write(running.files.path().join("token"), token).expect("it is written");
    let refused = refusal(running.connect("http", "a/web/web-2").await);
    assert!(
        matches!(refused, StreamError::Unauthenticated(_)),
        "{refused}"
    );
    assert!(
        running
            .replica
            .context
            .outputs
            .acknowledgements
            .keys()
            .is_empty()
    );
}

#[tokio::test]
async fn a_server_that_waits_for_a_certificate_can_be_stopped() {
    let cluster = Cluster::new();
    let replica = cluster.replica(&[]);
    let listener = listen(([127, 0, 0, 1], 0).into()).await.expect("a port");
    let server = tokio::spawn(run(replica.context.clone(), listener));
    replica.stop.stop();
    within(server).await.expect("no panic");
}

/// They would get nothing of what changes, until the connection is too old.
#[tokio::test]
async fn proxies_of_an_isolated_replica_are_sent_to_another_one() {
    let running = Running::start("plaintext").await;
    running.publish("a.test");
    let connected = running.connect("http", "a/web/web-1").await;
    let (mut client, mut stream) = connected.expect("it is accepted");
    answer(&mut client, &mut stream, None).await;
    let isolated = Isolated {
        silence: Duration::from_secs(95),
        peer: "other".to_owned(),
    };
    let outputs = &running.replica.context.outputs;
    outputs.isolated.send_replace(Some(isolated));
    let end = within(stream.next()).await.expect("no error");
    assert_eq!(end, None);
    let refused = running.connect("http", "a/web/web-1").await;
    assert!(refused.is_err(), "it belongs to the other one");
}
