//! Trusted CA certificates.

use std::sync::Arc;

use rustls::RootCertStore;
use xds::model::Der;

use super::server::{TlsError, der};

/// A store of these roots, all of which have to be valid.
pub(crate) fn of(certificates: &[Der]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(der(certificate)).map_err(TlsError::Root)?;
    }
    Ok(Arc::new(roots))
}

/// The system's roots: from `SSL_CERT_FILE` or `SSL_CERT_DIR`, or the distribution's location.
/// Single invalid ones are skipped, as other programs do.
///
/// It reads files, so it must not run on shards.
pub(crate) fn of_system() -> Result<Arc<RootCertStore>, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(Arc::new(roots));
    }
    let why = found.errors.first().map_or_else(
        || "none were found; install the package ca-certificates, or set SSL_CERT_FILE".to_owned(),
        ToString::to_string,
    );
    Err(TlsError::SystemRoots(why))
}
