//! When certificates expire.

use jiff::Timestamp;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use xds::model::Certificate;

/// The last second in which a certificate is good; of a chain that is its owner's, which others
/// outlive. `None` for what no certificate can be read from.
#[must_use]
pub fn of(certificate: &Certificate) -> Option<Timestamp> {
    let own = certificate.chain.first()?;
    let (_, parsed) = X509Certificate::from_der(own.as_bytes()).ok()?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
}
