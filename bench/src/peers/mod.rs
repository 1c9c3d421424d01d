//! The proxies that are measured, and how each is set up.
//!
//! Every peer turns the same [`Topology`] into its own configuration. The rules are the same for all:
//! one worker per core given, access logs off, connections and requests per connection unlimited,
//! upstream connections kept alive, socket options left as the peer sets them.

mod envoy;
mod gateway;
mod haproxy;
mod nginx;
pub(crate) use nginx::{UNLIMITED as NGINX_UNLIMITED, preamble as nginx_preamble};
mod pingora;
mod relay;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use self::gateway::{Build, Driver, Gateway};
use crate::paths::PathArgs;
use crate::process::ChildProcess;
use crate::scenario::{Case, ClientProtocol, Loader, RouteKey, Routes, Upstream};
use crate::tls::Certificate;

/// A proxy beside others.
pub(crate) trait Peer: Sync {
    /// Name in tables and on the command line.
    fn name(&self) -> &'static str;

    /// Whether it is the gateway or a peer.
    fn role(&self) -> Role;

    /// Its version, or an error that names what to install.
    fn version(&self) -> Result<String>;

    /// Why it cannot run this case, if so.
    fn unable(&self, case: &Case) -> Option<&'static str>;

    /// Writes its configuration into the topology's folder; the command that runs it in foreground.
    fn prepare(&self, topology: &Topology) -> Result<Command>;

    /// Makes the running proxy apply the configuration of the topology's current generation.
    fn reload(&self, _wiring: &Topology, _running: &ChildProcess) -> Result<()> {
        Ok(())
    }

    /// Whether it must hold an io_uring (or must not); none where it does not matter. A proxy that
    /// fell back to another driver than the table says must not be measured.
    fn ring(&self) -> Option<bool> {
        None
    }
}

/// Whether a proxy is the gateway or a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Gateway,
    /// A relay of bytes: what any proxy pays at least.
    Floor,
    Peer,
}

/// The task of a proxy.
#[derive(Debug, Clone)]
pub(crate) struct Topology {
    pub(crate) listen: SocketAddr,
    pub(crate) origin: SocketAddr,
    pub(crate) workers: usize,
    pub(crate) front: ClientProtocol,
    /// The protocol of the origin.
    pub(crate) upstream: Upstream,
    pub(crate) routes: Routes,
    /// Whether the gateway samples allocations.
    pub(crate) heap_sampling: bool,
    /// Whether workers are bound to cores of their own, below those of the other threads.
    pub(crate) apart: bool,
    /// Present where clients speak TLS.
    pub(crate) certificate: Option<Certificate>,
    /// For configuration files, sockets and logs.
    pub(crate) folder: PathBuf,
    /// Counts configuration changes; each adds one route and removes that of the last.
    pub(crate) generation: u64,
}

impl Topology {
    /// Keys of the routes: host names or path prefixes; empty for the one that takes everything.
    pub(crate) fn keys(&self) -> Vec<String> {
        let (name, extra): (fn(usize) -> String, _) = match self.routes.by {
            RouteKey::Nothing => return Vec::new(),
            RouteKey::Hosts => (crate::scenario::host_name, "changed.bench.example"),
            RouteKey::Prefixes => (crate::scenario::prefix, "/changed"),
        };
        let mut keys: Vec<String> = (0..self.routes.count).map(name).collect();
        if self.generation > 0 {
            keys.push(format!("{extra}{}", self.generation).replace("example", "test"));
        }
        keys
    }

    /// Writes `text` as `name` and returns its path. Replaced by renaming: a reader that watches
    /// never sees half a file.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        let fresh = self.folder.join(format!(".{name}.new"));
        std::fs::write(&fresh, text)?;
        std::fs::rename(&fresh, &path)?;
        Ok(path)
    }
}

/// Every peer there is, in the order of the tables.
pub(crate) fn all(places: &PathArgs) -> Vec<Box<dyn Peer>> {
    let cache = &places.peers_folder;
    let mut list: Vec<Box<dyn Peer>> = Vec::new();
    let builds = [
        (Some(&places.gateway), Build::Current),
        (places.before.as_ref(), Build::Before),
    ];
    for (binary, build) in builds {
        for driver in [Driver::IoUring, Driver::Epoll] {
            list.extend(
                binary.map(|binary| -> Box<dyn Peer> {
                    Box::new(Gateway::new(binary, driver, build))
                }),
            );
        }
    }
    let others: [Box<dyn Peer>; 9] = [
        Box::new(relay::Relay(crate::relay::Driver::Epoll)),
        Box::new(relay::Relay(crate::relay::Driver::IoUring)),
        Box::new(haproxy::HaproxyTcp),
        Box::new(haproxy::Haproxy),
        Box::new(haproxy::HaproxyTuned),
        Box::new(nginx::Nginx),
        Box::new(nginx::NginxTuned),
        Box::new(envoy::Envoy::new(cache)),
        Box::new(pingora::Pingora::new(cache)),
    ];
    list.extend(others);
    list
}

