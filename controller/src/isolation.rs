//! Whether this replica is cut off from the API server while another one is not.
//!
//! A replica that no longer hears the API server, be it for one kind of objects, serves from memory, which is right while the API server is
//! away for all. If another replica does hear it, proxies that connect belong there: this one would send
//! them back to an older state, with removed endpoints and revoked grants. Then it is not ready, rejects new
//! streams, and ends those that are open within seconds, each at a random moment: its proxies would get
//! nothing of what changes, and the leader would not know that they run. The replicas ask each other at the
//! controller's Service, since the Lease cannot be read either, and neither can their addresses, which change
//! with each rollout. The Service leads each connection to any ready replica, unless the chart's values give
//! it a session affinity or a local traffic policy: then this replica may reach itself alone, and counts as
//! not isolated.

use std::fmt;
use std::io;
use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::args::RunArgs;
use crate::outputs::Outputs;
use crate::watch::Readiness;

/// Another replica that hears the API server, while this one does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Isolated {
    /// For how long this replica has not heard the API server.
    pub silence: Duration,
    /// Name of the other replica.
    pub peer: String,
}

impl fmt::Display for Isolated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, peer) = (self.silence.as_secs(), &self.peer);
        write!(
            f,
            "no event from the API server for {seconds} s, while the replica {peer} receives them: check the \
             network between this pod and the API server"
        )
    }
}

/// Where to ask other replicas.
#[derive(Debug, Clone)]
pub struct Peers {
    /// Host and port of the health server of any replica.
    address: String,
    /// Name of this replica.
    own: String,
}

impl Peers {
    /// The replicas behind the controller's Service.
    #[must_use]
    pub fn of(args: &RunArgs) -> Self {
        let (service, namespace) = (&args.service, &args.namespace);
        let port = args.health_address.port();
        Self {
            address: format!("{service}.{namespace}.svc:{port}"),
            own: args.pod_name.clone(),
        }
    }

    /// A replica that hears the API server. Each connection to the Service leads to one of the replicas, so
    /// several are asked.
    async fn hearing(&self) -> Option<String> {
        for _ in 0..ASKED {
            let answer = timeout(REQUEST, ask(&self.address)).await;
            if let Ok(Ok(Some((peer, silence)))) = answer
                && peer != self.own
                && silence < SILENCE
            {
                return Some(peer);
            }
        }
        None
    }
}

/// Keeps `outputs.isolated` current. Never ends.
pub async fn follow(peers: Peers, readiness: Readiness, outputs: &Outputs) {
    loop {
        let silence = readiness.silence();
        let isolated = if silence < SILENCE {
            None
        } else {
            let peer = peers.hearing().await;
            peer.map(|peer| Isolated { silence, peer })
        };
        let was_isolated = outputs.isolated.borrow().is_some();
        match &isolated {
            Some(isolated) if !was_isolated => warn!("not ready for new proxies: {isolated}"),
            None if was_isolated => info!("ready for new proxies again"),
            _ => {}
        }
        outputs.isolated.send_replace(isolated);
        sleep(INTERVAL).await;
    }
}

/// What this replica answers to others, as fields of the response to a probe.
#[must_use]
pub fn answer(own: &str, silence: Duration) -> HeaderMap {
    let mut fields = HeaderMap::new();
    if let Ok(own) = HeaderValue::from_str(own) {
        fields.insert(REPLICA, own);
    }
    fields.insert(SILENCE_FIELD, silence.as_secs().into());
    fields
}

/// The name of a replica, and for how long it has not heard the API server.
async fn ask(address: &str) -> io::Result<Option<(String, Duration)>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    stream
        .take(RESPONSE_BYTES)
        .read_to_end(&mut response)
        .await?;
    Ok(parse(&String::from_utf8_lossy(&response)))
}

fn parse(response: &str) -> Option<(String, Duration)> {
    if !response.starts_with("HTTP/1.1 200 ") {
        return None;
    }
    let field = |name: &HeaderName| {
        let mut lines = response.lines().take_while(|line| !line.is_empty());
        lines.find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name.as_str()).then_some(value)
        })
    };
    let silence = field(&SILENCE_FIELD)?.parse().ok()?;
    Some((field(&REPLICA)?.to_owned(), Duration::from_secs(silence)))
}

