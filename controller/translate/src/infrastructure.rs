//! What a cluster has to set up for a Gateway before requests can come in by it.

use std::collections::BTreeMap;

use xds::model::ObjectName;

use crate::api::{GatewayAddress, GatewaySpec};

/// What the workload and the service of one Gateway are made with (GEP-1762, GEP-1867).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Infrastructure {
    /// The class of the Gateway.
    pub class: String,
    /// Labels that both carry, beside those that tell whose they are.
    pub labels: BTreeMap<String, String>,
    /// Annotations that both carry.
    pub annotations: BTreeMap<String, String>,
    /// The `GatewayParameters` that say how both are made.
    pub parameters: Option<ObjectName>,
    /// Addresses that are asked for; an empty value asks for any of its type.
    pub addresses: Vec<GatewayAddress>,
}

impl Infrastructure {
    /// Of a Gateway of a cluster. Parameters that are gone change nothing here: what was made with them
    /// stays.
    pub(crate) fn of(name: &ObjectName, spec: &GatewaySpec) -> Self {
        let asked = spec.infrastructure.clone().unwrap_or_default();
        let parameters = asked.parameters_ref;
        Self {
            class: spec.gateway_class_name.clone(),
            labels: asked.labels,
            annotations: asked.annotations,
            parameters: parameters.map(|it| ObjectName::new(&name.namespace, &it.name)),
            addresses: spec.addresses.clone(),
        }
    }
}
