//! Pingora as a peer: a small proxy of its own workspace, `bench/peers/pingora`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Peer, Role, Topology};
use crate::process;
use crate::scenario::{Case, ClientProtocol, RouteKey, Upstream};

/// The proxy that `bench/peers/install.sh pingora` builds.
pub(crate) struct Pingora {
    binary: PathBuf,
}

impl Pingora {
    /// Looked for below `cache`, where the script builds it.
    pub(crate) fn new(cache: &Path) -> Self {
        Self {
            binary: cache.join("pingora/release/bench-pingora"),
        }
    }
}

impl Peer for Pingora {
    fn name(&self) -> &'static str {
        "pingora"
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn version(&self) -> Result<String> {
        ensure!(
            self.binary.is_file(),
            "not built: bench/peers/install.sh pingora"
        );
        process::output(&self.binary, &["--version"])?;
        Ok(
            locked_version(include_str!("../../peers/pingora/Cargo.lock"))
                .context("its lock file does not list pingora")?
                .to_owned(),
        )
    }

    fn unable(&self, case: &Case) -> Option<&'static str> {
        match case.front {
            ClientProtocol::Grpc => Some("its HTTP/1 upstream carries no gRPC in this set-up"),
            _ if case.upstream == Upstream::H2c => Some("its upstream is HTTP/1 in this set-up"),
            _ if case.churn_ms.is_some() => Some("has no configuration to change while it runs"),
            _ => None,
        }
    }

    fn prepare(&self, topology: &Topology) -> Result<Command> {
        let by = match topology.routes.by {
            RouteKey::Nothing => "nothing",
            RouteKey::Hosts => "hosts",
            RouteKey::Prefixes => "prefixes",
        };
        let routes = topology.write("routes", &topology.keys().join("\n"))?;
        let mut command = Command::new(&self.binary);
        command.args(["--listen", &topology.listen.to_string()]);
        command.args(["--origin", &topology.origin.to_string()]);
        command
            .args([
                "--workers",
                &topology.workers.to_string(),
                "--by",
                by,
                "--routes",
            ])
            .arg(routes);
        if topology.front == ClientProtocol::H2c {
            command.arg("--h2c");
        }
        if let Some(certificate) = &topology.certificate {
            command.arg("--certificate").arg(&certificate.chain);
            command.arg("--key").arg(&certificate.key);
        }
        Ok(command)
    }
}

/// The version of the crate `pingora` in a lock file; the version of the small proxy around it is
/// irrelevant.
fn locked_version(lock: &str) -> Option<&str> {
    let (_, package) = lock.split_once("\nname = \"pingora\"\nversion = \"")?;
    package.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::locked_version;

    #[test]
    fn the_version_is_that_of_the_crate() {
        let lock = "[[package]]\nname = \"pin\"\nversion = \"1.0.0\"\n\n\
                    [[package]]\nname = \"pingora\"\nversion = \"0.9.1\"\n";
        assert_eq!(locked_version(lock), Some("0.9.1"));
        assert_eq!(locked_version("[[package]]\n"), None);
    }
}
