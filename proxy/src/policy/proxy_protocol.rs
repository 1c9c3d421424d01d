//! PROXY protocol, versions 1 and 2 (HAProxy's `proxy-protocol.txt`): the client's address behind a
//! proxy.
//!
//! Sans-io: call it with the first bytes of a connection, and read more while the result is
//! [`Progress::Partial`]. A header that starts like one and is malformed is an error, never data.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;
use xds::model::{ProxyProtocolIn, ProxyProtocolMode};

use super::networks::Networks;

mod encode;
mod v1;
mod v2;

pub use encode::{Version, write};

/// The addresses in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    /// Address of the client, as the header gives it.
    pub source: SocketAddr,
    /// The address that the client connected to.
    pub destination: SocketAddr,
}

/// The result of parsing the first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Possibly the start of a header: read more. At most
    /// [`PROXY_HEADER_BYTES`](crate::limits::PROXY_HEADER_BYTES) give this result.
    Partial,
    /// A complete and valid header.
    Complete {
        /// Length of the header; data follows.
        len: usize,
        /// Its addresses; `None` for a connection of the proxy itself (`LOCAL`, a health check) or
        /// without IP addresses.
        endpoints: Option<Endpoints>,
    },
    /// The bytes are not a header: the connection begins with data.
    NotProxy,
}

/// Why a header is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    /// A version 1 header longer than 107 bytes, or with a line end other than CRLF.
    #[error("the PROXY line does not end with CRLF within {} bytes", v1::MAX_BYTES)]
    Line,
    /// Not `TCP4`, `TCP6` or `UNKNOWN`, or the wrong number of words.
    #[error("the PROXY line does not have the form `PROXY TCP4|TCP6 source destination ports`")]
    Form,
    /// An invalid address, or of the other family.
    #[error("the PROXY line has an invalid address")]
    Address,
    /// A port that is not a number below 65536.
    #[error("the PROXY line has an invalid port")]
    Port,
    /// A version other than 2, or an unknown command.
    #[error("the binary PROXY header has an unknown version or command")]
    VersionOrCommand,
    /// An unknown address family or transport.
    #[error("the binary PROXY header has an unknown address family or transport")]
    Family,
    /// A length too short for the addresses, or beyond the limit.
    #[error("the binary PROXY header has an invalid length")]
    Length,
}

/// Parses the first bytes of a connection.
///
/// # Errors
///
/// They start like a header, but are malformed.
pub fn parse(bytes: &[u8]) -> Result<Progress, Malformed> {
    match Start::of(bytes) {
        Start::Header(Version::V1) => v1::parse(bytes),
        Start::Header(Version::V2) => v2::parse(bytes),
        Start::Undecided => Ok(Progress::Partial),
        Start::Data => Ok(Progress::NotProxy),
    }
}

/// Whether the first bytes of a connection start a header, valid or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Too few bytes to decide.
    Undecided,
    /// A header, possibly malformed.
    Header(Version),
    /// The bytes are not a header.
    Data,
}

impl Start {
    /// Checks the first bytes of a connection.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(v1::START) {
            Self::Header(Version::V1)
        } else if bytes.starts_with(v2::SIGNATURE) {
            Self::Header(Version::V2)
        } else if v1::START.starts_with(bytes) || v2::SIGNATURE.starts_with(bytes) {
            Self::Undecided
        } else {
            Self::Data
        }
    }
}

/// Checks the first bytes of a connection incrementally, without keeping them.
#[derive(Debug, Default)]
pub struct StartWatch {
    seen: Vec<u8>,
}

impl StartWatch {
    /// Checks the next bytes.
    pub fn advance(&mut self, bytes: &[u8]) -> Start {
        let missing = v2::SIGNATURE.len().saturating_sub(self.seen.len());
        self.seen.extend(bytes.iter().take(missing));
        Start::of(&self.seen)
    }
}

/// Which peers' headers are accepted: a compiled [`ProxyProtocolIn`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    mode: ProxyProtocolMode,
    /// Senders whose headers are used; empty means all.
    trusted: Networks,
}

/// The PROXY protocol setting of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// Headers are not expected: all bytes are data.
    Nothing,
    /// A connection may begin with a header.
    Optional,
    /// A header; a connection without one is closed.
    Required,
    /// A header, which this peer is not trusted to send: the connection is closed.
    Refused,
    /// Data; a header of this peer would be untrusted, and closes the connection.
    Forbidden,
}

impl Acceptance {
    /// Compiles the setting of a policy; `None` means that headers are never read.
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

    /// Whether this peer has to, may, or must not send a header.
    #[must_use]
    pub fn expectation(&self, peer: IpAddr) -> Expectation {
        let trusted = self.trusted.is_empty() || self.trusted.contains(peer);
        match (self.mode, trusted) {
            (ProxyProtocolMode::Off, _) => Expectation::Nothing,
            (ProxyProtocolMode::Optional, true) => Expectation::Optional,
            // Forwarded as data, a backend that reads headers would trust it.
            (ProxyProtocolMode::Optional, false) => Expectation::Forbidden,
            (ProxyProtocolMode::Required, true) => Expectation::Required,
            (ProxyProtocolMode::Required, false) => Expectation::Refused,
        }
    }
}

#[cfg(test)]
mod tests;
