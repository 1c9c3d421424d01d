//! Mistakes that implementations of delta xDS have made, over the wire.

use std::collections::{BTreeMap, BTreeSet};

use xds::delta::Refusal;
use xds::discovery::{DeltaDiscoveryRequest, Status};
use xds::model::Kind;

use crate::support::{Controller, ServerEvent, key, other, publication, service, versions, web};

#[tokio::test]
async fn a_new_proxy_receives_everything_in_one_batch() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1)), ("y", Some(1))]);
    let mut proxy = controller.proxy("p").await;
    let batch = proxy.batch().await;
    let kinds: BTreeSet<&str> = batch.iter().map(|it| it.type_url.as_str()).collect();
    assert_eq!(kinds.len(), Kind::ALL.len(), "also types without resources");
    assert_eq!(crate::support::names(&batch), ["x", "y"]);
    let resources = batch.iter().flat_map(|response| &response.resources);
    for resource in resources {
        let name = resource.name.rsplit('/').next().expect("a name");
        let expected = service(name, 1, 0);
        assert_eq!(resource.version, expected.version.to_string());
        let content = resource.resource.as_ref().expect("a content");
        assert_eq!(content.value, expected.bytes);
    }
}

#[tokio::test]
async fn streams_wait_for_the_first_publication() {
    let controller = Controller::start().await;
    let mut full = controller.proxy("full").await;
    let mut empty = controller.stream("b/other", "b/other/empty").await;
    empty.subscribe(&BTreeMap::new()).await;
    controller
        .sees("empty", |seen| *seen == ServerEvent::Connected)
        .await;
    controller.publish(&[("x", Some(1))]);
    assert_eq!(full.names().await, ["x"]);
    let batch = empty.batch().await;
    assert_eq!(
        batch.len(),
        Kind::ALL.len(),
        "it learns that it has everything"
    );
    assert!(crate::support::names(&batch).is_empty());
}

#[tokio::test]
async fn a_reconnecting_proxy_receives_only_changes_and_removals() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1)), ("y", Some(1)), ("z", Some(1))]);
    let mut proxy = controller.proxy("p").await;
    let batch = proxy.batch().await;
    proxy.acknowledge(&batch).await;
    drop(proxy);
    controller.sees_end("p").await;
    controller.publish(&[("x", Some(2)), ("y", None)]);
    let mut again = controller.stream("a/web", "a/web/p").await;
    again.subscribe(&versions(&batch)).await;
    assert_eq!(again.names().await, ["-y", "x"]);
}

#[tokio::test]
async fn another_replica_does_not_resend_known_resources() {
    let (one, two) = (Controller::start().await, Controller::start().await);
    two.publish(&[("w", Some(7))]);
    for replica in [&one, &two] {
        replica.publish(&[("w", None), ("x", Some(1)), ("y", Some(1))]);
    }
    let mut proxy = one.proxy("p").await;
    let batch = proxy.batch().await;
    let mut moved = two.stream("a/web", "a/web/p").await;
    moved.subscribe(&versions(&batch)).await;
    assert!(moved.names().await.is_empty());
}

#[tokio::test]
async fn changes_during_a_batch_are_sent_as_one_later_batch() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1))]);
    let mut proxy = controller.proxy("p").await;
    let first = proxy.batch().await;
    for content in 2..50 {
        controller.publish(&[("x", Some(content)), ("y", Some(content))]);
    }
    proxy.acknowledge(&first).await;
    let second = proxy.batch().await;
    let expected = [("x", 49), ("y", 49)].map(|(name, content)| {
        let service = service(name, content, 0);
        (service.key.key.to_string(), service.version.to_string())
    });
    assert_eq!(versions(&second), expected.into_iter().collect());
}

#[tokio::test]
async fn a_request_with_a_stale_nonce_changes_only_the_subscription() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1))]);
    let mut proxy = controller.proxy("p").await;
    let first = proxy.batch().await;
    proxy.acknowledge(&first).await;
    controller.publish(&[("x", Some(2))]);
    let second = proxy.batch().await;
    controller.publish(&[("x", Some(3))]);
    let stale = DeltaDiscoveryRequest {
        response_nonce: first[0].nonce.clone(),
        resource_names_subscribe: vec!["Service/a/absent".to_owned()],
        ..DeltaDiscoveryRequest::default()
    };
    proxy.request(Kind::Service, stale).await;
    assert_eq!(controller.accepted("x"), 0);
    proxy.acknowledge(&second).await;
    assert_eq!(proxy.names().await, ["-absent", "x"]);
}

#[tokio::test]
async fn nonces_of_two_streams_differ() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1))]);
    let mut nonces = BTreeSet::new();
    let mut count = 0;
    for name in ["p", "q"] {
        for response in controller.proxy(name).await.batch().await {
            count += 1;
            nonces.insert(response.nonce);
        }
    }
    assert_eq!(nonces.len(), count);
}

