//! When certificates expire, and what the user is told of it.

use jiff::Timestamp;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use xds::model::Der;

use crate::problem::Problem;
use crate::status::Reason;

/// What has expired of the certificates that something refers to. They are used all the same: peers
/// that look say better what is wrong than a closed port does, and others go on.
#[derive(Debug, Default)]
pub(crate) struct Expiries {
    /// Each that has.
    pub(crate) expired: Vec<Problem>,
    /// When the first of the others does.
    pub(crate) next: Option<Timestamp>,
}

impl Expiries {
    /// The same, with its problems below a field.
    pub(crate) fn under(self, field: &str) -> Self {
        let expired = self.expired.into_iter();
        Self {
            expired: expired.map(|problem| problem.under(field)).collect(),
            next: self.next,
        }
    }

    /// Notes the certificate that `field` leads to. Of one that has expired it is told as the
    /// subject, when, and the advice. Nobody is told where it is not known what time it is.
    pub(crate) fn note(
        &mut self,
        now: Option<Timestamp>,
        certificate: &Der,
        field: impl std::fmt::Display,
        (subject, advice): (&str, &str),
    ) {
        let (Some(now), Some(at)) = (now, of(certificate)) else {
            return;
        };
        if at < now {
            let message = format!("{subject} expired at {at}{advice}");
            let problem = Problem::new(Reason::CertificateExpired, field, message);
            self.expired.push(problem);
        } else {
            self.next = Some(self.next.map_or(at, |next| next.min(at)));
        }
    }
}

/// The last second in which a certificate is good. `None` for what no certificate can be read from.
#[must_use]
pub fn of(certificate: &Der) -> Option<Timestamp> {
    let (_, parsed) = X509Certificate::from_der(certificate.as_bytes()).ok()?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
}
