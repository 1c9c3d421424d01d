//! Version 2: binary.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Endpoints, Malformed, Progress};
use crate::limits::PROXY_HEADER_BYTES;

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Parses bytes that begin with [`SIGNATURE`].
pub(super) fn parse(bytes: &[u8]) -> Result<Progress, Malformed> {
    let after = bytes.strip_prefix(SIGNATURE).unwrap_or_default();
    // Checked byte by byte, so that a malformed header is detected without waiting.
    let is_local = match after.first() {
        None => return Ok(Progress::Partial),
        Some(0x20) => true,
        Some(0x21) => false,
        Some(_) => return Err(Malformed::VersionOrCommand),
    };
    let family = match after.get(1) {
        None => return Ok(Progress::Partial),
        Some(&byte) => Family::of(byte)?,
    };
    let Some(&[high, low]) = after.get(2..FIXED_BYTES) else {
        return Ok(Progress::Partial);
    };
    let body_len = usize::from(u16::from_be_bytes([high, low]));
    let len = SIGNATURE
        .len()
        .saturating_add(FIXED_BYTES)
        .saturating_add(body_len);
    let too_short = !is_local && body_len < family.address_bytes();
    if len > PROXY_HEADER_BYTES || too_short {
        return Err(Malformed::Length);
    }
    let Some(body) = bytes.get(SIGNATURE.len().saturating_add(FIXED_BYTES)..len) else {
        return Ok(Progress::Partial);
    };
    Ok(Progress::Complete {
        len,
        endpoints: if is_local {
            None
        } else {
            family.endpoints(body)
        },
    })
}

#[derive(Debug, Clone, Copy)]
enum Family {
    Tcp4,
    Tcp6,
    /// Known, but without a client's IP address over TCP: ignored, so the peer's address counts.
    Other {
        address_bytes: usize,
    },
}

impl Family {
    fn of(byte: u8) -> Result<Self, Malformed> {
        match byte {
            0x11 => Ok(Self::Tcp4),
            0x21 => Ok(Self::Tcp6),
            0x00 => Ok(Self::Other { address_bytes: 0 }),
            0x12 => Ok(Self::Other { address_bytes: 12 }),
            0x22 => Ok(Self::Other { address_bytes: 36 }),
            0x31 | 0x32 => Ok(Self::Other { address_bytes: 216 }),
            _ => Err(Malformed::Family),
        }
    }

    fn address_bytes(self) -> usize {
        match self {
            Self::Tcp4 => 12,
            Self::Tcp6 => 36,
            Self::Other { address_bytes } => address_bytes,
        }
    }

    /// Reads the addresses; TLVs after them are ignored.
    fn endpoints(self, body: &[u8]) -> Option<Endpoints> {
        match self {
            Self::Tcp4 => {
                let (source, body) = body.split_first_chunk::<4>()?;
                let (destination, body) = body.split_first_chunk::<4>()?;
                let source = Ipv4Addr::from(*source).into();
                with_ports(source, Ipv4Addr::from(*destination).into(), body)
            }
            Self::Tcp6 => {
                let (source, body) = body.split_first_chunk::<16>()?;
                let (destination, body) = body.split_first_chunk::<16>()?;
                let source = Ipv6Addr::from(*source).into();
                with_ports(source, Ipv6Addr::from(*destination).into(), body)
            }
            Self::Other { .. } => None,
        }
    }
}

fn with_ports(source: IpAddr, destination: IpAddr, body: &[u8]) -> Option<Endpoints> {
    let &[a, b, c, d] = body.first_chunk::<4>()?;
    Some(Endpoints {
        source: SocketAddr::new(source, u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
    })
}

/// Version and command, family and transport, length.
const FIXED_BYTES: usize = 4;
