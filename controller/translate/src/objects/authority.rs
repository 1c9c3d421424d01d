//! CA certificates, for verifying clients or backends.

use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use xds::model::{Der, ObjectName};

use super::api::{AUTHORITIES, ClusterTrustBundle, ConfigMap, Resource, Secret};
use super::grants::Referent;
use super::kinds::ObjectKind;
use super::reader::Reader;
use crate::expiry::Expiries;

/// Why a reference to CA certificates is invalid, with a message.
#[derive(Debug)]
pub(crate) enum InvalidAuthority {
    /// The kind cannot have certificates.
    Kind(String),
    /// No ReferenceGrant allows it.
    NotPermitted(String),
    Unusable(String),
}

impl Reader<'_> {
    /// The certificates that a reference of an object of kind `T` in `namespace` refers to: in the
    /// entry `ca.crt` of a ConfigMap or Secret, or in a ClusterTrustBundle.
    pub(crate) fn authority<T: Resource>(
        &self,
        namespace: &str,
        to: Referent<'_>,
    ) -> Result<Vec<Der>, InvalidAuthority> {
        if is_trust_bundle(to) {
            return self.trust_bundle(to);
        }
        let name = ObjectName::new(to.namespace, to.name);
        let kind = to.object_kind();
        let is_map = kind == Some(ObjectKind::ConfigMap);
        if !is_map && kind != Some(ObjectKind::Secret) {
            return Err(InvalidAuthority::Kind(format!(
                "CA certificates cannot come from {}: refer to a ConfigMap, a Secret or a \
                 ClusterTrustBundle",
                to.written_kind()
            )));
        }
        if !self.permits(T::KIND, namespace, to) {
            return Err(InvalidAuthority::NotPermitted(format!(
                "{} {name} is in another namespace: add a ReferenceGrant there from {} in \
                 `{namespace}`",
                to.kind,
                T::KIND
            )));
        }
        let entry = if is_map {
            let map = self.object::<ConfigMap>(&name);
            map.map(|map| map.entry(AUTHORITIES))
        } else {
            let secret = self.object::<Secret>(&name);
            secret.map(|secret| secret.entry(AUTHORITIES))
        };
        let bundle = match entry {
            None => Err("does not exist: create it".to_owned()),
            Some(None) => Err(format!(
                "has no entry `{AUTHORITIES}`: put the certificates there"
            )),
            Some(Some(pem)) => bundle(pem, AUTHORITIES),
        };
        bundle.map_err(|what| InvalidAuthority::Unusable(format!("{} {name} {what}", to.kind)))
    }

    /// Readable by everyone, so that no grant is needed (GEP-5075).
    fn trust_bundle(&self, to: Referent<'_>) -> Result<Vec<Der>, InvalidAuthority> {
        if !self.has_trust_bundles() {
            let message = "this cluster has no kind ClusterTrustBundle (Kubernetes has it since \
                           1.37): refer to a ConfigMap";
            return Err(InvalidAuthority::Kind(message.to_owned()));
        }
        let object = self.object::<ClusterTrustBundle>(&ObjectName::new("", to.name));
        let bundle = match object {
            None => Err("does not exist: create it".to_owned()),
            Some(object) => bundle(object.spec.trust_bundle.as_bytes(), "spec.trustBundle"),
        };
        bundle.map_err(|what| InvalidAuthority::Unusable(format!("{} {} {what}", to.kind, to.name)))
    }

    /// Records which of the certificates in `to` have expired. They are still trusted: of a root,
    /// only name and key are used.
    pub(crate) fn record_expiries(
        &self,
        to: Referent<'_>,
        certificates: &[Der],
        field: &str,
        expiries: &mut Expiries,
    ) {
        let subject = if is_trust_bundle(to) {
            format!("a certificate of {} {}", to.kind, to.name)
        } else {
            format!("a certificate of {} {}/{}", to.kind, to.namespace, to.name)
        };
        for certificate in certificates {
            let warning = (&*subject, ": renew it, or remove it");
            expiries.note(self, certificate, field, warning);
        }
    }
}

fn is_trust_bundle(to: Referent<'_>) -> bool {
    to.object_kind() == Some(ObjectKind::ClusterTrustBundle)
}

/// Parses an entry or field of this name.
fn bundle(pem: &[u8], place: &str) -> Result<Vec<Der>, String> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(pem).map(|next| {
        let certificate = next
            .map_err(|error| format!("has no valid PEM in `{place}` ({error}): encode it again"))?;
        let der = Der::new(&certificate);
        roots
            .add(certificate)
            .map_err(|_| format!("has an entry in `{place}` that is not an X.509 certificate"))?;
        Ok(der)
    });
    match certificates.collect::<Result<Vec<Der>, String>>()? {
        none if none.is_empty() => Err(format!(
            "has no PEM certificate in `{place}`: add the CA certificates"
        )),
        certificates => Ok(certificates),
    }
}
