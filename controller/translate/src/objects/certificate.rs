//! Certificates with keys, from Secrets: each is parsed once, and what the data plane's TLS library
//! would reject is reported here.

use rustls::crypto::ring;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use xds::model::{Certificate, Der, ObjectName, PrivateKey};

use super::api::{Resource, Secret};
use super::grants::Referent;
use super::kinds::{ObjectKind, WrittenKind};
use super::reader::Reader;
use crate::gateway::api::SecretObjectReference;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Why a certificate reference has no usable pair.
#[derive(Debug)]
pub(crate) enum CertificateError {
    /// It may not be used, or no longer: its Secret does not exist, no grant allows it, or it is not a
    /// Secret.
    Withdrawn(Problem),
    /// The Secret exists, but its content is broken.
    Broken(ObjectName, Problem),
}

impl From<CertificateError> for Problem {
    fn from(error: CertificateError) -> Self {
        match error {
            CertificateError::Withdrawn(problem) | CertificateError::Broken(_, problem) => problem,
        }
    }
}

impl Reader<'_> {
    /// Resolves a certificate reference of an object of kind `T` in `namespace`. Without a usable
    /// pair, returns a problem with reason `invalid`.
    pub(crate) fn certificate<T: Resource>(
        &self,
        namespace: &str,
        reference: &SecretObjectReference,
        invalid: Reason,
    ) -> Result<Certificate, CertificateError> {
        let problem = |reason, message: String| Problem::new(reason, "", message);
        let withdrawn = |reason, message| CertificateError::Withdrawn(problem(reason, message));
        let kind = ObjectKind::find(&reference.group, &reference.kind);
        if kind != Some(ObjectKind::Secret) {
            let message = format!(
                "a certificate cannot come from {}: refer to a Secret",
                WrittenKind {
                    group: &reference.group,
                    kind: &reference.kind
                }
            );
            return Err(withdrawn(invalid, message));
        }
        let to = Referent {
            group: Secret::KIND.group(),
            kind: Secret::KIND.name(),
            namespace: reference.namespace.as_deref().unwrap_or(namespace),
            name: &reference.name,
        };
        let name = ObjectName::new(to.namespace, to.name);
        if !self.permits(T::KIND, namespace, to) {
            let message = format!(
                "Secret {name} is in another namespace: add a ReferenceGrant there from {} in \
                 `{namespace}`",
                T::KIND
            );
            return Err(withdrawn(Reason::RefNotPermitted, message));
        }
        let Some(pair) = self.certificate_of(&name, pair) else {
            let message = format!("Secret {name} does not exist: create it");
            return Err(withdrawn(invalid, message));
        };
        pair.map_err(|what| {
            let problem = problem(invalid, format!("Secret {name} {what}"));
            CertificateError::Broken(name, problem)
        })
    }
}

/// The chain and the key of a Secret, which must match.
fn pair(secret: &Secret) -> Result<Certificate, String> {
    let entry = |key| {
        secret
            .entry(key)
            .ok_or_else(|| format!("has no entry `{key}`: use a Secret of type kubernetes.io/tls"))
    };
    let (chain, key) = (entry("tls.crt")?, entry("tls.key")?);
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("has no valid PEM in `tls.crt` ({error}): encode it again"))?;
    if chain.is_empty() {
        return Err("has no PEM certificate in `tls.crt`: add the chain".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| format!("has no PEM private key in `tls.key` ({error}): add it"))?;
    let certificate = Certificate {
        chain: chain.iter().map(|der| Der::new(der)).collect(),
        key: PrivateKey::new(key.secret_der()),
    };
    let later = chain.get(1..).unwrap_or_default().to_vec();
    let other_key = key.clone_key();
    let fits = |leaf: CertificateDer<'static>| {
        let key = other_key.clone_key();
        CertifiedKey::from_der(vec![leaf], key, &ring::default_provider()).is_ok()
    };
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| {
        let is_leaf_later = later.into_iter().any(fits);
        let what = match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) if is_leaf_later => {
                "has a CA certificate first in `tls.crt`, and the certificate of its key after it: put that \
                 first, and the CAs after it"
            }
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                "has a key in `tls.key` that does not match the first certificate in `tls.crt`"
            }
            Error::InvalidCertificate(_) => "has an invalid X.509 certificate first in `tls.crt`",
            _ => {
                "has an unsupported type of key in `tls.key` (use RSA, ECDSA P-256 or \
                  P-384, or Ed25519)"
            }
        };
        if is_leaf_later {
            return what.to_owned();
        }
        format!("{what}: issue the pair again")
    })?;
    Ok(certificate)
}
