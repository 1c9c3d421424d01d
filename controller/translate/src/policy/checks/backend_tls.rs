//! BackendTLSPolicy.

use std::collections::BTreeMap;

use serde_json::Value;
use xds::model::ObjectName;

use super::presumed::{presumed_metadata, presumed_targets};
use crate::files::check::Check;
use crate::files::syntax;
use crate::objects::admission::{Admissible, guarded};
use crate::objects::api::ObjectMeta;
use crate::objects::checks::reference;
use crate::objects::kinds::ObjectKind;
use crate::policy::api::{
    BackendTlsPolicy, BackendTlsPolicySpec, BackendTlsValidation, PolicyEntries,
    PolicyTargetReference, SubjectAltName, SubjectAltNameType,
};

impl Admissible for BackendTlsPolicy {
    const READS_STATUS: bool = true;
    const UNREAD: &'static [&'static str] = &["status"];
    const UNSUPPORTED: &'static [&'static str] = &["spec.options"];

    /// While it is invalid, nothing is sent to its targets: without it, they would receive plain
    /// text. If the targets are unknown, to nothing in the namespace.
    fn fail_closed(name: &ObjectName, written: &Value) -> Option<Self> {
        let spec = written.get("spec").and_then(Value::as_object);
        let presumed = spec.map(presumed_targets).unwrap_or_default();
        let mut targets: Vec<_> = presumed.iter().flat_map(whole_targets).collect();
        if targets.iter().any(|target| target.name.is_empty()) {
            targets.clear();
        }
        Some(unsatisfiable(presumed_metadata(name, written), targets))
    }

    fn duplicate_replacement(&self) -> Option<Self> {
        let targets = self.spec.target_refs.clone();
        Some(unsatisfiable(self.metadata.clone(), targets))
    }

    fn may_restrict_access(field: &[&str]) -> bool {
        guarded(&["spec.validation"], field)
    }

    fn check(&self, check: &mut Check) {
        check.field("spec", |check| {
            targets(check, &self.spec.target_refs);
            check.field("validation", |check| {
                validation(check, &self.spec.validation);
            });
            if !self.spec.options.is_empty() {
                check.field("options", |check| {
                    check.warn("is not supported by this version: it has no effect");
                });
            }
        });
    }
}

/// A policy that no backend satisfies.
fn unsatisfiable(
    metadata: ObjectMeta,
    target_refs: Vec<PolicyTargetReference>,
) -> BackendTlsPolicy {
    BackendTlsPolicy {
        metadata,
        spec: BackendTlsPolicySpec {
            target_refs,
            validation: BackendTlsValidation::default(),
            options: BTreeMap::new(),
        },
        status: PolicyEntries::default(),
    }
}

/// A target without section, which may be the mistake. If its kind is unknown, of both kinds.
fn whole_targets(presumed: &PolicyTargetReference) -> Vec<PolicyTargetReference> {
    let kinds = [ObjectKind::Service, ObjectKind::Backend];
    let meant = |kind: &ObjectKind| presumed.kind.eq_ignore_ascii_case(kind.name());
    let is_named = kinds.iter().any(meant);
    let kinds = kinds.into_iter().filter(|kind| !is_named || meant(kind));
    let target = |kind: ObjectKind| PolicyTargetReference {
        group: kind.group().to_owned(),
        kind: kind.name().to_owned(),
        name: presumed.name.clone(),
        section_name: None,
    };
    kinds.map(target).collect()
}

fn targets(check: &mut Check, targets: &[PolicyTargetReference]) {
    if targets.is_empty() {
        check.missing("targetRefs", "is required: name a Service or a Backend");
    }
    check.at_most("targetRefs", targets.len(), MAX_TARGETS);
    check.each("targetRefs", targets, |check, target| {
        reference::group_and_kind(check, &target.group, &target.kind);
        check.fits_field("name", Some(&target.name), syntax::object_name);
        let section = target.section_name.as_deref();
        check.fits_field("sectionName", section, syntax::subdomain);
        let is_same = |other: &&PolicyTargetReference| {
            (&other.group, &other.kind, &other.name) == (&target.group, &target.kind, &target.name)
        };
        if section.is_none() && targets.iter().filter(is_same).count() > 1 {
            check.missing(
                "sectionName",
                "is required: the same target is named twice, so each reference must specify the port",
            );
        }
    });
    check.distinct("targetRefs", targets, "target and section", |target| {
        target.section_name.is_some().then_some(target)
    });
}

fn validation(check: &mut Check, validation: &BackendTlsValidation) {
    let references = &validation.ca_certificate_refs;
    let well_known = validation.well_known_ca_certificates.as_deref();
    let well_known = well_known.filter(|name| !name.is_empty());
    match (references.is_empty(), well_known) {
        (true, None) => check.missing(
            "caCertificateRefs",
            "is required: name a ConfigMap with the CA certificates for the \
             backend, or write `wellKnownCACertificates: System`",
        ),
        (false, Some(_)) => check.field("wellKnownCACertificates", |check| {
            check.refuse("excludes caCertificateRefs: keep one of them");
        }),
        _ => {}
    }
    check.at_most("caCertificateRefs", references.len(), MAX_REFERENCES);
    check.each("caCertificateRefs", references, |check, reference| {
        reference::group_and_kind(check, &reference.group, &reference.kind);
        check.fits_field("name", Some(&reference.name), syntax::object_name);
    });
    check.fits_field(
        "hostname",
        Some(&validation.hostname),
        syntax::precise_hostname,
    );
    let names = &validation.subject_alt_names;
    check.at_most("subjectAltNames", names.len(), MAX_NAMES);
    check.each("subjectAltNames", names, subject_alt_name);
}

fn subject_alt_name(check: &mut Check, name: &SubjectAltName) {
    let (hostname, uri) = (Some(name.hostname.as_str()), Some(name.uri.as_str()));
    match name.kind {
        SubjectAltNameType::Hostname => {
            check.fits_field("hostname", hostname, syntax::hostname);
            check.fits_field("uri", uri, empty);
        }
        SubjectAltNameType::Uri => {
            check.fits_field("uri", uri, absolute_uri);
            check.fits_field("hostname", hostname, empty);
        }
    }
}

fn empty(text: &str) -> syntax::Verdict {
    if text.is_empty() {
        return Ok(());
    }
    Err("does not apply to this type: remove it, or change the type".to_owned())
}

/// A URI with a scheme and something after it, such as `spiffe://cluster.local/ns/a/sa/b`.
fn absolute_uri(text: &str) -> syntax::Verdict {
    syntax::length(text, 1, MAX_URI)?;
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let valid = text
        .split_once("://")
        .is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty());
    if valid {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not an absolute URI: use one such as spiffe://cluster.local/ns/a/sa/b"
    ))
}

const MAX_TARGETS: usize = 16;
const MAX_REFERENCES: usize = 8;
const MAX_NAMES: usize = 5;
const MAX_URI: usize = 253;
