//! The infrastructure that a cluster needs for a Gateway.

use std::collections::BTreeMap;

use xds::model::ObjectName;

use super::api::{GatewayAddress, GatewaySpec, ParametersReference};

/// The properties of a Gateway's workload and Service (GEP-1762, GEP-1867).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Infrastructure {
    /// The class of the Gateway.
    pub class: String,
    /// Labels of both, besides those that identify them.
    pub labels: BTreeMap<String, String>,
    /// Annotations from `spec.infrastructure`, for all generated objects.
    pub annotations: BTreeMap<String, String>,
    /// The `GatewayParameters` for both.
    pub parameters: Option<ObjectName>,
    /// Whether it refers to an object that cannot hold parameters: its workload stays as it is.
    pub has_foreign_parameters: bool,
    /// Requested addresses; an empty value requests any of its type.
    pub addresses: Vec<GatewayAddress>,
}

impl Infrastructure {
    /// The infrastructure of a Gateway in a cluster. Deleted parameters do not affect it.
    pub(crate) fn of(name: &ObjectName, spec: &GatewaySpec) -> Self {
        let requested = spec.infrastructure.clone().unwrap_or_default();
        let reference = requested.parameters_ref;
        let has_foreign_parameters = reference.as_ref().is_some_and(|it| !it.is_known());
        let parameters = reference.filter(ParametersReference::is_known);
        Self {
            class: spec.gateway_class_name.clone(),
            labels: requested.labels,
            annotations: requested.annotations,
            parameters: parameters.map(|it| ObjectName::new(&name.namespace, &it.name)),
            has_foreign_parameters,
            addresses: spec.addresses.clone(),
        }
    }
}