/// Whether `selection` on the command line means this peer: its name, or its name's first part
/// (`gateway` means both drivers, while `haproxy` and `nginx` mean the untuned ones).
pub(crate) fn is_selected_by(peer: &dyn Peer, selection: &str) -> bool {
    let name = peer.name();
    name == selection
        || name
            .strip_prefix(selection)
            .is_some_and(|rest| rest.starts_with('-') && !["haproxy", "nginx"].contains(&selection))
}

/// Features that a bare relay lacks: anything beyond forwarding bytes.
fn relay_unable(case: &Case) -> Option<&'static str> {
    if case.encrypted() {
        return Some("a relay does not terminate TLS");
    }
    if case.front == ClientProtocol::H2c && case.upstream == Upstream::Http1 {
        return Some("a relay does not translate HTTP/2 to HTTP/1");
    }
    if case.load.with == Loader::Idle {
        return Some("a relay holds two sockets per connection, so it cannot measure idle ones");
    }
    case.churn_ms
        .map(|_| "a relay has no configuration to change")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;

    /// Places where nothing is.
    pub(crate) fn places() -> PathArgs {
        PathArgs {
            scenarios_folder: PathBuf::from("scenarios"),
            gateway: PathBuf::from("gateway"),
            before: Some(PathBuf::from("before")),
            peers_folder: PathBuf::from("peers"),
        }
    }

    /// A topology that no process serves.
    pub(crate) fn topology(folder: &Path, front: ClientProtocol, routes: Routes) -> Topology {
        let certificate = matches!(front, ClientProtocol::Tls | ClientProtocol::H2Tls)
            .then(|| Certificate::generate(folder).expect("openssl makes a certificate"));
        Topology {
            listen: crate::net::free_address().expect("port"),
            origin: "127.0.0.1:9".parse().expect("address"),
            workers: 1,
            front,
            upstream: match front {
                ClientProtocol::Grpc | ClientProtocol::H2Tls => Upstream::H2c,
                _ => Upstream::Http1,
            },
            routes,
            heap_sampling: true,
            apart: false,
            certificate,
            folder: folder.to_owned(),
            generation: 0,
        }
    }

    /// Every front with one route, and both kinds of table.
    pub(crate) fn all_topologies(folder: &Path) -> Vec<Topology> {
        let fronts = [
            ClientProtocol::Http1,
            ClientProtocol::Tls,
            ClientProtocol::H2c,
            ClientProtocol::H2Tls,
            ClientProtocol::WebSocket,
            ClientProtocol::Grpc,
        ];
        let mut list: Vec<_> = fronts
            .into_iter()
            .map(|f| topology(folder, f, Routes::default()))
            .collect();
        for by in [RouteKey::Hosts, RouteKey::Prefixes] {
            list.push(topology(
                folder,
                ClientProtocol::Http1,
                Routes { by, count: 500 },
            ));
        }
        list
    }

    #[test]
    fn a_change_adds_one_key() {
        let folder = tempfile::tempdir().expect("folder");
        let routes = Routes {
            by: RouteKey::Hosts,
            count: 3,
        };
        let mut topology = topology(folder.path(), ClientProtocol::Http1, routes);
        assert_eq!(topology.keys().len(), 3);
        topology.generation = 7;
        assert_eq!(
            topology.keys().last().map(String::as_str),
            Some("changed.bench.test7")
        );
    }

    #[test]
    fn peer_names_select_peers() {
        let peers = all(&places());
        let selected = |selection: &str| {
            let names = peers
                .iter()
                .filter(|p| is_selected_by(p.as_ref(), selection))
                .map(|p| p.name());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(selected("gateway"), "gateway-io-uring gateway-epoll");
        assert_eq!(selected("before"), "before-io-uring before-epoll");
        assert_eq!(selected("haproxy"), "haproxy");
        assert_eq!(selected("nginx"), "nginx");
        assert_eq!(selected("nginx-tuned"), "nginx-tuned");
        assert_eq!(selected("relay"), "relay-epoll relay-io-uring");
    }

    #[test]
    fn the_gateway_takes_part_in_every_scenario() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let gateway = Gateway::new(Path::new("gateway"), Driver::Epoll, Build::Current);
        for case in crate::scenario::read_folder(&folder).expect("scenarios") {
            assert_eq!(gateway.unable(&case), None, "{}", case.name());
        }
    }
}
