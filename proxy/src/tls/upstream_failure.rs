//! Why TLS with an endpoint came to nothing.

use rustls::Error;

use super::flaw::Flaw;
use super::session::SessionError;
use crate::observe::causes::causes;

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
    /// It refused the handshake, by an alert.
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
            Error::InvalidCertificate(error) => match Flaw::from(error) {
                Flaw::OtherName => Self::OtherName,
                Flaw::Untrusted => Self::Untrusted,
                Flaw::Expired => Self::Expired,
                Flaw::Other => Self::BadCertificate,
            },
            Error::AlertReceived(_) => Self::Refused,
            Error::NoApplicationProtocol => Self::NoProtocol,
            _ => Self::NotTls,
        }
    }
}
