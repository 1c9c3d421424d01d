//! When certificates expire, and what the user is told of it.

use jiff::Timestamp;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use xds::model::Der;

use crate::problem::Problem;
use crate::reader::Reader;
use crate::reason::Reason;

/// What has expired of the certificates that something refers to. They are used all the same: peers
/// that look say better what is wrong than a closed port does, and others go on.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Expiries {
    pub(crate) expired: Vec<Problem>,
}

impl Expiries {
    /// The same, with its problems below a field.
    pub(crate) fn under(self, field: &str) -> Self {
        let expired = self.expired.into_iter();
        Self {
            expired: expired.map(|problem| problem.under(field)).collect(),
        }
    }

    /// Notes the certificate that `field` leads to, if it has expired: the message is made of the
    /// subject, the time, and the advice. The reader asks again once it expires.
    pub(crate) fn note(
        &mut self,
        reader: &Reader<'_>,
        certificate: &Der,
        field: impl std::fmt::Display,
        (subject, advice): (&str, &str),
    ) {
        if let Some(at) = of(certificate).filter(|at| reader.is_over(*at)) {
            let message = format!("{subject} expired at {at}{advice}");
            let problem = Problem::new(Reason::CertificateExpired, field, message);
            self.expired.push(problem);
        }
    }
}

/// The last second in which a certificate is good. `None` for what no certificate can be read from.
#[must_use]
pub fn of(certificate: &Der) -> Option<Timestamp> {
    let (_, parsed) = X509Certificate::from_der(certificate.as_bytes()).ok()?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
}
