//! A HAProxy in the clients' network, as a load balancer in front of proxies.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use crate::process;
use crate::test::scope::Scope;

/// A running one, that ends when dropped.
pub(super) struct HaProxy {
    pub(super) address: SocketAddr,
    process: Child,
    _folder: TempDir,
}

impl HaProxy {
    /// Starts it with these lines, which name the servers, in its configuration.
    pub(super) async fn start(scope: &Scope, servers: &str) -> Result<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = free.local_addr()?;
        drop(free);
        let folder = tempfile::tempdir().context("cannot make a folder for HAProxy")?;
        let configuration = folder.path().join("haproxy.cfg");
        let text = format!(
            "global\n  maxconn 100\n\
             defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
             listen edge\n  bind {address}\n{servers}\n"
        );
        fs::write(&configuration, text)?;
        let mut command = process::command(&["haproxy", "-db", "-f"]);
        let process = command
            .arg(&configuration)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run haproxy: install the package haproxy")?;
        let started = Self {
            address,
            process,
            _folder: folder,
        };
        scope
            .until("HAProxy to accept connections", async || {
                Ok(TcpStream::connect(address).await.ok().map(drop))
            })
            .await?;
        Ok(started)
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
