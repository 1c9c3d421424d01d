//! Why TLS with an endpoint came to nothing.

use rustls::{CertificateError, Error};

use super::session::SessionError;

/// Why TLS with an endpoint came to nothing: a word for metrics, and a few for whoever reads a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamTlsFailure {
    /// Its certificate is for another name.
    OtherName,
    /// Nobody whom the policy trusts vouches for its certificate.
    Untrusted,
    /// Its certificate is not valid at this time.
    Expired,
    /// Its certificate has something else that is not acceptable.
    BadCertificate,
    /// It refused the handshake, by an alert.
    Refused,
    /// It speaks none of our protocols, or did not agree to the one that is needed.
    NoProtocol,
    /// It does not speak TLS as we do.
    NotTls,
    /// It broke off.
    Broken,
}

impl UpstreamTlsFailure {
    /// Every cause.
    pub const ALL: [Self; 8] = [
        Self::OtherName,
        Self::Untrusted,
        Self::Expired,
        Self::BadCertificate,
        Self::Refused,
        Self::NoProtocol,
        Self::NotTls,
        Self::Broken,
    ];

    /// Its name in metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::OtherName => "other_name",
            Self::Untrusted => "untrusted",
            Self::Expired => "expired",
            Self::BadCertificate => "bad_certificate",
            Self::Refused => "refused",
            Self::NoProtocol => "no_protocol",
            Self::NotTls => "not_tls",
            Self::Broken => "broken",
        }
    }

    /// What it means, for whoever looks for its cause in a log.
    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            Self::OtherName => "its certificate is for another name",
            Self::Untrusted => "nobody whom the policy trusts vouches for its certificate",
            Self::Expired => "its certificate is not valid at this time",
            Self::BadCertificate => "its certificate is not acceptable",
            Self::Refused => "it refused the handshake",
            Self::NoProtocol => "it did not agree to the protocol that is needed (ALPN)",
            Self::NotTls => "it does not speak TLS as we do",
            Self::Broken => "it broke off",
        }
    }
}

impl From<&SessionError> for UpstreamTlsFailure {
    fn from(error: &SessionError) -> Self {
        let SessionError::Tls(error) = error else {
            return Self::NotTls;
        };
        match error {
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => Self::OtherName,
            Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => Self::Untrusted,
            Error::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. },
            ) => Self::Expired,
            Error::InvalidCertificate(_) => Self::BadCertificate,
            Error::AlertReceived(_) => Self::Refused,
            Error::NoApplicationProtocol => Self::NoProtocol,
            _ => Self::NotTls,
        }
    }
}
