//! Why TLS with an endpoint failed.

use rustls::{AlertDescription, Error};

use super::certificate_flaw::{CertificateFlaw, is_certificate_rejection};
use super::session::SessionError;
use crate::names::causes;

causes! {
    /// Why TLS with an endpoint failed.
    UpstreamTlsFailure;
    /// Its certificate is for another name.
    OtherName "other_name";
    /// Its certificate is not signed by a trusted CA.
    Untrusted "untrusted";
    /// Its certificate is not valid at this time.
    Expired "expired";
    /// Its certificate is invalid in another way.
    BadCertificate "bad_certificate";
    /// It requires a client certificate, or rejected ours.
    Distrusted "distrusted";
    /// It rejected the handshake for another reason, by an alert.
    Refused "refused";
    /// It supports none of our ALPN protocols, or did not select the required one.
    NoProtocol "no_protocol";
    /// It violated the TLS protocol.
    NotTls "not_tls";
    /// The connection was reset.
    Broken "broken";
}

impl UpstreamTlsFailure {
    /// The description for logs.
    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            Self::OtherName => "its certificate is for another name",
            Self::Untrusted => "its certificate is not signed by a trusted authority",
            Self::Expired => "its certificate is not valid at this time",
            Self::BadCertificate => "its certificate is not acceptable",
            Self::Distrusted => "it requires a client certificate, or rejected ours",
            Self::Refused => "it ended TLS with an alert",
            Self::NoProtocol => "it did not agree to the required protocol (ALPN)",
            Self::NotTls => "it violated the TLS protocol",
            Self::Broken => "the connection was reset",
        }
    }
}

impl From<&SessionError> for UpstreamTlsFailure {
    fn from(error: &SessionError) -> Self {
        let SessionError::Tls(error) = error else {
            return Self::NotTls;
        };
        match error {
            Error::InvalidCertificate(error) => match CertificateFlaw::from(error) {
                CertificateFlaw::OtherName => Self::OtherName,
                CertificateFlaw::Untrusted => Self::Untrusted,
                CertificateFlaw::Expired => Self::Expired,
                CertificateFlaw::Other => Self::BadCertificate,
            },
            Error::NoApplicationProtocol
            | Error::AlertReceived(AlertDescription::NoApplicationProtocol) => Self::NoProtocol,
            Error::AlertReceived(alert) if is_certificate_rejection(*alert) => Self::Distrusted,
            Error::AlertReceived(_) => Self::Refused,
            _ => Self::NotTls,
        }
    }
}
