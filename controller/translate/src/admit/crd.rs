//! The schemas of our own kinds, from the very definitions that a cluster is given.

use std::sync::LazyLock;

use serde_json::Value;

use super::schema::Schema;
use super::yaml::compose;

/// The schema of `Backend`.
pub(super) static BACKEND: LazyLock<Schema> = LazyLock::new(|| {
    load(include_str!(
        "../../../../k8s/crds/gateway-system.io_backends.yaml"
    ))
});

/// The schema of `TrafficPolicy`.
pub(super) static TRAFFIC_POLICY: LazyLock<Schema> = LazyLock::new(|| {
    load(include_str!(
        "../../../../k8s/crds/gateway-system.io_trafficpolicies.yaml"
    ))
});

fn load(definition: &str) -> Schema {
    let composed = compose(definition).ok().flatten();
    let mut value = composed.map(|composed| composed.value).unwrap_or_default();
    let schema = value
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema")
        .map(Value::take)
        .unwrap_or_default();
    serde_json::from_value(schema).expect("the definitions are part of the program, and tested")
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    #[test]
    fn the_definitions_load() {
        LazyLock::force(&super::BACKEND);
        LazyLock::force(&super::TRAFFIC_POLICY);
    }
}
