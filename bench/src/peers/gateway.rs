//! Our own gateway, as its users run it: the released binary and a file of Gateway API YAML.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;

use super::{Peer, Role, Topology};
use crate::inside;
use crate::process::{self, ChildProcess};
use crate::scenario::{Case, RouteKey, Upstream};
use crate::tls::Certificate;

/// How the gateway talks to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    IoUring,
    Epoll,
}

/// Which build of the gateway, where two are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// The build that is measured.
    Current,
    /// An earlier one, which counts as a peer.
    Before,
}

/// The gateway on one of its drivers.
pub(crate) struct Gateway {
    binary: PathBuf,
    driver: Driver,
    build: Build,
}

impl Gateway {
    /// The gateway at `binary`.
    pub(crate) fn new(binary: &Path, driver: Driver, build: Build) -> Self {
        Self {
            binary: binary.to_owned(),
            driver,
            build,
        }
    }
}

impl Peer for Gateway {
    fn name(&self) -> &'static str {
        match (self.build, self.driver) {
            (Build::Current, Driver::IoUring) => "gateway-io-uring",
            (Build::Current, Driver::Epoll) => "gateway-epoll",
            (Build::Before, Driver::IoUring) => "before-io-uring",
            (Build::Before, Driver::Epoll) => "before-epoll",
        }
    }

    fn role(&self) -> Role {
        match self.build {
            Build::Current => Role::Gateway,
            Build::Before => Role::Peer,
        }
    }

    fn version(&self) -> Result<String> {
        let binary = self.binary.display();
        let hint = || format!("{binary} is not built: cargo build --release -p proxy");
        ensure!(self.binary.is_file(), hint());
        let text = process::output(&self.binary, &["--version"]).with_context(hint)?;
        let version = text.trim().trim_start_matches("gateway ").trim();
        let version = version.lines().next().unwrap_or("unknown");
        // Between two versions there are many builds.
        let build = digest::digest(&digest::SHA256, &std::fs::read(&self.binary)?);
        let mut text = format!("{version}, SHA-256 ");
        for byte in &build.as_ref()[..6] {
            let _ = write!(text, "{byte:02x}");
        }
        Ok(text + "…")
    }

    fn unable(&self, _case: &Case) -> Option<&'static str> {
        None
    }

    fn prepare(&self, topology: &Topology) -> Result<Command> {
        let path = topology.write("gateway.yaml", &config(topology)?)?;
        let mut command = Command::new(&self.binary);
        command.args(["run", "--config"]).arg(path);
        command.args(["--shards", &topology.workers.to_string()]);
        command.args([
            "--driver",
            match self.driver {
                Driver::IoUring => "io-uring",
                Driver::Epoll => "epoll",
            },
        ]);
        command.args(["--access-log", "off"]);
        for (flag, socket) in [
            ("--admin-address", inside::ADMIN),
            ("--metrics-address", inside::METRICS),
            ("--readiness-address", "readiness.sock"),
        ] {
            let path = topology.folder.join(socket);
            command.arg(flag).arg(format!("unix:{}", path.display()));
        }
        if !topology.heap_sampling {
            command.args(["--heap-sampling", "off"]);
        }
        if topology.apart {
            command.args(["--pin", "always"]);
        }
        Ok(command)
    }

    fn reload(&self, topology: &Topology, _running: &ChildProcess) -> Result<()> {
        // The file is watched.
        topology.write("gateway.yaml", &config(topology)?)?;
        Ok(())
    }

    fn ring(&self) -> Option<bool> {
        Some(self.driver == Driver::IoUring)
    }
}

