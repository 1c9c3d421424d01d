//! TLS of listeners and backends.
//!
//! Certificates are DER, parsed by `translate` and matched with their keys. A private key is in the
//! model because a proxy cannot serve without it, but it is never printed.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use ring::digest;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::{Hostname, ObjectName};

/// An X.509 certificate in DER.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Der(Arc<[u8]>);

impl Der {
    /// Takes the bytes as they are.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes of the DER encoding.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The SHA-256 of the bytes in hexadecimal, as printed by `openssl x509 -fingerprint -sha256`.
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

/// The fingerprint.
impl Serialize for Der {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.fingerprint())
    }
}

/// A private key in DER (PKCS #8, PKCS #1 or SEC 1). Never shown: its `Debug` hides it, and it has no
/// JSON form, so that nothing that contains it can derive one:
///
/// ```compile_fail,E0277
/// let key = xds::model::PrivateKey::new(b"secret");
/// serde_json::to_string(&key);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(Arc<[u8]>);

impl PrivateKey {
    /// Takes the bytes as they are.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The secret bytes: only for the TLS library and the wire form.
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
    /// The certificate and its intermediates, at least one, the leaf first.
    pub chain: Vec<Der>,
    /// The private key of the leaf certificate.
    pub key: PrivateKey,
}

/// The fingerprint of the leaf certificate.
impl Serialize for Certificate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.chain.first().serialize(serializer)
    }
}

/// A certificate of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCertificate {
    /// The Secret that it is from; `None` from a controller that does not say.
    pub secret: Option<ObjectName>,
    /// The pair. `None` if the Secret exists without a usable one, which is taken for a mistake: the
    /// proxy goes on with the pair that it has from this Secret. A Secret that was deleted, or that
    /// may no longer be used, is not among the certificates at all.
    pub pair: Option<Certificate>,
}

impl From<Certificate> for ServerCertificate {
    fn from(pair: Certificate) -> Self {
        Self {
            secret: None,
            pair: Some(pair),
        }
    }
}

/// TLS termination at a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsServer {
    /// The first whose names match the SNI is used, or else the first. Without any, every handshake
    /// is refused: the listener keeps its host name from less specific listeners of its port.
    #[serde(flatten, serialize_with = "certificates")]
    pub certificates: Vec<ServerCertificate>,
    /// Whether a client certificate is requested.
    #[serde(flatten)]
    pub client_auth: ClientAuth,
    /// Offered protocols, preferred first; empty disables ALPN.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alpn: Vec<Alpn>,
    /// The oldest accepted version.
    pub min_version: TlsVersion,
}

impl TlsServer {
    /// The usable certificates.
    pub fn pairs(&self) -> impl Iterator<Item = &Certificate> {
        self.certificates.iter().filter_map(|it| it.pair.as_ref())
    }

    /// Refuses every handshake.
    #[must_use]
    pub fn refusing() -> Self {
        Self {
            certificates: Vec::new(),
            client_auth: ClientAuth::None,
            alpn: Vec::new(),
            min_version: TlsVersion::V12,
        }
    }
}

/// Whether a client certificate is requested, and which CAs are trusted. Lists of roots are never
/// empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "clientAuth", rename_all_fields = "camelCase")]
pub enum ClientAuth {
    /// No client certificate is requested.
    None,
    /// `AllowValidOnly`: connections without a valid certificate are rejected.
    #[serde(rename = "AllowValidOnly")]
    Required {
        /// CA certificates that are trusted.
        #[serde(rename = "clientRoots")]
        roots: Vec<Der>,
    },
    /// `AllowInsecureFallback`: a certificate is requested, but connections without a valid
    /// certificate are accepted.
    #[serde(rename = "AllowInsecureFallback")]
    Optional {
        /// CA certificates that are trusted.
        #[serde(rename = "clientRoots")]
        roots: Vec<Der>,
    },
}

/// An application protocol in ALPN (RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Alpn {
    /// HTTP/1.1, `http/1.1` on the wire.
    #[serde(rename = "http/1.1")]
    Http11,
    /// HTTP/2, `h2` on the wire.
    #[serde(rename = "h2")]
    H2,
}

impl Alpn {
    /// The protocol id on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http11 => "http/1.1",
            Self::H2 => "h2",
        }
    }
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    #[serde(rename = "1.2")]
    V12,
    /// TLS 1.3 (RFC 8446).
    #[serde(rename = "1.3")]
    V13,
}

/// TLS to a backend. The client certificate is the Gateway's:
/// [`PolicySpec::client_certificate`](super::PolicySpec::client_certificate).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum BackendTls {
    /// The backend's certificate is verified.
    Verified(TlsClient),
    /// The backend's certificate is not verified. Users cannot configure this: it is for endpoint
    /// pickers of the Inference Extension, which use self-signed certificates.
    Unverified {
        /// The SNI: one exact name.
        server_name: Hostname,
    },
    /// The TLS settings cannot be applied: requests fail, and are never sent in plain text.
    Invalid,
}

/// How a backend's certificate is verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsClient {
    /// The SNI: one exact name.
    pub server_name: Hostname,
    /// Subject alternative names, one of which the certificate must have; empty means
    /// `server_name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<SubjectAltName>,
    /// CA certificates that are trusted.
    #[serde(skip_serializing_if = "Roots::are_system")]
    pub roots: Roots,
}

/// A subject alternative name of a backend's certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum SubjectAltName {
    /// A DNS name; `*.` stands for names under it.
    Dns(Hostname),
    /// A URI, such as a SPIFFE id, compared byte for byte.
    Uri(String),
}

/// The trusted CAs of a backend's certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Roots {
    /// The CA certificates of the proxy's system.
    System,
    /// Only these, at least one.
    Certificates(Vec<Der>),
}

impl Roots {
    fn are_system(&self) -> bool {
        matches!(self, Self::System)
    }
}

/// The fingerprints of the usable certificates, and the Secrets that they are from.
fn certificates<S: Serializer>(
    certificates: &[ServerCertificate],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let usable = certificates.iter().filter_map(|it| it.pair.as_ref());
    let secrets: Vec<_> = certificates.iter().filter_map(SecretUse::of).collect();
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("certificates", &usable.collect::<Vec<_>>())?;
    if !secrets.is_empty() {
        map.serialize_entry("secrets", &secrets)?;
    }
    map.end()
}

/// A Secret of a listener.
#[derive(Serialize)]
struct SecretUse<'a> {
    /// `namespace/name` of the Secret.
    secret: &'a ObjectName,
    /// The certificate from it; `None` if it has no usable one.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<&'a Certificate>,
}

impl<'a> SecretUse<'a> {
    fn of(certificate: &'a ServerCertificate) -> Option<Self> {
        let ServerCertificate { secret, pair } = certificate;
        Some(Self {
            secret: secret.as_ref()?,
            certificate: pair.as_ref(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_keys_are_hidden_in_debug_output() {
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