const REPLICA: HeaderName = HeaderName::from_static("gateway-replica");
const SILENCE_FIELD: HeaderName = HeaderName::from_static("gateway-silence-seconds");
/// Longest time without the start or end of a watch, an event, a bookmark, a page of a list or a refusal, of
/// an API server that can be reached. A watch ends after 60 s, or is given up after 65 s if its connection is
/// dead, and is repeated after a pause: that of a single error, of some seconds at most.
const SILENCE: Duration = Duration::from_secs(90);
/// Interval of asking others.
const INTERVAL: Duration = Duration::from_secs(5);
/// Connections to the Service in an interval: it may lead to this replica each time.
const ASKED: usize = 6;
/// Timeout of a request.
const REQUEST: Duration = Duration::from_secs(1);
/// Most bytes of a response.
const RESPONSE_BYTES: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use admin::{Address, Handles, LogControl, Server, Sockets};
    use tracing_subscriber::{EnvFilter, Registry, reload};

    use super::*;
    use crate::health;
    use crate::watch::Kinds;

    /// A replica that has not heard the API server for a time.
    fn replica(name: &'static str, silence: &Arc<Mutex<Duration>>) -> (Server, String) {
        let bound = admin::bind(&"127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let [Address::Tcp(address)] = bound.addresses()[..] else {
            panic!("{bound:?}");
        };
        let (_layer, filter) = reload::Layer::<_, Registry>::new(EnvFilter::new("info"));
        let silence = Arc::clone(silence);
        let handles = Handles {
            probe_fields: Box::new(move || answer(name, *silence.lock().expect("a time"))),
            ..Handles::of_process(LogControl::new(filter, "info".to_owned()))
        };
        let sockets = Sockets {
            readiness: bound,
            ..Sockets::default()
        };
        let server = admin::start_for_process(sockets, handles).expect("it starts");
        (server, address.to_string())
    }

    #[tokio::test]
    async fn a_replica_is_isolated_only_if_another_one_hears_the_api_server() {
        let silence = Arc::new(Mutex::new(Duration::ZERO));
        let (_server, address) = replica("other", &silence);
        let peers = |own: &str| Peers {
            address: address.clone(),
            own: own.to_owned(),
        };
        assert_eq!(peers("this").hearing().await.as_deref(), Some("other"));
        assert_eq!(peers("other").hearing().await, None, "it asked itself");
        // The API server is away for all.
        *silence.lock().expect("a time") = SILENCE;
        assert_eq!(peers("this").hearing().await, None);
        let nobody = Peers {
            address: "127.0.0.1:1".to_owned(),
            own: "this".to_owned(),
        };
        assert_eq!(nobody.hearing().await, None);
    }

    #[tokio::test]
    async fn an_isolated_replica_is_not_ready_until_it_hears_the_api_server() {
        let (_server, address) = replica("other", &Arc::default());
        let peers = Peers {
            address,
            own: "this".to_owned(),
        };
        let readiness = Readiness::new(Kinds::new(&[]));
        for kind in readiness.kinds().iter() {
            readiness.set(kind, crate::watch::State::Synced);
        }
        let outputs = Outputs::default();
        outputs
            .published
            .publish(xds::delta::Publication::default());
        // Others are heard all the while: what is stale of this one may be a grant.
        let silent = readiness.kinds().iter().last().expect("a kind");
        readiness.heard(silent).set_silence(SILENCE);
        let mut isolated = outputs.isolated.subscribe();
        let following = follow(peers, readiness.clone(), &outputs);
        let check = async {
            isolated.wait_for(Option::is_some).await.expect("ours");
            let pending = health::pending(&readiness, &outputs);
            assert!(
                pending[0].contains("the replica other receives them"),
                "{pending:?}"
            );
            readiness.heard(silent).mark();
            isolated.wait_for(Option::is_none).await.expect("ours");
            assert_eq!(health::pending(&readiness, &outputs), [""; 0]);
        };
        tokio::select! {
            () = following => {}
            checked = timeout(Duration::from_mins(1), check) => checked.expect("in time"),
        }
    }
}