fn config(topology: &Topology) -> Result<String> {
    let mut text = String::new();
    let port = topology.listen.port();
    let (ip, origin_port) = (topology.origin.ip(), topology.origin.port());
    let listener = match &topology.certificate {
        Some(certificate) => {
            secret(&mut text, certificate)?;
            "HTTPS, tls: {certificateRefs: [{name: bench}]}"
        }
        None => "HTTP",
    };
    let protocol = match topology.upstream {
        Upstream::Http1 => "http",
        Upstream::H2c => "kubernetes.io/h2c",
    };
    let _ = write!(
        text,
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
         metadata: {{name: bench, namespace: default}}\n\
         spec:\n  gatewayClassName: gateway\n  listeners:\n  \
         - {{name: clients, port: {port}, protocol: {listener}}}\n\
         ---\napiVersion: v1\nkind: Service\nmetadata: {{name: origin, namespace: default}}\n\
         spec: {{ports: [{{name: http, port: 80, targetPort: {origin_port}, \
         appProtocol: {protocol}}}]}}\n\
         ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata: {{name: origin-1, namespace: default, \
         labels: {{kubernetes.io/service-name: origin}}}}\naddressType: IPv4\n\
         ports: [{{name: http, port: {origin_port}, protocol: TCP}}]\n\
         endpoints: [{{addresses: [\"{ip}\"], conditions: {{ready: true}}}}]\n\
         ---\napiVersion: gateway-system.io/v1alpha1\nkind: TrafficPolicy\n\
         metadata: {{name: unlimited, namespace: default}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: bench}}]\n  \
         limits: {{requestsPerConnection: 1000000000, keepAliveTimeout: 1h}}\n"
    );
    match topology.routes.by {
        RouteKey::Nothing => route(&mut text, "all", "", ""),
        RouteKey::Hosts => {
            for (number, host) in topology.keys().iter().enumerate() {
                let hostnames = format!("  hostnames: [\"{host}\"]\n");
                route(&mut text, &format!("host-{number}"), &hostnames, "");
            }
        }
        RouteKey::Prefixes => {
            for (number, prefix) in topology.keys().iter().enumerate() {
                let path =
                    format!("matches: [{{path: {{type: PathPrefix, value: \"{prefix}\"}}}}], ");
                route(&mut text, &format!("prefix-{number}"), "", &path);
            }
        }
    }
    Ok(text)
}

fn secret(text: &mut String, certificate: &Certificate) -> Result<()> {
    let encoded = |path: &Path| std::fs::read(path).map(|pem| STANDARD.encode(pem));
    let (chain, key) = (encoded(&certificate.chain)?, encoded(&certificate.key)?);
    let _ = write!(
        text,
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: bench, namespace: default}}\n\
         type: kubernetes.io/tls\ndata: {{tls.crt: {chain}, tls.key: {key}}}\n---\n"
    );
    Ok(())
}

fn route(text: &mut String, name: &str, hostnames: &str, matches: &str) {
    let _ = write!(
        text,
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: {name}, namespace: default}}\n\
         spec:\n  parentRefs: [{{name: bench}}]\n{hostnames}  \
         rules: [{{{matches}backendRefs: [{{name: origin, port: 80}}]}}]\n"
    );
}

#[cfg(test)]
mod tests {
    use translate::files::{self, Source};
    use translate::{Options, translate};

    use super::*;
    use crate::peers::tests::{all_topologies, topology};
    use crate::scenario::{ClientProtocol, Routes};

    #[test]
    fn one_route_per_key() {
        let folder = tempfile::tempdir().expect("folder");
        for (by, count) in [
            (RouteKey::Nothing, 1),
            (RouteKey::Hosts, 5),
            (RouteKey::Prefixes, 7),
        ] {
            let topology = topology(folder.path(), ClientProtocol::Http1, Routes { by, count });
            let text = config(&topology).expect("a configuration");
            assert_eq!(text.matches("kind: HTTPRoute").count(), count);
            assert_eq!(text.matches("kind: Gateway\n").count(), 1);
        }
    }

    #[test]
    fn every_gateway_configuration_translates_without_findings() {
        let folder = tempfile::tempdir().expect("folder");
        for topology in all_topologies(folder.path()) {
            let content = config(&topology).expect("a configuration");
            let source = Source::new("gateway.yaml", content);
            let admitted = files::admit(&[source]);
            assert!(admitted.findings.is_empty(), "{:?}", admitted.findings);
            let store = admitted.objects.into_iter().map(|(object, _)| object);
            let translation = translate(&store.collect(), &Options::machine());
            let problems: Vec<_> = translation.statuses.problem_conditions().collect();
            assert!(problems.is_empty(), "{:?}: {problems:?}", topology.front);
        }
    }
}
