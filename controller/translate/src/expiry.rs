//! Certificates that peers reject, as reported to users: by their time, and by their names.

use jiff::Timestamp;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};
use xds::model::Der;

use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Certificates that peers reject, among those that an object refers to. They are used all the same: clients
/// that check get a clear error, unlike with a closed port, and others continue.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Expiries {
    pub(crate) problems: Vec<Problem>,
}

impl Expiries {
    /// The same, with its problems moved below a field.
    pub(crate) fn under(self, field: &str) -> Self {
        let problems = self.problems.into_iter();
        Self {
            problems: problems.map(|problem| problem.under(field)).collect(),
        }
    }

    /// Records the certificate of `field`, if it has expired, or is not valid yet. The message consists of
    /// subject, time and advice. The reader runs again when that changes.
    pub(crate) fn note(
        &mut self,
        reader: &Reader<'_>,
        certificate: &Der,
        field: impl std::fmt::Display,
        (subject, advice): (&str, &str),
    ) {
        let Some((from, to)) = validity(certificate) else {
            return;
        };
        if reader.is_over(to) {
            let message = format!("{subject} expired at {to}{advice}");
            let problem = Problem::new(Reason::CertificateExpired, field, message);
            self.problems.push(problem);
        } else if reader.knows_time() && !reader.is_over(from) {
            let message = format!(
                "{subject} is valid from {from} on only: peers reject it until then, unless a clock is wrong"
            );
            let problem = Problem::new(Reason::CertificateNotYetValid, field, message);
            self.problems.push(problem);
        }
    }
}

/// The first and the last second of a certificate's validity. `None` if it cannot be parsed.
#[must_use]
pub fn validity(certificate: &Der) -> Option<(Timestamp, Timestamp)> {
    let (_, parsed) = X509Certificate::from_der(certificate.as_bytes()).ok()?;
    let validity = parsed.validity();
    let at = |time: i64| Timestamp::from_second(time).ok();
    Some((
        at(validity.not_before.timestamp())?,
        at(validity.not_after.timestamp())?,
    ))
}

/// The DNS names of a certificate, in lower case. `None` if it cannot be parsed.
pub(crate) fn names(certificate: &Der) -> Option<Vec<String>> {
    let (_, parsed) = X509Certificate::from_der(certificate.as_bytes()).ok()?;
    let names = parsed.subject_alternative_name().ok()?;
    let names = names.map(|it| &it.value.general_names);
    let dns = names.into_iter().flatten().filter_map(|it| match it {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    Some(dns.collect())
}

/// The last second of a certificate's validity. `None` if it cannot be parsed.
#[must_use]
pub fn of(certificate: &Der) -> Option<Timestamp> {
    validity(certificate).map(|(_, to)| to)
}
