//! Labels of Gateways' workloads.

use std::collections::BTreeMap;

use translate::naming::distinct_service_name;
pub use translate::naming::{GATEWAY_NAME, child_name, service_name};

/// The selector of a Gateway's pods; it never changes, since a Deployment's selector cannot.
#[must_use]
pub fn selector(gateway: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (GATEWAY_NAME.to_owned(), child_name(gateway)),
        (MANAGED_BY.to_owned(), MANAGER.to_owned()),
    ])
}

/// The name of a Gateway's metrics Service: `<gateway>-metrics`, or another if there is a Gateway of
/// that name, which has a Service of that name.
#[must_use]
pub fn metrics_service_name(gateway: &str, is_taken: bool) -> String {
    let name = format!("{gateway}{METRICS_SUFFIX}");
    if is_taken {
        distinct_service_name(&name)
    } else {
        service_name(&name)
    }
}

/// Whether an object of a Gateway may have this name.
#[must_use]
pub fn is_child(gateway: &str, name: &str) -> bool {
    child_name(gateway) == name
        || service_name(gateway) == name
        || [false, true]
            .into_iter()
            .any(|is_taken| metrics_service_name(gateway, is_taken) == name)
}

/// The labels of all objects of a Gateway.
#[must_use]
pub fn of_gateway(gateway: &str, class: &str) -> BTreeMap<String, String> {
    let mut labels = selector(gateway);
    labels.insert(CLASS_NAME.to_owned(), child_name(class));
    labels.insert("app.kubernetes.io/name".to_owned(), "gateway".to_owned());
    labels.insert("app.kubernetes.io/instance".to_owned(), child_name(gateway));
    labels
}

/// The end of the name of a metrics Service, after that of its Gateway.
pub const METRICS_SUFFIX: &str = "-metrics";
/// Label with the class of the Gateway.
pub const CLASS_NAME: &str = "gateway.networking.k8s.io/gateway-class-name";
/// Label with the creator of an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Our value of [`MANAGED_BY`], and our field manager.
pub const MANAGER: &str = "gateway-system-controller";
