//! Parses and admits objects from the API server.

use std::sync::Arc;

use tracing::{debug, warn};
use translate::ObjectKind;
use translate::files::{self, AdmittedValue, Severity};
use translate::status::{Release, shortened};

use super::change::Content;
use super::class::Class;
use super::kinds::{Reading, reading};
use super::raw::Raw;
use crate::outputs::Observed;

/// Reads an object of a kind. `None` if it has no identity, which API servers never send.
pub(super) fn read(kind: ObjectKind, api_version: &str, raw: Raw) -> Option<Content> {
    let reading = reading(kind);
    match reading {
        Reading::Parameters => {
            let spec = raw.fields().remove("spec").unwrap_or_default();
            return Some(Content::Parameters(Arc::new(spec)));
        }
        Reading::Release => return Some(Content::Release(release(&raw))),
        Reading::Class => {
            let fields = raw.fields();
            return Some(Content::Class {
                class: Class::of(&fields),
                observed: Arc::new(observe(raw, api_version)),
            });
        }
        Reading::Object | Reading::ObjectAndStatus => {}
    }
    let status = raw.status.as_ref().map(|status| status.get());
    let admitted = files::admit_json(kind, &raw.text, status);
    // It was only scanned before: its text may have half of a surrogate pair, which API servers never send.
    let admitted = admitted.inspect_err(|error| {
        let name = raw.name();
        warn!("{kind} {name} is ignored, since it cannot be parsed: {error}");
    });
    let admitted = admitted.ok().flatten()?;
    let observed =
        (reading == Reading::ObjectAndStatus).then(|| Arc::new(observe(raw, api_version)));
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
            why: why(&findings),
            reference,
            fail_closed,
            observed,
        }),
    }
}

/// The Gateway API release in a CRD.
fn release(raw: &Raw) -> Option<Release> {
    let fields = raw.fields();
    let annotations = fields.get("metadata")?.get("annotations")?;
    Release::of_annotations(|name| annotations.get(name)?.as_str())
}

fn observe(raw: Raw, api_version: &str) -> Observed {
    let head = raw.head;
    Observed {
        uid: head.uid,
        resource_version: head.resource_version,
        generation: head.generation,
        api_version: api_version.into(),
        is_deleted: head.is_deleted,
        status: raw.status.as_ref().map_or("", |it| it.get()).into(),
    }
}

/// The errors among findings, as a message with advice.
fn why(findings: &[files::Finding]) -> Arc<str> {
    let errors = findings.iter().filter(|it| it.severity == Severity::Error);
    let texts = errors.map(|finding| match &finding.field {
        Some(field) => format!("{field}: {}", finding.text),
        None => finding.text.clone(),
    });
    let texts: Vec<String> = texts.take(MAX_FINDINGS).collect();
    shortened(texts.join("; ").into()).into()
}

/// Most findings in a message, whose length is limited too.
const MAX_FINDINGS: usize = 32;
