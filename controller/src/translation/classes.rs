//! The GatewayClasses that this controller serves, and the `GatewayParameters` that they name.

use std::collections::BTreeMap;
use std::sync::Arc;

use translate::ObjectRef;
use translate::api::{CLASS_KIND, GATEWAY_GROUP};
use translate::status::{GatewayClassStatus, Status};
use xds::model::ObjectName;

use crate::outputs::Outputs;
use crate::watch::ClassParameters;

/// The classes of ours, by name.
#[derive(Debug, Default)]
pub(super) struct Classes(BTreeMap<ObjectName, Served>);

/// A class of ours.
#[derive(Debug)]
struct Served {
    generation: i64,
    parameters: Option<ClassParameters>,
}

impl Classes {
    /// Takes over a class of ours.
    pub(super) fn put(
        &mut self,
        name: &ObjectName,
        generation: i64,
        parameters: Option<ClassParameters>,
        outputs: &Outputs,
    ) {
        let named = name.name.to_string();
        outputs.class_parameters.set(&named, parameters.clone());
        let served = Served {
            generation,
            parameters,
        };
        tell(name, &served, outputs);
        self.0.insert(name.clone(), served);
    }

    /// Forgets a class that is gone, or another controller's.
    pub(super) fn remove(&mut self, name: &ObjectName, outputs: &Outputs) {
        self.0.remove(name);
        outputs.class_parameters.set(&name.name.to_string(), None);
        outputs.statuses.set(&reference(name), None);
    }

    /// Judges the classes again that name these parameters, which came or went.
    pub(super) fn parameters_changed(&self, parameters: &ObjectName, outputs: &Outputs) {
        for (name, served) in &self.0 {
            if served.parameters.as_ref().and_then(|it| it.as_ref().ok()) == Some(parameters) {
                tell(name, served, outputs);
            }
        }
    }
}

/// Says whether a class is accepted.
fn tell(name: &ObjectName, served: &Served, outputs: &Outputs) {
    let problem = match &served.parameters {
        None => None,
        Some(Err(why)) => Some(why.to_string()),
        Some(Ok(parameters)) => outputs.parameters.get(parameters).is_none().then(|| {
            format!("spec.parametersRef: GatewayParameters {parameters} does not exist: create it")
        }),
    };
    let status = match problem {
        None => GatewayClassStatus::accepted(served.generation),
        Some(why) => GatewayClassStatus::refused(served.generation, why),
    };
    let status = Arc::new(Status::GatewayClass(status));
    outputs.statuses.set(&reference(name), Some(status));
}

/// A class as an object.
pub(super) fn reference(name: &ObjectName) -> ObjectRef {
    ObjectRef {
        group: GATEWAY_GROUP.into(),
        kind: CLASS_KIND.into(),
        name: name.clone(),
    }
}
