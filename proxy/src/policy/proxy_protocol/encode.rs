//! Encodes headers for backends.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::{Endpoints, v2};

/// The version of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    V1,
    /// Version 2, the binary format.
    V2,
}

/// Writes the header of a connection; without addresses for a connection of the gateway itself.
pub fn write(version: Version, endpoints: Option<Endpoints>, out: &mut Vec<u8>) {
    match version {
        Version::V1 => write_v1(endpoints, out),
        Version::V2 => write_v2(endpoints, out),
    }
}

fn write_v1(endpoints: Option<Endpoints>, out: &mut Vec<u8>) {
    let Some(endpoints) = endpoints else {
        return out.extend_from_slice(b"PROXY UNKNOWN\r\n");
    };
    let (source, destination) = of_one_family(endpoints);
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (from, to) = (source.ip(), destination.ip());
    let (from_port, to_port) = (source.port(), destination.port());
    // Writing to a vector does not fail.
    let _ = write!(out, "PROXY {family} {from} {to} {from_port} {to_port}\r\n");
}

fn write_v2(endpoints: Option<Endpoints>, out: &mut Vec<u8>) {
    out.extend_from_slice(v2::SIGNATURE);
    let Some(endpoints) = endpoints else {
        return out.extend_from_slice(&[0x20, 0, 0, 0]);
    };
    let (source, destination) = of_one_family(endpoints);
    out.extend_from_slice(if source.is_ipv4() {
        &[0x21, 0x11, 0, 12]
    } else {
        &[0x21, 0x21, 0, 36]
    });
    for address in [source.ip(), destination.ip()] {
        match address {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
}

/// A header has one family: IPv4 if both addresses are (including IPv4-mapped ones), else IPv6.
fn of_one_family(endpoints: Endpoints) -> (SocketAddr, SocketAddr) {
    let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
    let source = canonical(endpoints.source);
    let destination = canonical(endpoints.destination);
    if source.is_ipv4() == destination.is_ipv4() {
        return (source, destination);
    }
    let widened = |end: SocketAddr| match end.ip() {
        IpAddr::V4(address) => SocketAddr::new(address.to_ipv6_mapped().into(), end.port()),
        IpAddr::V6(_) => end,
    };
    (widened(source), widened(destination))
}
