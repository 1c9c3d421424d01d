//! PROXY protocol, versions 1 and 2 (HAProxy's `proxy-protocol.txt`): who a connection really is of.
//!
//! Sans-io: the listener hands over the first bytes of a connection and reads on while the answer
//! is [`Progress::Partial`]. A header that starts like one and goes wrong is an error, never data.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;
use xds::model::{ProxyProtocolIn, ProxyProtocolMode};

use super::networks::Networks;

mod encode;
mod v1;
mod v2;

pub use encode::{Version, write};

/// Both ends of the connection that a header tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    /// Who connected.
    pub source: SocketAddr,
    /// What it connected to.
    pub destination: SocketAddr,
}

/// What the first bytes of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Perhaps the start of a header: read on. At most [`PROXY_HEADER_BYTES`](crate::limits::PROXY_HEADER_BYTES) ever come to this.
    Partial,
    /// A whole header.
    Complete {
        /// Its bytes; data follows.
        len: usize,
        /// Whom it tells of; none for a connection of the sender's own (`LOCAL`, a health check) or
        /// of a kind that has no IP addresses.
        endpoints: Option<Endpoints>,
    },
    /// No header: the bytes are data.
    NotProxy,
}

/// Why a header is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    /// A version 1 header without its end in 107 bytes, or with an end of line other than CRLF.
    #[error("the PROXY line does not end with CRLF within {} bytes", v1::MAX_BYTES)]
    Line,
    /// Something other than `TCP4`, `TCP6` or `UNKNOWN`, or too few or too many words.
    #[error("the PROXY line does not have the form `PROXY TCP4|TCP6 source destination ports`")]
    Words,
    /// An address that is none, or of the other family.
    #[error("the PROXY line has a bad address")]
    Address,
    /// A port that is none.
    #[error("the PROXY line has a bad port")]
    Port,
    /// A version other than 2, or an unknown command.
    #[error("the binary PROXY header has an unknown version or command")]
    VersionOrCommand,
    /// An unknown address family or transport.
    #[error("the binary PROXY header has an unknown address family or transport")]
    Family,
    /// A length too short for the addresses, or beyond our bound.
    #[error("the binary PROXY header has a bad length")]
    Length,
}

/// Reads the first bytes of a connection.
///
/// # Errors
/// They start like a header, and are none.
pub fn parse(bytes: &[u8]) -> Result<Progress, Malformed> {
    if bytes.starts_with(v1::START) {
        v1::parse(bytes)
    } else if bytes.starts_with(v2::SIGNATURE) {
        v2::parse(bytes)
    } else if v1::START.starts_with(bytes) || v2::SIGNATURE.starts_with(bytes) {
        Ok(Progress::Partial)
    } else {
        Ok(Progress::NotProxy)
    }
}

/// From whom headers are read: a compiled [`ProxyProtocolIn`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    mode: ProxyProtocolMode,
    /// Empty means everyone.
    trusted: Networks,
}

/// What a listener does with the first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// They are data.
    Nothing,
    /// A header may come first.
    Optional,
    /// A header must come first; without one the connection is closed.
    Required,
    /// A header must come first, and this peer's is not believed: the connection is closed.
    Refused,
}

impl Acceptance {
    /// Compiles what a policy says; none means that headers are never read.
    #[must_use]
    pub fn compile(policy: Option<&ProxyProtocolIn>) -> Self {
        policy.map_or(
            Self {
                mode: ProxyProtocolMode::Off,
                trusted: Networks::default(),
            },
            |policy| Self {
                mode: policy.mode,
                trusted: Networks::compile(&policy.trusted_sources),
            },
        )
    }

    /// What to expect from a peer.
    #[must_use]
    pub fn expectation(&self, peer: IpAddr) -> Expectation {
        let trusted = self.trusted.is_empty() || self.trusted.contains(peer);
        match (self.mode, trusted) {
            (ProxyProtocolMode::Off, _) | (ProxyProtocolMode::Optional, false) => {
                Expectation::Nothing
            }
            (ProxyProtocolMode::Optional, true) => Expectation::Optional,
            (ProxyProtocolMode::Required, true) => Expectation::Required,
            (ProxyProtocolMode::Required, false) => Expectation::Refused,
        }
    }
}

#[cfg(test)]
mod tests;
