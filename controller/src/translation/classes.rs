//! The GatewayClasses of this controller, their `GatewayParameters`, and the features of the
//! installed release of Gateway API.

use std::collections::BTreeMap;
use std::sync::Arc;

use translate::ObjectKind;
use translate::ObjectRef;
use translate::status::{GatewayClassStatus, Installed, Release, Status};
use xds::model::ObjectName;

use crate::outputs::Outputs;
use crate::watch::ClassParameters;

/// The classes of this controller, by name.
#[derive(Debug, Default)]
pub(super) struct Classes {
    served: BTreeMap<ObjectName, ServedClass>,
    /// The installed release of Gateway API, if the CRDs state it.
    release: Option<Release>,
    /// Whether the CRDs have been read.
    is_release_known: bool,
    /// Whether the API server has ClusterTrustBundle objects; `None` before discovery.
    trust_bundles: Option<bool>,
}

/// A class of this controller.
#[derive(Debug)]
struct ServedClass {
    generation: i64,
    parameters: Option<ClassParameters>,
}

impl Classes {
    /// Adds or replaces a class of this controller.
    pub(super) fn put(
        &mut self,
        name: &ObjectName,
        generation: i64,
        parameters: Option<ClassParameters>,
        outputs: &Outputs,
    ) {
        let named = name.name.to_string();
        outputs.class_parameters.set(&named, parameters.clone());
        let served = ServedClass {
            generation,
            parameters,
        };
        self.publish_status(name, &served, outputs);
        self.served.insert(name.clone(), served);
    }

    /// Removes a class that was deleted, or belongs to another controller now.
    pub(super) fn remove(&mut self, name: &ObjectName, outputs: &Outputs) {
        self.served.remove(name);
        outputs.class_parameters.set(&name.name.to_string(), None);
        outputs.statuses.set(&reference(name), None);
    }

    /// Updates the status of classes with these parameters, which were created or deleted.
    pub(super) fn parameters_changed(&self, parameters: &ObjectName, outputs: &Outputs) {
        for (name, served) in &self.served {
            if served.parameters.as_ref().and_then(|it| it.as_ref().ok()) == Some(parameters) {
                self.publish_status(name, served, outputs);
            }
        }
    }

    /// Sets the installed release, if the CRDs state it.
    pub(super) fn set_release(&mut self, release: Option<Release>, outputs: &Outputs) {
        self.release = release;
        self.is_release_known = true;
        self.publish_all(outputs);
    }

    /// Records whether the API server serves ClusterTrustBundle objects.
    pub(super) fn set_trust_bundles(&mut self, is_served: bool, outputs: &Outputs) {
        self.trust_bundles = Some(is_served);
        self.publish_all(outputs);
    }

    /// Records that the CRDs were read, whether or not they state a release.
    pub(super) fn record_release_lookup(&mut self, outputs: &Outputs) {
        if !self.is_release_known {
            self.set_release(None, outputs);
        }
    }

    fn publish_all(&self, outputs: &Outputs) {
        for (name, served) in &self.served {
            self.publish_status(name, served, outputs);
        }
    }

    fn publish_status(&self, name: &ObjectName, served: &ServedClass, outputs: &Outputs) {
        // Report only once both are known: otherwise the report would change at once.
        let Some(trust_bundles) = self.trust_bundles.filter(|_| self.is_release_known) else {
            return;
        };
        let installed = Installed {
            release: self.release,
            trust_bundles,
        };
        let status = status(served, installed, outputs);
        let status = match &outputs.class_advice {
            Some((class, advice)) if **class == *name.name => status.with_advice(advice),
            _ => status,
        };
        let status = Arc::new(Status::GatewayClass(status));
        outputs.statuses.set(&reference(name), Some(status));
    }
}

/// Whether a class is accepted.
fn status(served: &ServedClass, installed: Installed, outputs: &Outputs) -> GatewayClassStatus {
    let problem = match &served.parameters {
        None => None,
        Some(Err(why)) => Some(why.to_string()),
        Some(Ok(parameters)) => outputs.parameters.get(parameters).is_none().then(|| {
            format!("spec.parametersRef: GatewayParameters {parameters} does not exist: create it")
        }),
    };
    match problem {
        None => GatewayClassStatus::accepted(served.generation, installed),
        Some(why) => GatewayClassStatus::refused(served.generation, why, installed),
    }
}

/// A class as an object reference.
pub(super) fn reference(name: &ObjectName) -> ObjectRef {
    ObjectRef::new(ObjectKind::GatewayClass, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_about_a_class_is_in_its_status_alone() {
        let outputs = Outputs {
            class_advice: Some(("edge".to_owned(), "mind this".to_owned())),
            ..Outputs::default()
        };
        let mut classes = Classes::default();
        classes.set_trust_bundles(false, &outputs);
        classes.record_release_lookup(&outputs);
        for (class, expected) in [("edge", true), ("other", false)] {
            let name = ObjectName::new("", class);
            classes.put(&name, 1, None, &outputs);
            let status = outputs.statuses.get(&reference(&name));
            let text = format!("{status:?}");
            assert_eq!(text.contains("mind this"), expected, "{text}");
        }
    }
}
