//! Why TLS with an endpoint came to nothing.

use rustls::{AlertDescription, Error};

use super::flaw::{Flaw, is_distrust};
use super::session::SessionError;
use crate::names::causes;

causes! {
    /// Why TLS with an endpoint came to nothing.
    UpstreamTlsFailure;
    /// Its certificate is for another name.
    OtherName "other_name";
    /// Nobody whom the policy trusts vouches for its certificate.
    Untrusted "untrusted";
    /// Its certificate is not valid at this time.
    Expired "expired";
    /// Its certificate has something else that is not acceptable.
    BadCertificate "bad_certificate";
    /// It does not accept our certificate, or that we have none.
    Distrusted "distrusted";
    /// It refused us for another reason, by an alert.
    Refused "refused";
    /// It speaks none of our protocols, or did not agree to the one that is needed.
    NoProtocol "no_protocol";
    /// It does not speak TLS as we do.
    NotTls "not_tls";
    /// It broke off.
    Broken "broken";
}

impl UpstreamTlsFailure {
    /// What it means, for whoever looks for its cause in a log.
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
            Error::InvalidCertificate(error) => match Flaw::from(error) {
                Flaw::OtherName => Self::OtherName,
                Flaw::Untrusted => Self::Untrusted,
                Flaw::Expired => Self::Expired,
                Flaw::Other => Self::BadCertificate,
            },
            Error::NoApplicationProtocol
            | Error::AlertReceived(AlertDescription::NoApplicationProtocol) => Self::NoProtocol,
            Error::AlertReceived(alert) if is_distrust(*alert) => Self::Distrusted,
            Error::AlertReceived(_) => Self::Refused,
            _ => Self::NotTls,
        }
    }
}
