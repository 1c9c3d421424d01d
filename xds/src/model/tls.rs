//! TLS on both sides: what a listener shows to clients, and what a backend must show to us.
//!
//! Certificates are DER that `translate` has parsed and compared with their keys. A private key is
//! in the model, for a proxy cannot serve without it, but no text is ever made of one.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use ring::digest;

use super::Hostname;

/// An X.509 certificate in DER.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Der(Arc<[u8]>);

impl Der {
    /// Takes the bytes as they are.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The SHA-256 of the bytes in hexadecimal, as `openssl x509 -fingerprint -sha256` says it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = digest::digest(&digest::SHA256, &self.0);
        hash.as_ref().iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to a String does not fail");
            text
        })
    }
}

impl fmt::Debug for Der {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fingerprint = self.fingerprint();
        let start = fingerprint.get(..16).unwrap_or_default();
        write!(f, "Der({} bytes, sha256 {start}…)", self.0.len())
    }
}

/// A private key in DER (PKCS #8, PKCS #1 or SEC 1). Never shown: its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(Arc<[u8]>);

impl PrivateKey {
    /// Takes the bytes as they are.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The secret bytes: for the TLS library and the wire form alone.
    #[must_use]
    pub fn secret_der(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(hidden)")
    }
}

/// A certificate with its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate and those that lead to its root, at least one, the own one first.
    pub chain: Vec<Der>,
    /// The own certificate's key.
    pub key: PrivateKey,
}

/// How a listener ends TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsServer {
    /// At least one. The first whose names match the SNI is shown, or else the first.
    pub certificates: Vec<Certificate>,
    /// Whether clients show a certificate.
    pub client_auth: ClientAuth,
    /// Protocols that are offered, the preferred first; none means that ALPN is not answered.
    pub alpn: Vec<Alpn>,
    /// The oldest version that is spoken.
    pub min_version: TlsVersion,
}

/// Whether clients show a certificate, and who vouches for it. Lists of roots are never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientAuth {
    /// None is asked for.
    None,
    /// `AllowValidOnly`: without a certificate under one of the roots there is no connection.
    Required {
        /// Who vouches.
        roots: Vec<Der>,
    },
    /// `AllowInsecureFallback`: asked for, but none and an invalid one will do as well.
    Optional {
        /// Who vouches.
        roots: Vec<Der>,
    },
}

/// A protocol inside of TLS (RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Alpn {
    /// `http/1.1`.
    Http11,
    /// `h2`.
    H2,
}

impl Alpn {
    /// Its name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http11 => "http/1.1",
            Self::H2 => "h2",
        }
    }
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    V12,
    /// TLS 1.3 (RFC 8446).
    V13,
}

/// TLS towards a backend. The certificate that we show to it is the Gateway's:
/// [`PolicySpec::client_certificate`](super::PolicySpec::client_certificate).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendTls {
    /// What the backend must show.
    Verified(TlsClient),
    /// Whatever certificate the backend shows will do. No user can ask for this: it is how endpoint
    /// pickers of the Inference Extension are reached, whose certificates nobody vouches for.
    Unverified {
        /// The SNI: one exact name.
        server_name: Hostname,
    },
    /// TLS was asked for in a way that cannot be carried out: requests fail, never in plain text.
    Invalid,
}

/// How a backend proves who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsClient {
    /// The SNI: one exact name.
    pub server_name: Hostname,
    /// Names of which its certificate must have one; none means `server_name`.
    pub identities: Vec<Identity>,
    /// Who vouches for its certificate.
    pub roots: Roots,
}

/// A subject alternative name of a backend's certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// A DNS name; `*.` stands for names under it.
    Dns(Hostname),
    /// A URI, such as a SPIFFE id, compared byte for byte.
    Uri(String),
}

/// Who vouches for a backend's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// The certificates that the proxy's system trusts.
    System,
    /// These, at least one.
    Certificates(Vec<Der>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_shown() {
        let certificate = Certificate {
            chain: vec![Der::new(b"chain")],
            key: PrivateKey::new(b"secret"),
        };
        for text in [format!("{certificate:?}"), format!("{certificate:#?}")] {
            assert!(text.contains("PrivateKey(hidden)"), "{text}");
            for byte in b"secret" {
                assert!(!text.contains(&format!("{byte}, ")), "{text}");
            }
        }
    }

    #[test]
    fn a_certificate_is_named_by_its_fingerprint() {
        // SHA-256 of nothing (FIPS 180-4).
        let text = format!("{:?}", Der::new(b""));
        assert_eq!(text, "Der(0 bytes, sha256 e3b0c44298fc1c14…)");
    }
}
