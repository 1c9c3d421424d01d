//! Expiry of certificates, as reported to users.

use jiff::Timestamp;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use xds::model::Der;

use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Expired certificates among those that an object refers to. They are used all the same: clients
/// that check get a clear error, unlike with a closed port, and others continue.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Expiries {
    pub(crate) expired: Vec<Problem>,
}

impl Expiries {
    /// The same, with its problems moved below a field.
    pub(crate) fn under(self, field: &str) -> Self {
        let expired = self.expired.into_iter();
        Self {
            expired: expired.map(|problem| problem.under(field)).collect(),
        }
    }

    /// Records the certificate of `field`, if it has expired. The message consists of subject, time
    /// and advice. The reader runs again at its expiry.
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

/// The last second of a certificate's validity. `None` if it cannot be parsed.
#[must_use]
pub fn of(certificate: &Der) -> Option<Timestamp> {
    let (_, parsed) = X509Certificate::from_der(certificate.as_bytes()).ok()?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
}
