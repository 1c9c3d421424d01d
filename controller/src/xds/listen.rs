//! The listening socket of the xDS server.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;

/// Listens on an address. `[::]` means all addresses, also on a host without IPv6.
///
/// # Errors
///
/// The address is unavailable.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let without_v6 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
    match TcpListener::bind(address).await {
        Err(error)
            if address.ip() == Ipv6Addr::UNSPECIFIED
                && error.kind() != io::ErrorKind::AddrInUse =>
        {
            // If neither works, the first error is more informative.
            TcpListener::bind(without_v6).await.map_err(|_| error)
        }
        bound => bound,
    }
}
