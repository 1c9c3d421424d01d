//! Labels of Gateways' workloads.

use std::collections::BTreeMap;

pub use translate::naming::{GATEWAY_NAME, child_name, service_name};

/// The selector of a Gateway's pods; it never changes, since a Deployment's selector cannot.
#[must_use]
pub fn selector(gateway: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (GATEWAY_NAME.to_owned(), child_name(gateway)),
        (MANAGED_BY.to_owned(), MANAGER.to_owned()),
    ])
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

/// Label with the class of the Gateway.
pub const CLASS_NAME: &str = "gateway.networking.k8s.io/gateway-class-name";
/// Label with the creator of an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Our value of [`MANAGED_BY`], and our field manager.
pub const MANAGER: &str = "gateway-system-controller";
