//! Which Events the writer records: what is known of an object, and what to do if it cannot be told now.

use std::sync::Arc;

use tokio::time::Instant;
use translate::{ObjectKind, ObjectRef};

use super::super::programmed::Deployment;
use super::super::warnings::{Knowledge, Tone, Warning};
use super::StatusWriter;

impl StatusWriter {
    /// Records events about objects that do not do what their authors expect.
    pub(super) fn warn<'a>(&mut self, objects: impl Iterator<Item = &'a ObjectRef>) {
        let (now, outputs) = (Instant::now(), Arc::clone(&self.outputs));
        for object in objects {
            let status = outputs.statuses.get(object);
            let diagnoses = outputs.diagnoses.get(object);
            let invalid = outputs.invalid.get(object);
            let seen = self.symptoms.warning(object);
            let undeployed = match object.kind {
                ObjectKind::Gateway => outputs.deployments.get(&object.name),
                _ => None,
            };
            let knowledge = Knowledge {
                status: status.as_deref(),
                diagnoses: diagnoses.as_deref().unwrap_or_default(),
                invalid: invalid.as_deref(),
                seen: seen.as_ref(),
                undeployed: match &undeployed {
                    Some(Deployment::Refused(why)) => Some(why),
                    _ => None,
                },
            };
            let Some(warning) = self.warnings.observe(object, knowledge, now) else {
                continue;
            };
            let Some(observed) = outputs.observed.get(object) else {
                // It was deleted, or is about to be known.
                if warning.tone == Tone::Warning {
                    self.warnings.await_object(object, now);
                }
                continue;
            };
            let version = Some(&*observed.api_version);
            let Warning { tone, reason, text } = warning;
            let is_taken =
                self.events
                    .record(object, (version, &observed.uid), tone, (reason, text));
            if !is_taken {
                self.warnings.postpone(object);
            }
        }
        self.metrics.set_missing_targets(self.warnings.missing());
        self.metrics.set_unavailable(self.symptoms.affected());
    }
}
