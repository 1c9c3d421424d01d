//! Small things about addresses.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// A loopback address that was free a moment ago. Peers that cannot bind port 0 and tell which one
/// they got need it; another process could take the port in between, and then the run fails.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
