//! The permissions of the controller.

use std::collections::BTreeSet;

use charts::{Helm, Object, objects, path};
use serde_json::Value;

use crate::read;

fn rules(helm: &Helm, values: &str, kind: &str) -> Vec<Value> {
    let objects = helm.objects("gateway", values).expect("it renders");
    let role = objects.iter().find(|object| object.kind() == kind);
    let rules = role.map(|role| role.at("/rules").clone());
    let rules = rules.unwrap_or_else(|| panic!("there is no {kind}"));
    rules.as_array().cloned().expect("a list")
}

fn names<'a>(rules: &'a [Value], field: &str) -> Vec<&'a str> {
    let lists = rules.iter().filter_map(|rule| rule[field].as_array());
    lists.flatten().filter_map(Value::as_str).collect()
}

#[test]
fn inference_pool_permissions_depend_on_the_value_that_enables_them() {
    let Some(helm) = Helm::find() else { return };
    let without = rules(&helm, "{}", "ClusterRole");
    assert!(!names(&without, "resources").contains(&"inferencepools"));
    let values = "{inferenceExtension: {enabled: true}}";
    let with = rules(&helm, values, "ClusterRole");
    assert_eq!(with[..without.len()], without);
    let added = names(&with[without.len()..], "resources");
    assert_eq!(added, ["inferencepools", "inferencepools/status", "pods"]);
}

#[test]
fn x_backend_permissions_depend_on_the_value_that_enables_them() {
    let Some(helm) = Helm::find() else { return };
    let without = rules(&helm, "{}", "ClusterRole");
    assert!(!names(&without, "resources").contains(&"xbackends"));
    let with = rules(&helm, "{xBackend: {enabled: true}}", "ClusterRole");
    let added = names(&with[without.len()..], "resources");
    assert_eq!(added, ["xbackends", "xbackends/status", "pods"]);
}

#[test]
fn permissions_for_addresses_of_nodes_depend_on_the_value_that_enables_them() {
    let Some(helm) = Helm::find() else { return };
    let without = rules(&helm, "{}", "ClusterRole");
    let with = rules(&helm, "{nodeAddresses: {enabled: true}}", "ClusterRole");
    assert_eq!(with[..without.len()], without);
    let added = &with[without.len()..];
    assert_eq!(names(added, "resources"), ["nodes", "pods"]);
    assert_eq!(names(added, "verbs"), ["list", "watch"]);
}

#[test]
fn nothing_is_granted_by_wildcard() {
    let Some(helm) = Helm::find() else { return };
    for kind in ["ClusterRole", "Role"] {
        let rules = rules(&helm, "{inferenceExtension: {enabled: true}}", kind);
        for field in ["apiGroups", "resources", "verbs"] {
            assert!(!names(&rules, field).contains(&"*"), "{kind}: {field}");
        }
    }
}

/// In other namespaces the controller only reads Secrets.
#[test]
fn secrets_can_be_written_only_in_the_release_namespace() {
    let Some(helm) = Helm::find() else { return };
    let secrets =
        |rule: &&Value| names(std::slice::from_ref(rule), "resources").contains(&"secrets");
    let cluster = rules(&helm, "{}", "ClusterRole");
    for rule in cluster.iter().filter(secrets) {
        assert_eq!(
            names(std::slice::from_ref(rule), "verbs"),
            ["list", "watch"]
        );
    }
    let objects = helm.objects("gateway", "{}").expect("it renders");
    let role = objects.iter().find(|object| object.kind() == "Role");
    assert_eq!(role.map(Object::name), Some("gateway"));
    assert!(rules(&helm, "{}", "Role").iter().any(|rule| secrets(&rule)));
}

/// The rules of the Roles in the namespaces with Gateways.
#[test]
fn workloads_can_be_written_in_listed_namespaces_only() {
    let Some(helm) = Helm::find() else { return };
    let written = |rules: &[Value]| -> Vec<String> {
        let writes = rules.iter().filter(|rule| {
            let verbs = names(std::slice::from_ref(rule), "verbs");
            verbs.contains(&"delete")
        });
        let resources = writes.flat_map(|rule| names(std::slice::from_ref(rule), "resources"));
        resources.map(str::to_owned).collect()
    };
    let workloads = [
        "services",
        "serviceaccounts",
        "configmaps",
        "deployments",
        "daemonsets",
        "horizontalpodautoscalers",
        "poddisruptionbudgets",
    ];
    assert_eq!(written(&rules(&helm, "{}", "ClusterRole")), workloads);
    let values = "{rbac: {gatewayNamespaces: [edge, shop]}}";
    assert_eq!(written(&rules(&helm, values, "ClusterRole")), [""; 0]);
    let objects = helm.objects("gateway", values).expect("it renders");
    let roles = objects.iter().filter(|object| object.kind() == "Role");
    let roles: Vec<_> = roles
        .filter(|role| role.name().ends_with("-deployer"))
        .collect();
    let namespaces = roles.iter().map(|role| role.at("/metadata/namespace"));
    assert_eq!(namespaces.collect::<Vec<_>>(), ["edge", "shop"]);
    for role in roles {
        let rules = role.at("/rules").as_array().expect("rules");
        assert_eq!(written(rules), workloads);
    }
}

/// An installation without Helm has the same names, and grants the same permissions.
#[test]
fn the_plain_manifests_have_the_same_names_and_rules() {
    let Some(helm) = Helm::find() else { return };
    let manifests = objects(&read(&path("../install/controller.yaml")));
    let chart = helm.objects("gateway", "{}").expect("it renders");
    // The guides name them.
    let names = |objects: &[Object]| -> BTreeSet<String> {
        let names = objects.iter();
        names
            .map(|it| format!("{}/{}", it.kind(), it.name()))
            .collect()
    };
    assert_eq!(names(&manifests), names(&chart));
    for kind in ["ClusterRole", "Role"] {
        let role = manifests.iter().find(|object| object.kind() == kind);
        let role = role.unwrap_or_else(|| panic!("there is no {kind}"));
        let plain = role.at("/rules").as_array().cloned();
        assert_eq!(plain.as_ref(), Some(&rules(&helm, "{}", kind)), "{kind}");
    }
}
