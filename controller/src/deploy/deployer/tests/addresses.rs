//! The addresses of Gateways: of their Services, of nodes, or none.

use super::*;

/// A node with an address in the network of the nodes.
fn put_node(scene: &Scene, name: &str, ip: &str) {
    let path = format!("/api/v1/nodes/{name}");
    let addresses = json!([{"type": "InternalIP", "address": ip}]);
    let node = json!({"metadata": {"name": name}, "status": {"addresses": addresses}});
    scene.server.put(&path, node);
}

/// A proxy of Gateway infra/edge on a node, which is ready or not.
fn put_proxy(scene: &Scene, name: &str, node: &str, ready: &str) {
    let path = format!("/api/v1/namespaces/infra/pods/{name}");
    let pod = json!({
        "metadata": {"labels": labels::of_gateway("edge", "gateway")},
        "spec": {"nodeName": node, "containers": []},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    });
    scene.server.put(&path, pod);
}

/// The addresses of the Gateway, or why it has none.
fn addresses(scene: &Scene) -> Result<Vec<String>, NoAddress> {
    let known = scene.outputs.addresses.get(&edge()).unwrap_or_default();
    if known.default.is_empty() {
        return Err(known.absence);
    }
    Ok(known.default.into_iter().map(|it| it.value).collect())
}

async fn reading_nodes(spec: &Value) -> Scene {
    let scene = Scene::reading(NodeReading::Enabled, Outputs::default(), &[]);
    scene.want_with(spec);
    settle().await;
    scene
}

#[tokio::test(start_paused = true)]
async fn a_gateway_on_node_ports_has_the_addresses_of_its_nodes() {
    let scene = reading_nodes(&json!({"service": {"type": "NodePort"}})).await;
    let Err(NoAddress::Nodes(why)) = addresses(&scene) else {
        panic!("{:?}", addresses(&scene))
    };
    assert!(why.starts_with("no node has a proxy"), "{why}");
    put_node(&scene, "a", "10.0.0.10");
    put_node(&scene, "b", "10.0.0.9");
    put_proxy(&scene, "1", "a", "False");
    settle().await;
    assert!(addresses(&scene).is_err());
    put_proxy(&scene, "1", "a", "True");
    sleep(Duration::from_millis(100)).await;
    assert_eq!(
        addresses(&scene),
        Ok(vec!["10.0.0.10".into()]),
        "the first one counts at once"
    );
    put_proxy(&scene, "2", "b", "True");
    settle().await;
    assert_eq!(addresses(&scene), Ok(vec!["10.0.0.10".into()]));
    sleep(Duration::from_secs(6)).await;
    let both = vec!["10.0.0.9".to_owned(), "10.0.0.10".to_owned()];
    assert_eq!(addresses(&scene), Ok(both.clone()));
    // A rollout takes less than what is waited for.
    put_proxy(&scene, "2", "b", "False");
    settle().await;
    put_proxy(&scene, "2", "b", "True");
    sleep(Duration::from_mins(1)).await;
    assert_eq!(addresses(&scene), Ok(both));
    scene.server.remove("/api/v1/namespaces/infra/pods/2");
    sleep(Duration::from_secs(11)).await;
    assert_eq!(addresses(&scene), Ok(vec!["10.0.0.10".into()]));
    // Without any proxy, names keep leading to the node, as long as it exists.
    scene.server.remove("/api/v1/namespaces/infra/pods/1");
    sleep(Duration::from_mins(1)).await;
    assert_eq!(addresses(&scene), Ok(vec!["10.0.0.10".into()]));
    scene.server.remove("/api/v1/nodes/a");
    scene.want_with(&json!({"service": {"type": "NodePort"}, "addresses": {"type": "InternalIP"}}));
    settle().await;
    assert!(addresses(&scene).is_err());
}

#[tokio::test(start_paused = true)]
async fn another_replica_has_the_addresses_that_the_leader_decided() {
    let scene = reading_nodes(&json!({"addresses": {"from": "Nodes"}})).await;
    put_node(&scene, "a", "10.0.0.1");
    put_proxy(&scene, "1", "a", "True");
    settle().await;
    assert_eq!(addresses(&scene), Ok(vec!["10.0.0.1".into()]));
    let config_map = scene.server.get(CONFIG_MAP).expect("a ConfigMap");
    let annotation = &config_map["metadata"]["annotations"]["gateway-system.io/addresses"];
    assert_eq!(annotation, r#"{"from":"Nodes"}"#);
    scene.election.set(false);
    settle().await;
    put_node(&scene, "a", "10.0.0.2");
    sleep(Duration::from_secs(11)).await;
    assert_eq!(addresses(&scene), Ok(vec!["10.0.0.2".into()]));
}

#[tokio::test(start_paused = true)]
async fn a_gateway_without_a_service_has_none_and_loses_that_which_it_had() {
    let scene = Scene::begin().await;
    assert!(scene.server.get(SERVICE).is_some());
    scene.want_with(&json!({"service": {"type": "None"}}));
    settle().await;
    assert!(scene.server.get(SERVICE).is_none());
    let metrics = "/api/v1/namespaces/infra/services/edge-metrics";
    assert!(scene.server.get(metrics).is_some());
    assert_eq!(addresses(&scene), Err(NoAddress::Unneeded));
    assert_eq!(scene.outputs.service_ports.get(&edge()), None);
    scene.want_with(&json!({"service": {"type": "ClusterIP"}}));
    settle().await;
    assert!(scene.server.get(SERVICE).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_is_named() {
    let scene = Scene::with(&[]);
    scene.want_with(&json!({"service": {"type": "NodePort"}}));
    settle().await;
    let Err(NoAddress::Unreadable(why)) = addresses(&scene) else {
        panic!("{:?}", addresses(&scene))
    };
    assert!(why.contains("`nodeAddresses.enabled`"), "{why}");
    let scene = Scene::reading(NodeReading::Enabled, Outputs::default(), &[]);
    scene.server.forbid("/api/v1/nodes");
    scene.want_with(&json!({"service": {"type": "NodePort"}}));
    settle().await;
    let Err(NoAddress::Unreadable(why)) = addresses(&scene) else {
        panic!("{:?}", addresses(&scene))
    };
    assert!(why.contains("list nodes"), "{why}");
}
