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
    #[error("the PROXY line has an invalid address")]
    Address,
    /// A port that is none.
    #[error("the PROXY line has an invalid port")]
    Port,
    /// A version other than 2, or an unknown command.
    #[error("the binary PROXY header has an unknown version or command")]
    VersionOrCommand,
    /// An unknown address family or transport.
    #[error("the binary PROXY header has an unknown address family or transport")]
    Family,
    /// A length too short for the addresses, or beyond our bound.
    #[error("the binary PROXY header has an invalid length")]
    Length,
}

/// Reads the first bytes of a connection.
///
/// # Errors
/// They start like a header, and are none.
pub fn parse(bytes: &[u8]) -> Result<Progress, Malformed> {
    match Start::of(bytes) {
        Start::Header(Version::V1) => v1::parse(bytes),
        Start::Header(Version::V2) => v2::parse(bytes),
        Start::Undecided => Ok(Progress::Partial),
        Start::Data => Ok(Progress::NotProxy),
    }
}

/// What the first bytes of a connection start, whatever becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// They are too few to say.
    Undecided,
    /// A header, perhaps a malformed one.
    Header(Version),
    /// No header.
    Data,
}

impl Start {
    /// Judges the first bytes of a connection.
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

/// Judges the first bytes of a connection that are not kept until they are judged.
#[derive(Debug, Default)]
pub struct StartWatch {
    seen: Vec<u8>,
}

impl StartWatch {
    /// Judges what has come so far; `bytes` are the next of it.
    pub fn advance(&mut self, bytes: &[u8]) -> Start {
        let missing = v2::SIGNATURE.len().saturating_sub(self.seen.len());
        self.seen.extend(bytes.iter().take(missing));
        Start::of(&self.seen)
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
    /// They are data; were they a header, it would not be believed, and the connection is closed.
    Forbidden,
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
            (ProxyProtocolMode::Off, _) => Expectation::Nothing,
            (ProxyProtocolMode::Optional, true) => Expectation::Optional,
            // Passed on as data, a backend that reads headers would believe it.
            (ProxyProtocolMode::Optional, false) => Expectation::Forbidden,
            (ProxyProtocolMode::Required, true) => Expectation::Required,
            (ProxyProtocolMode::Required, false) => Expectation::Refused,
        }
    }
}

#[cfg(test)]
mod tests;
