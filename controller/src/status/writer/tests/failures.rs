//! Writes that fail, and objects whose processing does.

use super::*;

#[tokio::test(start_paused = true)]
async fn throttling_reduces_concurrent_writes_without_losing_any() {
    let scene = Scene::now();
    scene.server.fail([Fault::Refused(429, 2); 3]);
    for count in 0..50 {
        scene.route(&count.to_string());
        scene.want(&count.to_string(), "one");
    }
    seconds(30).await;
    for count in 0..50 {
        assert_eq!(scene.parents(&count.to_string()), [ours("one")]);
    }
    assert_eq!(scene.server.faults_left(), 0);
    assert_eq!(scene.count(), 53);
    let writes = scene.server.writes();
    let refused = writes.iter().find(|it| it.code == 429).expect("one");
    let mut later = writes
        .iter()
        .filter(|it| it.at > refused.at + Duration::from_millis(1));
    let waited = later.next().expect("one").at - refused.at;
    assert!(waited >= Duration::from_secs(2), "after {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_applied_without_a_response_is_not_repeated() {
    let scene = Scene::now();
    scene.server.fail([Fault::AppliedWithoutAnswer]);
    scene.route("a");
    scene.want("a", "one");
    seconds(60).await;
    assert_eq!(scene.parents("a"), [ours("one")]);
    assert_eq!(scene.count(), 1, "the watch reported that it was applied");
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_retried_and_rejected_ones_are_not() {
    let scene = Scene::now();
    scene
        .server
        .fail([Fault::Refused(500, 0), Fault::Refused(503, 0)]);
    scene.route("a");
    scene.want("a", "one");
    seconds(5).await;
    assert_eq!(scene.parents("a"), [ours("one")]);
    scene.server.fail([Fault::Refused(403, 0); 4]);
    scene.want("a", "two");
    seconds(5).await;
    assert_eq!(scene.count(), 6, "three, and three that are forbidden");
    let failing = "gateway_controller_writes_failing{writer=\"status\"} ";
    let text = scene.registry.text();
    assert!(text.contains(&format!("{failing}1\n")), "{text}");
    seconds(20).await;
    assert_eq!(scene.parents("a"), [ours("two")]);
    assert_eq!(scene.count(), 8, "its intervals grew");
    let text = scene.registry.text();
    assert!(text.contains(&format!("{failing}0\n")), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_objects_that_panic_or_are_refused_do_not_delay_another() {
    let scene = Scene::now();
    scene.server.set_latency(Duration::from_millis(4));
    scene.server.refuse("/httproutes/bad-", 500);
    for count in 0..1_000 {
        for kind in ["defect", "bad"] {
            let name = format!("{kind}-{count}");
            scene.route(&name);
            scene.want(&name, "one");
        }
    }
    let path = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/good";
    let good = ObjectRef::of::<api::HttpRoute>(&ObjectName::new("shop", "good"));
    scene.server.put(path, json!({"spec": {"rules": []}}));
    let status = Arc::new(accepted("one"));
    scene.outputs.statuses.set(&good, Some(status));
    seconds(2).await;
    let route = scene.server.get(path).expect("a route");
    assert_eq!(route["status"]["parents"][0]["controllerName"], OURS);
    seconds(120).await;
    let text = scene.registry.text();
    let failing = "gateway_controller_writes_failing{writer=\"status\"} 2000\n";
    assert!(text.contains(failing), "{text}");
}
