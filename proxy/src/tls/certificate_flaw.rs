//! Classes of certificate errors, and the related alerts.

use rustls::{AlertDescription, CertificateError};

/// Why a certificate is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CertificateFlaw {
    /// It is for another name.
    OtherName,
    /// It is not signed by a trusted CA.
    Untrusted,
    /// It is not valid at this time.
    Expired,
    Other,
}

impl From<&CertificateError> for CertificateFlaw {
    fn from(error: &CertificateError) -> Self {
        match error {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::OtherName
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::Untrusted,
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Self::Expired,
            _ => Self::Other,
        }
    }
}

/// Whether an alert means that our certificate is missing or not accepted (RFC 8446 section 6.2).
pub(crate) fn is_certificate_rejection(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateRequired
    )
}
