//! Connections to the ports that probes use, held open by someone who sends nothing or little.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot::Receiver;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::apart::Apart;

/// Connections to each port: more than the 128 that these servers accept.
const CONNECTIONS: usize = 160;

/// Time between two bytes of a connection that sends a head slowly, and before one that was closed
/// is opened again: with all ports some 200 a second. Thousands would be a load on the processors, which
/// everything here shares, and not on these servers.
const PACE: Duration = Duration::from_secs(2);

/// Connections that are opened again when they are closed, in a thread of their own, until [`Self::close`].
pub(super) struct IdleConnections(Apart<()>);

impl IdleConnections {
    pub(super) fn open(targets: Vec<SocketAddr>) -> Result<Self> {
        let hold_all = async move |stopped: Receiver<()>| {
            let mut held = JoinSet::new();
            for target in targets {
                for number in 0..CONNECTIONS {
                    held.spawn_local(hold(target, number % 2 == 0));
                }
            }
            // An error means the same: that it is time to stop.
            let _ = stopped.await;
        };
        Apart::start(hold_all).map(Self)
    }

    pub(super) async fn close(self) -> Result<()> {
        self.0.stop().await
    }
}

/// Holds one connection, silent or with a head that never ends.
async fn hold(target: SocketAddr, is_silent: bool) {
    loop {
        // An error means that the server closed it, as it may.
        if let Ok(mut stream) = TcpStream::connect(target).await {
            let head = if is_silent {
                &b""[..]
            } else {
                b"GET / HTTP/1.1\r\nhost: a\r\n"
            };
            let _ = stream.write_all(head).await;
            while !is_silent && stream.write_all(b"x: y\r\n").await.is_ok() {
                sleep(PACE).await;
            }
            let _ = stream.read(&mut [0]).await;
        }
        sleep(PACE).await;
    }
}
