//! Which Events the writer records: what is known of an object, and what to do if it cannot be told now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;
use translate::objects::kinds::StatusForm;
use translate::{ObjectKind, ObjectRef};

use super::super::blamed::{Faults, in_deployment, in_status};
use super::super::events::Identity;
use super::super::programmed::Deployment;
use super::super::warnings::{Knowledge, Tone};
use super::StatusWriter;

impl StatusWriter {
    /// Records Events about objects that do not do what their authors expect, and about those that they refer to.
    pub(super) fn warn<'a>(&mut self, objects: impl Iterator<Item = &'a ObjectRef>) {
        let now = Instant::now();
        let mut blamed = BTreeSet::new();
        for object in objects {
            let faults = self.faults(object);
            blamed.extend(self.blamed.observe(object, faults));
            self.warn_of(object, now);
        }
        for object in &blamed {
            self.warn_of(object, now);
        }
        self.metrics.set_missing_targets(self.warnings.missing());
        self.metrics.set_unavailable(self.symptoms.affected());
    }

    fn warn_of(&mut self, object: &ObjectRef, now: Instant) {
        let outputs = Arc::clone(&self.outputs);
        let status = outputs.statuses.get(object);
        let diagnoses = outputs.diagnoses.get(object);
        let invalid = outputs.invalid.get(object);
        let (seen, blamed) = (self.symptoms.warning(object), self.blamed.of(object));
        let undeployed = match object.kind {
            ObjectKind::Gateway => Some(self.deployment(&object.name)),
            _ => None,
        };
        let workload = match object.kind {
            ObjectKind::Gateway => outputs.workload_problems.get(&object.name),
            _ => None,
        };
        let refused = self.refused.get(object).and_then(BTreeMap::first_key_value);
        let knowledge = Knowledge {
            status: status.as_deref(),
            diagnoses: diagnoses.as_deref().unwrap_or_default(),
            invalid: invalid.as_deref(),
            seen: seen.as_ref(),
            undeployed: undeployed.as_ref().and_then(Deployment::failure),
            workload: workload.as_deref().unwrap_or_default(),
            refused: refused.map(|(_, why)| why.as_str()),
            blamed: &blamed,
        };
        let Some(warning) = self.warnings.observe(object, knowledge, now) else {
            return;
        };
        let tone = warning.tone;
        let Some(identity) = self.identity(object) else {
            // It was deleted, or is about to be known.
            if tone == Tone::Warning {
                self.warnings.await_object(object, now);
            }
            return;
        };
        if self.events.record(object, identity, warning) {
            self.warnings.sent(object, now);
        } else {
            self.warnings.postpone(object, tone);
        }
    }

    /// `None` of an object that is not known to exist.
    fn identity(&self, object: &ObjectRef) -> Option<Identity> {
        if let Some(observed) = self.outputs.observed.get(object) {
            return Some(Identity::Known {
                api_version: observed.api_version.to_string(),
                uid: observed.uid.to_string(),
            });
        }
        (object.kind.definition().status == StatusForm::None).then_some(Identity::AskedFor)
    }

    /// What an object finds wrong with those that it refers to.
    fn faults(&self, object: &ObjectRef) -> Faults {
        if !matches!(object.kind, ObjectKind::Gateway | ObjectKind::ListenerSet) {
            return Faults::new();
        }
        let status = self.outputs.statuses.get(object);
        let mut faults = status.map_or_else(Faults::new, |it| in_status(object, &it));
        if object.kind == ObjectKind::Gateway
            // Those of a class are those of all its Gateways, and not for one of them to blame.
            && let Some(infrastructure) = self.outputs.infrastructure.get(&object.name)
            && let Some(parameters) = &infrastructure.parameters
        {
            let deployment = self.deployment(&object.name);
            faults.extend(in_deployment(object, parameters, &deployment));
        }
        faults
    }
}
