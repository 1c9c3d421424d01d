//! Parses and admits objects from the API server.

use std::sync::Arc;

use serde_json::Value;
use tracing::debug;
use translate::admit::{self, AdmittedValue, Severity};
use translate::status::Release;

use super::change::Content;
use super::class::Class;
use super::kinds::{Reading, WatchedKind};
use super::raw::Raw;
use crate::outputs::Observed;

/// Reads an object of a kind. `None` if it has no identity, which API servers never send.
pub(super) fn read(kind: &WatchedKind, api_version: &str, mut raw: Raw) -> Option<Content> {
    if kind.reading == Reading::Parameters {
        let spec = raw.fields.remove("spec").unwrap_or_default();
        return Some(Content::Parameters(Arc::new(spec)));
    }
    if kind.reading == Reading::Release {
        return Some(Content::Release(release(&raw)));
    }
    if kind.reading == Reading::Class {
        let spec = raw.fields.get("spec").unwrap_or(&Value::Null);
        return Some(Content::Class {
            class: Class::of(spec),
            observed: Arc::new(observe(&raw, api_version)),
        });
    }
    let observed =
        (kind.reading == Reading::ObjectAndStatus).then(|| Arc::new(observe(&raw, api_version)));
    if let Some(status) = raw
        .status
        .filter(|_| admit::reads_status(kind.group, kind.kind))
    {
        // It is valid JSON: only nesting beyond any status of Kubernetes is not read.
        let status = serde_json::from_str(status.get()).unwrap_or_default();
        raw.fields.insert("status".to_owned(), status);
    }
    let admitted = admit::admit_value(kind.group, kind.kind, raw.fields)?;
    let AdmittedValue {
        reference,
        object,
        fail_closed,
        findings,
    } = admitted;
    let reference = reference?;
    match object {
        Some(object) => {
            for finding in findings {
                debug!(
                    "{reference} {}: {}",
                    finding.field.unwrap_or_default(),
                    finding.text
                );
            }
            Some(Content::Valid { object, observed })
        }
        None => Some(Content::Invalid {
            why: why(&findings).into(),
            reference,
            fail_closed,
            observed,
        }),
    }
}

/// The Gateway API release in a CRD.
fn release(raw: &Raw) -> Option<Release> {
    let annotations = raw.metadata()?.get("annotations")?;
    Release::of_annotations(|name| annotations.get(name)?.as_str())
}

fn observe(raw: &Raw, api_version: &str) -> Observed {
    let metadata = raw.metadata();
    let generation = metadata.and_then(|it| it.get("generation"));
    let deletion = metadata.and_then(|it| it.get("deletionTimestamp"));
    Observed {
        uid: raw.text("uid").into(),
        resource_version: raw.text("resourceVersion").into(),
        generation: generation.and_then(Value::as_i64).unwrap_or_default(),
        api_version: api_version.into(),
        is_deleted: deletion.is_some_and(|it| !it.is_null()),
        status: raw.status.as_ref().map_or("", |it| it.get()).into(),
    }
}

/// The errors among findings, as a message with advice.
fn why(findings: &[admit::Finding]) -> String {
    let errors = findings.iter().filter(|it| it.severity == Severity::Error);
    let texts = errors.map(|finding| match &finding.field {
        Some(field) => format!("{field}: {}", finding.text),
        None => finding.text.clone(),
    });
    texts.collect::<Vec<_>>().join("; ")
}
