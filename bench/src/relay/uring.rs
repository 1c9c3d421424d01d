//! The relay over io_uring, by the gateway's own runtime with the gateway's own ring flags: what
//! the gateway costs above this one is its own code.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use futures_lite::future::try_zip;
use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt as _, Splitable as _};
use monoio::net::{TcpListener, TcpStream};
use monoio::{IoUringDriver, RuntimeBuilder};

use super::BUFFER;

pub(super) fn run(listen: SocketAddr, to: SocketAddr) -> Result<()> {
    let mut runtime = RuntimeBuilder::<IoUringDriver>::new()
        .uring_builder(ring())
        .with_entries(ENTRIES)
        .build()
        .context("io_uring is not available")?;
    runtime.block_on(async move {
        let listener = TcpListener::bind(listen)?;
        loop {
            let (client, _) = listener.accept().await?;
            // A connection that breaks is the peer's business; dropping it closes both sides.
            monoio::spawn(async move { drop(relay(client, to).await) });
        }
    })
}

/// The ring of the gateway's shards.
fn ring() -> io_uring::Builder {
    let mut ring = io_uring::IoUring::builder();
    ring.setup_coop_taskrun()
        .setup_single_issuer()
        .setup_submit_all()
        .setup_clamp();
    ring.setup_cqsize(ENTRIES * 4);
    ring
}

async fn relay(client: TcpStream, to: SocketAddr) -> std::io::Result<()> {
    let server = TcpStream::connect_addr(to).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    // An error of either way drops the other, and with it both connections.
    try_zip(carry(client_in, server_out), carry(server_in, client_out)).await?;
    Ok(())
}

async fn carry(mut from: impl AsyncReadRent, mut to: impl AsyncWriteRent) -> std::io::Result<()> {
    let mut buffer: Vec<u8> = Vec::with_capacity(BUFFER);
    loop {
        let (read, filled) = from.read(buffer).await;
        if read? == 0 {
            return to.shutdown().await;
        }
        let (written, emptied) = to.write_all(filled).await;
        written?;
        buffer = emptied;
    }
}

/// Whether this machine refuses rings.
#[cfg(test)]
pub(super) fn refused() -> bool {
    ring().build(8).is_err()
}

const ENTRIES: u32 = 4096;
