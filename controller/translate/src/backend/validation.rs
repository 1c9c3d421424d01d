//! The validation of backend certificates, from a BackendTLSPolicy or a `Backend`.

use xds::model::{self, BackendTls, Hostname, Roots, TlsClient};

use crate::expiry::Expiries;
use crate::objects::api::Resource;
use crate::objects::authority::InvalidAuthority;
use crate::objects::grants::Referent;
use crate::objects::reader::Reader;
use crate::policy::api::{BackendTlsValidation, SubjectAltName, SubjectAltNameType};
use crate::status::problem::Problem;
use crate::status::reason::Reason;

pub(crate) struct ResolvedValidation {
    pub(crate) tls: BackendTls,
    /// Why it is invalid.
    pub(crate) refusals: Vec<Problem>,
    /// References that do not resolve.
    pub(crate) refs: Vec<Problem>,
    /// CA certificates that have expired, which are used nonetheless.
    pub(crate) expiries: Expiries,
}

/// Resolves the validation of an object of kind `T` in `namespace`.
pub(crate) fn resolve<T: Resource>(
    reader: &Reader<'_>,
    namespace: &str,
    validation: &BackendTlsValidation,
) -> ResolvedValidation {
    let mut refusals = Vec::new();
    let mut found = CaProblems::default();
    let roots = roots::<T>(reader, namespace, validation, &mut refusals, &mut found);
    let server_name = Hostname::parse_exact(&validation.hostname)
        .map_err(|error| refusals.push(invalid("hostname", error)))
        .ok();
    let names = validation.subject_alt_names.iter().enumerate();
    let identities: Option<Vec<_>> = names
        .map(|(index, name)| {
            let identity = identity(name);
            let field = || format!("subjectAltNames[{index}]");
            identity
                .map_err(|error| refusals.push(invalid(&field(), error)))
                .ok()
        })
        .collect();
    let client = || {
        Some(TlsClient {
            server_name: server_name?,
            identities: identities?,
            roots: roots?,
        })
    };
    ResolvedValidation {
        tls: client().map_or(BackendTls::Invalid, BackendTls::Verified),
        refusals,
        refs: found.refs,
        expiries: found.expiries,
    }
}

/// Problems of the referenced CA certificates.
#[derive(Default)]
struct CaProblems {
    refs: Vec<Problem>,
    expiries: Expiries,
}

/// The certificates of the valid references; `None` if none is valid.
fn roots<T: Resource>(
    reader: &Reader<'_>,
    namespace: &str,
    validation: &BackendTlsValidation,
    refusals: &mut Vec<Problem>,
    found: &mut CaProblems,
) -> Option<Roots> {
    let well_known = validation.well_known_ca_certificates.as_deref();
    match well_known.filter(|name| !name.is_empty()) {
        Some("System") => return Some(Roots::System),
        Some(other) => {
            let message = format!("`{other}` is not a set of certificates: use System");
            refusals.push(invalid("wellKnownCACertificates", message));
            return None;
        }
        None => {}
    }
    let mut roots = Vec::new();
    for (index, reference) in validation.ca_certificate_refs.iter().enumerate() {
        let to = Referent {
            group: &reference.group,
            kind: &reference.kind,
            namespace,
            name: &reference.name,
        };
        let field = format!("caCertificateRefs[{index}]");
        match reader.authority::<T>(namespace, to) {
            Ok(certificates) => {
                reader.record_expiries(to, &certificates, &field, &mut found.expiries);
                roots.extend(certificates);
            }
            Err(why) => {
                let (reason, message) = match why {
                    InvalidAuthority::Kind(message) => (Reason::InvalidKind, message),
                    InvalidAuthority::NotPermitted(message)
                    | InvalidAuthority::Unusable(message) => {
                        (Reason::InvalidCACertificateRef, message)
                    }
                };
                found.refs.push(Problem::new(reason, field, message));
            }
        }
    }
    if roots.is_empty() {
        let message = "no valid CA certificate is left: see ResolvedRefs";
        let field = "caCertificateRefs";
        refusals.push(Problem::new(Reason::NoValidCACertificate, field, message));
        return None;
    }
    Some(Roots::Certificates(roots))
}

fn identity(name: &SubjectAltName) -> Result<model::SubjectAltName, String> {
    match name.kind {
        SubjectAltNameType::Hostname => Hostname::parse(&name.hostname)
            .map(model::SubjectAltName::Dns)
            .map_err(|error| error.to_string()),
        SubjectAltNameType::Uri if name.uri.is_empty() => {
            Err("is not a URI: use one such as spiffe://cluster.local/ns/a/sa/b".to_owned())
        }
        SubjectAltNameType::Uri => Ok(model::SubjectAltName::Uri(name.uri.clone())),
    }
}

fn invalid(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::Invalid, field, message)
}
