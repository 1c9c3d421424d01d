//! Certificates that vouch for others.

use std::sync::Arc;

use rustls::RootCertStore;
use xds::model::Der;

use super::server::{TlsError, der};

/// These roots, every one of which has to be usable.
pub(crate) fn of(certificates: &[Der]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(der(certificate)).map_err(TlsError::Root)?;
    }
    Ok(Arc::new(roots))
}

/// The roots that the system trusts: those of `SSL_CERT_FILE` or `SSL_CERT_DIR`, or where the
/// distribution keeps them. Single ones that cannot be used are left out, as other programs do.
///
/// It reads files, so it is not for shards.
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