#[tokio::test]
async fn a_rejected_resource_is_reported_and_resent_only_when_it_changes() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1)), ("y", Some(1))]);
    let mut proxy = controller.proxy("p").await;
    for response in proxy.batch().await {
        let has_some = !response.resources.is_empty();
        let status = has_some.then(|| refusal("Service/a/x", "no such port"));
        proxy.answer(&response, status).await;
    }
    let expected = Refusal {
        key: key("x"),
        text: "no such port".to_owned(),
    };
    let seen = controller
        .sees("p", |seen| matches!(seen, ServerEvent::Refused(_)))
        .await;
    assert_eq!(seen, ServerEvent::Refused(vec![expected]));
    controller.publish(&[("y", Some(2))]);
    assert_eq!(proxy.names().await, ["y"]);
    let ack_summary = controller.server.ack_summary(&web(), Kind::Service);
    assert_eq!(ack_summary.connected, 1);
    assert!(!ack_summary.accepted.contains_key(&key("x")));
    let (version, why) = &ack_summary.refused[&key("x")];
    let current = controller.published.views().version(&web(), &key("x"));
    assert_eq!((Some(*version), &**why), (current, "no such port"));
    assert_eq!(ack_summary.refused.len(), 1);
    let applied_by = |name| controller.server.applied_by(&web(), &key(name));
    assert_eq!(applied_by("x").map(|(_, count)| count), Some(0));
    assert_eq!(applied_by("unknown"), None);
    controller.publish(&[("x", Some(2))]);
    assert_eq!(proxy.names().await, ["x"]);
    controller.publish(&[("z", Some(1))]);
    proxy.names().await;
    let ack_summary = controller.server.ack_summary(&web(), Kind::Service);
    assert!(ack_summary.refused.is_empty());
    assert_eq!((controller.accepted("x"), controller.accepted("y")), (1, 1));
    let current = controller.published.views().version(&web(), &key("x"));
    assert_eq!(applied_by("x"), current.map(|version| (version, 1)));
}

fn refusal(name: &str, text: &str) -> Status {
    let refusal = xds::discovery::Refusal {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let detail = xds::discovery::Any {
        type_url: "type.googleapis.com/envoy.service.discovery.v3.Refusal".to_owned(),
        value: prost::Message::encode_to_vec(&refusal).into(),
    };
    Status {
        code: 3,
        message: text.to_owned(),
        details: vec![detail],
    }
}

#[tokio::test]
async fn an_unknown_type_is_answered_empty_and_the_stream_continues() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1))]);
    let mut proxy = controller.stream("a/web", "a/web/p").await;
    let request = |nonce: &str| DeltaDiscoveryRequest {
        type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned(),
        response_nonce: nonce.to_owned(),
        ..DeltaDiscoveryRequest::default()
    };
    proxy.send(request("")).await;
    // A proxy of a later version waits for it.
    let answer = proxy.response().await;
    assert_eq!(answer.type_url, request("").type_url);
    assert!(answer.resources.is_empty() && !answer.nonce.is_empty());
    proxy.send(request(&answer.nonce)).await;
    proxy.subscribe(&BTreeMap::new()).await;
    assert_eq!(proxy.names().await, ["x"]);
}

#[tokio::test]
async fn a_subscription_to_one_name_is_answered() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1)), ("y", Some(1))]);
    let mut proxy = controller.stream("a/web", "a/web/p").await;
    let named = DeltaDiscoveryRequest {
        resource_names_subscribe: vec!["Service/a/x".to_owned()],
        ..DeltaDiscoveryRequest::default()
    };
    proxy.request(Kind::Service, named).await;
    assert_eq!(proxy.names().await, ["x"]);
    controller.publish(&[("y", Some(2))]);
    controller.publish(&[("x", None)]);
    assert_eq!(proxy.names().await, ["-x"]);
}

#[tokio::test]
async fn a_proxy_is_counted_once_by_its_latest_stream() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1))]);
    let mut first = controller.proxy("p").await;
    first.names().await;
    let mut second = controller.proxy("p").await;
    let batch = second.batch().await;
    let ack_summary = controller.server.ack_summary(&web(), Kind::Service);
    assert_eq!((ack_summary.connected, ack_summary.accepted.len()), (1, 0));
    second.acknowledge(&batch).await;
    for _ in &batch {
        controller
            .sees("p", |seen| *seen == ServerEvent::Accepted)
            .await;
    }
    controller.publish(&[("y", Some(1))]);
    second.names().await;
    assert_eq!(controller.accepted("x"), 1);
    assert_eq!(controller.server.connected().len(), 2);
}

#[tokio::test]
async fn proxies_in_different_states_are_counted_by_what_they_have_applied() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1)), ("y", Some(1))]);
    let mut proxies = Vec::new();
    for name in ["p", "q", "r", "s", "former"] {
        let mut proxy = controller.stream("a/web", &format!("a/web/{name}")).await;
        if name != "former" {
            proxy.states_all_features();
        }
        proxy.subscribe(&BTreeMap::new()).await;
        let batch = proxy.batch().await;
        proxies.push((name, proxy, batch));
    }
    // One has not answered, and one rejects a resource.
    for (name, proxy, batch) in &mut proxies {
        for response in batch.iter().filter(|_| *name != "q") {
            let rejects = *name == "r" && !response.resources.is_empty();
            let status = rejects.then(|| refusal("Service/a/x", "no such port"));
            proxy.answer(response, status).await;
            let answered = |seen: &ServerEvent| {
                matches!(seen, ServerEvent::Accepted | ServerEvent::Refused(_))
            };
            controller.sees(name, answered).await;
        }
    }
    let accepted = |name| controller.accepted(name);
    assert_eq!((accepted("x"), accepted("y")), (3, 4));
    // Another version of one, which nobody has been sent.
    controller.publish(&[("y", Some(2))]);
    assert_eq!((accepted("x"), accepted("y")), (3, 0));
    let summary = controller.server.ack_summary(&web(), Kind::Service);
    assert_eq!((summary.connected, summary.refused.len()), (5, 1));
}

#[tokio::test]
async fn changes_of_another_gateway_wake_no_stream() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1))]);
    let mut proxy = controller.proxy("p").await;
    proxy.names().await;
    for content in 1..20 {
        let services = [("hidden", Some(content))];
        controller
            .published
            .publish(publication(&other(), &services));
    }
    controller.publish(&[("x", Some(2))]);
    assert_eq!(proxy.names().await, ["x"]);
    assert_eq!(controller.batches(), 2);
}
