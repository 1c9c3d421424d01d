//! Certificates of listeners: whether each reference leads to a usable pair.

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use xds::model::ObjectName;

use super::World;
use super::reference_grant::Referent;
use crate::api::{Gateway, Resource as _, Secret, SecretObjectReference};
use crate::problem::Problem;
use crate::status::Reason;

impl World<'_> {
    /// What is wrong with a listener's reference to a certificate.
    pub(crate) fn check_certificate(
        &self,
        namespace: &str,
        reference: &SecretObjectReference,
    ) -> Result<(), Problem> {
        let problem = |reason, message: String| Problem::new(reason, "", message);
        if (&*reference.group, &*reference.kind) != (Secret::GROUP, Secret::KIND) {
            let message = format!(
                "a certificate cannot come from kind `{}` of group `{}`: refer to a Secret",
                reference.kind, reference.group
            );
            return Err(problem(Reason::InvalidCertificateRef, message));
        }
        let to = Referent {
            group: Secret::GROUP,
            kind: Secret::KIND,
            namespace: reference.namespace.as_deref().unwrap_or(namespace),
            name: &reference.name,
        };
        let name = ObjectName::new(to.namespace, to.name);
        if !self.grants.permit::<Gateway>(namespace, to) {
            let message = format!(
                "Secret {name} is in another namespace: add a ReferenceGrant there from Gateway \
                 in `{namespace}`"
            );
            return Err(problem(Reason::RefNotPermitted, message));
        }
        let secret = self.store.secrets.get(&name);
        let pair = secret.ok_or_else(|| "does not exist: create it".to_owned());
        pair.and_then(check_pair).map_err(|what| {
            let message = format!("Secret {name} {what}");
            problem(Reason::InvalidCertificateRef, message)
        })
    }
}

/// Whether both entries hold PEM of the right sort. Whether key and certificate belong together,
/// the data plane finds out.
fn check_pair(secret: &Secret) -> Result<(), String> {
    let entry = |key| {
        secret
            .entry(key)
            .ok_or_else(|| format!("has no entry `{key}`: make it of type kubernetes.io/tls"))
    };
    let certificates = entry("tls.crt")?;
    let key = entry("tls.key")?;
    let count = CertificateDer::pem_slice_iter(certificates).try_fold(0_usize, |count, next| {
        next.map(|_| count + 1)
            .map_err(|error| format!("has no valid PEM in `tls.crt` ({error}): encode it again"))
    })?;
    if count == 0 {
        return Err("has no PEM certificate in `tls.crt`: put the chain there".to_owned());
    }
    PrivateKeyDer::from_pem_slice(key)
        .map(|_| ())
        .map_err(|error| format!("has no PEM private key in `tls.key` ({error}): put it there"))
}
