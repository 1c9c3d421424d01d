//! BackendTLSPolicy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{PolicyEntries, PolicyTargetReference};
use crate::objects::api::ObjectMeta;
use crate::route::api::LocalObjectReference;

/// TLS towards Services and Backends.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct BackendTlsPolicy {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: BackendTlsPolicySpec,
    /// The entries of all controllers.
    #[serde(default)]
    pub status: PolicyEntries,
}

/// Targets, and how their certificates are validated.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsPolicySpec {
    /// Targets. The section of a Service is the name of a port.
    #[serde(default)]
    pub target_refs: Vec<PolicyTargetReference>,
    /// How the backend's certificate is validated.
    pub validation: BackendTlsValidation,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// How a backend's certificate is validated. The default accepts none.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsValidation {
    /// CA certificates that are trusted.
    #[serde(rename = "caCertificateRefs", default)]
    pub ca_certificate_refs: Vec<LocalObjectReference>,
    /// `System`, instead of references.
    #[serde(rename = "wellKnownCACertificates", default)]
    pub well_known_ca_certificates: Option<String>,
    /// The SNI, and the name in the certificate unless others are listed.
    pub hostname: String,
    /// Names, one of which the certificate must have.
    #[serde(default)]
    pub subject_alt_names: Vec<SubjectAltName>,
}

/// A name in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct SubjectAltName {
    /// Which of the two.
    #[serde(rename = "type")]
    pub kind: SubjectAltNameType,
    #[serde(default)]
    pub hostname: String,
    #[serde(default)]
    pub uri: String,
}

/// The type of a subject alternative name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum SubjectAltNameType {
    Hostname,
    #[serde(rename = "URI")]
    Uri,
}
