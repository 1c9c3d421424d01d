//! HAProxy as a peer, and as a relay of TCP.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::{Peer, Role, Topology, relay_unable};
use crate::process::{self, ChildProcess};
use crate::scenario::{Case, ClientProtocol, RouteKey, Upstream};

/// HAProxy in `mode http`, as it comes.
pub(crate) struct Haproxy;

/// Tuned for bodies: buffers of 64 KiB, and bodies that stay in the kernel where possible
/// (`splice-request`, `splice-response`).
pub(crate) struct HaproxyTuned;

/// HAProxy in `mode tcp`: part of the floor.
pub(crate) struct HaproxyTcp;

impl Peer for Haproxy {
    fn name(&self) -> &'static str {
        "haproxy"
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn version(&self) -> Result<String> {
        version()
    }

    fn unable(&self, _case: &Case) -> Option<&'static str> {
        None
    }

    fn prepare(&self, topology: &Topology) -> Result<Command> {
        prepare(topology, &http_config(topology, &Tuning::default()))
    }

    fn reload(&self, topology: &Topology, running: &ChildProcess) -> Result<()> {
        prepare(topology, &http_config(topology, &Tuning::default()))?;
        running.signal(Signal::USR2)
    }
}

impl Peer for HaproxyTuned {
    fn name(&self) -> &'static str {
        "haproxy-tuned"
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn version(&self) -> Result<String> {
        version()
    }

    fn unable(&self, case: &Case) -> Option<&'static str> {
        (case.load.bytes < DEFAULT_BUFFER).then_some("its tuning only affects larger bodies")
    }

    fn prepare(&self, topology: &Topology) -> Result<Command> {
        let tuning = Tuning {
            global: "  tune.bufsize 65536\n",
            defaults: "  option splice-request\n  option splice-response\n",
        };
        prepare(topology, &http_config(topology, &tuning))
    }
}

/// Settings beyond the defaults.
#[derive(Default)]
struct Tuning {
    global: &'static str,
    defaults: &'static str,
}

/// `tune.bufsize` where nothing is set.
const DEFAULT_BUFFER: usize = 16 * 1024;

impl Peer for HaproxyTcp {
    fn name(&self) -> &'static str {
        "haproxy-tcp"
    }

    fn role(&self) -> Role {
        Role::Floor
    }

    fn version(&self) -> Result<String> {
        version()
    }

    fn unable(&self, case: &Case) -> Option<&'static str> {
        relay_unable(case)
    }

    fn prepare(&self, topology: &Topology) -> Result<Command> {
        prepare(topology, &tcp_config(topology))
    }
}

fn version() -> Result<String> {
    let text = process::output("haproxy", &["-v"]).context("apt-get install haproxy")?;
    Ok(text
        .split_whitespace()
        .nth(2)
        .unwrap_or("unknown")
        .to_owned())
}

fn prepare(topology: &Topology, config: &str) -> Result<Command> {
    if topology.routes.by != RouteKey::Nothing {
        let mut map = String::new();
        for key in topology.keys() {
            let slash = if topology.routes.by == RouteKey::Prefixes {
                "/"
            } else {
                ""
            };
            let _ = writeln!(map, "{key}{slash} origin");
        }
        topology.write("routes.map", &map)?;
    }
    let path = topology.write("haproxy.cfg", config)?;
    let mut command = Command::new("haproxy");
    // A master that stays in the foreground: reloads need one.
    command.args(["-W", "-db", "-f"]).arg(path);
    Ok(command)
}

/// It reserves two descriptors per connection, which some machines refuse; upstream connections are
/// few here, so it may continue with what it gets.
fn preamble(topology: &Topology, mode: &str, tuning: &Tuning) -> String {
    let threads = topology.workers;
    let Tuning { global, defaults } = tuning;
    format!(
        "global\n  nbthread {threads}\n  maxconn 16000\n  no strict-limits\n{global}\
         defaults\n  mode {mode}\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n  \
         timeout tunnel 1h\n{defaults}"
    )
}

fn http_config(topology: &Topology, tuning: &Tuning) -> String {
    let mut text = preamble(topology, "http", tuning);
    let listen = topology.listen;
    let options = match (&topology.certificate, topology.front) {
        (Some(certificate), front) => {
            let alpn = match front {
                ClientProtocol::H2Tls => " alpn h2",
                _ => "",
            };
            format!(
                " ssl crt {} ssl-min-ver TLSv1.3{alpn}",
                certificate.bundle.display()
            )
        }
        (None, ClientProtocol::H2c | ClientProtocol::Grpc) => " proto h2".to_owned(),
        (None, _) => String::new(),
    };
    let map = topology.folder.join("routes.map");
    let map = map.display();
    let choice = match topology.routes.by {
        RouteKey::Nothing => "default_backend origin".to_owned(),
        RouteKey::Hosts => format!("use_backend %[req.hdr(host),map_str({map})]"),
        RouteKey::Prefixes => format!("use_backend %[path,map_beg({map})]"),
    };
    let origin = topology.origin;
    let proto = if topology.upstream == Upstream::H2c {
        " proto h2"
    } else {
        ""
    };
    let _ = write!(
        text,
        "  http-reuse always\nfrontend clients\n  bind {listen}{options}\n  {choice}\n\
         backend origin\n  server origin {origin}{proto}\n"
    );
    text
}

fn tcp_config(topology: &Topology) -> String {
    let mut text = preamble(topology, "tcp", &Tuning::default());
    let (listen, origin) = (topology.listen, topology.origin);
    let _ = write!(
        text,
        "listen relay\n  bind {listen}\n  server origin {origin}\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::tests::all_topologies;

    #[test]
    fn haproxy_accepts_every_configuration() {
        if version().is_err() {
            return;
        }
        let folder = tempfile::tempdir().expect("folder");
        for topology in all_topologies(folder.path()) {
            for peer in [&Haproxy as &dyn Peer, &HaproxyTuned, &HaproxyTcp] {
                let mut command = peer.prepare(&topology).expect("prepares");
                let output = command.arg("-c").output().expect("runs");
                let text = String::from_utf8_lossy(&output.stderr);
                assert!(
                    output.status.success(),
                    "{} {:?}: {text}",
                    peer.name(),
                    topology.front
                );
            }
        }
    }
}
