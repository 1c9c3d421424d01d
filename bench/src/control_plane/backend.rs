//! The backend of all endpoints: one server that responds at every address of a range, which the
//! kernel treats as local. So a thousand endpoints need no thousand pods.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// Addresses that are no longer endpoints.
type RetiredAddresses = Arc<RwLock<HashSet<IpAddr>>>;

pub(crate) struct Backend {
    /// First address of its range, a /16.
    pub(crate) range: Ipv4Addr,
    /// Its port, at every address.
    pub(crate) port: u16,
    retired: RetiredAddresses,
}

impl Backend {
    pub(crate) fn start(range: Ipv4Addr) -> Result<Self> {
        let output = Command::new("ip")
            .args([
                "route",
                "replace",
                "local",
                &format!("{range}/16"),
                "dev",
                "lo",
            ])
            .output()
            .context("cannot run ip: apt-get install iproute2")?;
        ensure!(
            output.status.success(),
            "this network cannot have endpoints at {range}/16: run this as root with `e2e exec -- …`: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let listener = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let retired = RetiredAddresses::default();
        let of_server = Arc::clone(&retired);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::spawn(move || runtime.block_on(serve(listener, of_server)));
        Ok(Self {
            range,
            port,
            retired,
        })
    }

    /// From now on, connections to these addresses are closed without a response, like those of
    /// pods that have ended.
    pub(crate) fn retire(&self, addresses: &[Ipv4Addr]) {
        let mut retired = self.retired.write().unwrap_or_else(PoisonError::into_inner);
        retired.extend(addresses.iter().copied().map(IpAddr::V4));
    }

    /// All addresses respond again.
    pub(crate) fn revive(&self) {
        let mut retired = self.retired.write().unwrap_or_else(PoisonError::into_inner);
        retired.clear();
    }
}

async fn serve(listener: std::net::TcpListener, retired: RetiredAddresses) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        // A connection that broke before it was accepted is its client's problem.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, Arc::clone(&retired)));
        }
    }
}

async fn connection(stream: TcpStream, retired: RetiredAddresses) {
    let Ok(local) = stream.local_addr().map(|local: SocketAddr| local.ip()) else {
        return;
    };
    let is_retired = move || {
        let retired = retired.read().unwrap_or_else(PoisonError::into_inner);
        retired.contains(&local)
    };
    if is_retired() {
        return;
    }
    let answer = service_fn(move |_| {
        let gone = is_retired();
        async move {
            if gone {
                // Closes the connection without a response.
                return Err(std::io::Error::other("the endpoint has ended"));
            }
            let body = Full::new(Bytes::from(local.to_string()));
            Ok::<_, std::io::Error>(Response::new(body))
        }
    });
    // A proxy may close connections at any time.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}
