//! nginx as a peer.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::{Peer, Role, Topology};
use crate::process::{self, ChildProcess};
use crate::scenario::{Case, ClientProtocol, RouteKey, Upstream};

/// nginx from the distribution.
pub(crate) struct Nginx;

/// Tuned for bodies: larger response buffers, and request bodies forwarded without buffering.
pub(crate) struct NginxTuned;

impl Peer for Nginx {
    fn name(&self) -> &'static str {
        "nginx"
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
        prepare(topology, &Tuning::NONE)
    }

    fn reload(&self, topology: &Topology, running: &ChildProcess) -> Result<()> {
        reload(topology, running, &Tuning::NONE)
    }
}

impl Peer for NginxTuned {
    fn name(&self) -> &'static str {
        "nginx-tuned"
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn version(&self) -> Result<String> {
        version()
    }

    fn unable(&self, case: &Case) -> Option<&'static str> {
        (case.load.bytes < MIN_TUNED_BODY_BYTES).then_some("its tuning only affects larger bodies")
    }

    fn prepare(&self, topology: &Topology) -> Result<Command> {
        prepare(topology, &Tuning::BODIES)
    }

    fn reload(&self, topology: &Topology, running: &ChildProcess) -> Result<()> {
        reload(topology, running, &Tuning::BODIES)
    }
}

/// The differences between the two.
struct Tuning {
    events: &'static str,
    http: &'static str,
}

impl Tuning {
    const NONE: Self = Self {
        events: "",
        http: "proxy_buffers 8 16k;\n",
    };
    const BODIES: Self = Self {
        events: "multi_accept on; ",
        http: "proxy_buffers 16 32k;\nproxy_request_buffering off;\n",
    };
}

/// Bodies from which on the tuning can matter: one buffer of the untuned nginx.
const MIN_TUNED_BODY_BYTES: usize = 16 * 1024;

fn version() -> Result<String> {
    let text = process::output("nginx", &["-v"]).context("apt-get install nginx-light")?;
    Ok(text
        .trim()
        .trim_start_matches("nginx version: nginx/")
        .to_owned())
}

fn prepare(topology: &Topology, tuning: &Tuning) -> Result<Command> {
    let path = topology.write("nginx.conf", &config(topology, tuning))?;
    let mut command = Command::new("nginx");
    command
        .arg("-c")
        .arg(path)
        .arg("-p")
        .arg(&topology.folder)
        .args(["-e", "stderr"]);
    Ok(command)
}

fn reload(topology: &Topology, running: &ChildProcess, tuning: &Tuning) -> Result<()> {
    topology.write("nginx.conf", &config(topology, tuning))?;
    running.signal(Signal::HUP)
}

/// Lines before the `http` block, shared with nginx as an origin.
pub(crate) fn preamble(workers: usize, events: &str) -> String {
    format!(
        "daemon off;\nworker_processes {workers};\nworker_rlimit_nofile 65536;\npid nginx.pid;\n\
         error_log stderr crit;\nevents {{ {events}worker_connections 32768; }}\n"
    )
}

/// Settings of the `http` block, shared with nginx as an origin.
pub(crate) const UNLIMITED: &str = "access_log off;\nkeepalive_requests 1000000000;\n\
     keepalive_timeout 1h;\nclient_max_body_size 0;\nclient_body_buffer_size 64k;\n\
     client_body_temp_path tmp-client;\nproxy_temp_path tmp-proxy;\nfastcgi_temp_path tmp-fcgi;\n\
     uwsgi_temp_path tmp-uwsgi;\nscgi_temp_path tmp-scgi;\n";

fn config(topology: &Topology, tuning: &Tuning) -> String {
    let mut text = preamble(topology.workers, tuning.events);
    let Topology { origin, .. } = topology;
    let _ = write!(
        text,
        "http {{\n{UNLIMITED}http2_max_requests 1000000000;\nhttp2_max_concurrent_streams 1024;\n\
         server_names_hash_max_size 65536;\nserver_names_hash_bucket_size 128;\n\
         proxy_max_temp_file_size 0;\nproxy_buffer_size 16k;\n{}\
         upstream origin {{ server {origin}; keepalive 1024; keepalive_requests 1000000000; \
         keepalive_timeout 1h; }}\n",
        tuning.http
    );
    let pass = pass(topology);
    match topology.routes.by {
        RouteKey::Nothing => server(
            &mut text,
            topology,
            "_",
            &format!("location / {{ {pass} }}"),
        ),
        RouteKey::Hosts => {
            for host in topology.keys() {
                server(
                    &mut text,
                    topology,
                    &host,
                    &format!("location / {{ {pass} }}"),
                );
            }
        }
        RouteKey::Prefixes => {
            let mut locations = String::new();
            for prefix in topology.keys() {
                let _ = writeln!(locations, "location {prefix}/ {{ {pass} }}");
            }
            server(&mut text, topology, "_", &locations);
        }
    }
    text.push_str("}\n");
    text
}

fn server(text: &mut String, topology: &Topology, name: &str, locations: &str) {
    let listen = topology.listen;
    let options = match topology.front {
        ClientProtocol::Tls => " ssl",
        ClientProtocol::H2Tls => " ssl http2",
        ClientProtocol::H2c | ClientProtocol::Grpc => " http2",
        ClientProtocol::Http1 | ClientProtocol::WebSocket => "",
    };
    let _ = writeln!(
        text,
        "server {{ listen {listen}{options}; server_name {name};"
    );
    if let Some(certificate) = &topology.certificate {
        let (chain, key) = (certificate.chain.display(), certificate.key.display());
        let _ = writeln!(
            text,
            "ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.3; \
             ssl_session_tickets on;"
        );
    }
    let _ = writeln!(text, "{locations} }}");
}

fn pass(topology: &Topology) -> &'static str {
    match topology.front {
        // Its only client of HTTP/2 is that of gRPC, which requests of other kinds may use too.
        _ if topology.upstream == Upstream::H2c => "grpc_pass grpc://origin;",
        ClientProtocol::WebSocket => {
            "proxy_pass http://origin; proxy_http_version 1.1; proxy_read_timeout 1h; \
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;"
        }
        ClientProtocol::Http1
        | ClientProtocol::Tls
        | ClientProtocol::H2c
        | ClientProtocol::H2Tls
        | ClientProtocol::Grpc => {
            "proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\";"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::tests::all_topologies;

    #[test]
    fn nginx_accepts_every_configuration() {
        if version().is_err() {
            return;
        }
        let folder = tempfile::tempdir().expect("folder");
        for topology in all_topologies(folder.path()) {
            for peer in [&Nginx as &dyn Peer, &NginxTuned] {
                let mut command = peer.prepare(&topology).expect("prepares");
                let output = command.arg("-t").output().expect("runs");
                let text = String::from_utf8_lossy(&output.stderr);
                let (name, front) = (peer.name(), topology.front);
                assert!(output.status.success(), "{name} {front:?}: {text}");
            }
        }
    }

    #[test]
    fn the_tuned_configuration_differs_only_by_its_tuning() {
        let folder = tempfile::tempdir().expect("folder");
        for topology in all_topologies(folder.path()) {
            let [plain, tuned] = [Tuning::NONE, Tuning::BODIES].map(|it| config(&topology, &it));
            let undone = tuned
                .replace("multi_accept on; ", "")
                .replace("proxy_request_buffering off;\n", "")
                .replace("proxy_buffers 16 32k;", "proxy_buffers 8 16k;");
            assert_ne!(tuned, plain);
            assert_eq!(undone, plain);
        }
    }
}
