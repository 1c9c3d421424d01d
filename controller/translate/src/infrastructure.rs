//! What a cluster has to set up for a Gateway before requests can come in by it.

use std::collections::BTreeMap;

use xds::model::ObjectName;

use crate::api::GatewayAddress;
use crate::options::{Options, Place};
use crate::resolve::gateway::{Gateway, Gateways};

/// What the workload and the service of one Gateway are made with (GEP-1762, GEP-1867).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Infrastructure {
    /// Labels that both carry, beside those that tell whose they are.
    pub labels: BTreeMap<String, String>,
    /// Annotations that both carry.
    pub annotations: BTreeMap<String, String>,
    /// The `GatewayParameters` that say how both are made.
    pub parameters: Option<ObjectName>,
    /// Addresses that are asked for; an empty value asks for any of its type.
    pub addresses: Vec<GatewayAddress>,
}

/// Of every Gateway that is accepted. A machine sets nothing up.
pub(crate) fn of(
    gateways: &Gateways<'_>,
    options: &Options,
) -> BTreeMap<ObjectName, Infrastructure> {
    if matches!(options.place, Place::Machine { .. }) {
        return BTreeMap::new();
    }
    let accepted = gateways.list.iter().filter(|it| it.refusals.is_empty());
    accepted
        .map(|gateway| (gateway.name.clone(), Infrastructure::of_gateway(gateway)))
        .collect()
}

impl Infrastructure {
    fn of_gateway(gateway: &Gateway<'_>) -> Self {
        let spec = &gateway.object.spec;
        let asked = spec.infrastructure.clone().unwrap_or_default();
        let parameters = asked.parameters_ref;
        Self {
            labels: asked.labels,
            annotations: asked.annotations,
            parameters: parameters.map(|it| ObjectName::new(&gateway.name.namespace, &it.name)),
            addresses: spec.addresses.clone(),
        }
    }
}
