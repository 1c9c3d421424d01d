//! A proxy receives only resources of its own Gateway, whatever its node ID and its token.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tonic::Code;
use xds::delta::{Encoded, Fact, Member, Publication, Symptom};
use xds::discovery::DeltaDiscoveryRequest;
use xds::model::{
    Kind, ObjectName, Policy, PolicyKey, PolicySpec, PolicyTarget, Resource, ResourceKey,
};

use crate::support::{Controller, ServerEvent, other, publication, web};

async fn controller() -> Controller {
    let controller = Controller::start().await;
    controller.publish(&[("own", Some(1))]);
    let secret = [("secret", Some(1))];
    controller.published.publish(publication(&other(), &secret));
    controller
}

#[tokio::test]
async fn names_of_another_gateway_appear_not_to_exist() {
    let controller = controller().await;
    let mut proxy = controller.stream("a/web", "a/web/p").await;
    let names = ["Service/a/own", "Service/a/secret", "Service/a/absent"];
    let named = DeltaDiscoveryRequest {
        resource_names_subscribe: names.map(str::to_owned).into(),
        ..DeltaDiscoveryRequest::default()
    };
    proxy.request(Kind::Service, named).await;
    assert_eq!(proxy.names().await, ["-absent", "-secret", "own"]);
    // A known version reveals no resource of another Gateway either.
    let mut again = controller.stream("a/web", "a/web/q").await;
    let version = crate::support::service("secret", 1, 0).version.to_string();
    let held = BTreeMap::from([("Service/a/secret".to_owned(), version)]);
    again.subscribe(&held).await;
    assert_eq!(again.names().await, ["-secret", "own"]);
}

#[tokio::test]
async fn changes_of_another_gateway_are_not_sent() {
    let controller = controller().await;
    let mut proxy = controller.proxy("p").await;
    assert_eq!(proxy.names().await, ["own"]);
    let changes = [("secret", Some(2)), ("later", Some(1))];
    controller
        .published
        .publish(publication(&other(), &changes));
    controller.publish(&[("own", Some(2))]);
    assert_eq!(proxy.names().await, ["own"]);
}

#[tokio::test]
async fn a_token_of_another_gateway_is_denied() {
    let controller = controller().await;
    let with_others_token = controller.refusal(Some("b/other"), "a/web/p").await;
    assert_eq!(with_others_token.code(), Code::PermissionDenied);
    let message = with_others_token.message();
    assert!(
        message.contains("service account of its own Gateway"),
        "{message}"
    );
    let with_others_name = controller.refusal(Some("a/web"), "b/other/p").await;
    assert_eq!(with_others_name.code(), Code::PermissionDenied);
    assert!(controller.server.connected().is_empty());
}

#[tokio::test]
async fn a_token_that_is_bound_to_another_pod_is_denied() {
    let controller = controller().await;
    let stolen = controller
        .refusal(Some("a/web/victim"), "a/web/thief")
        .await;
    assert_eq!(stolen.code(), Code::PermissionDenied);
    assert!(stolen.message().contains("each pod's own token"));
    let mut own = controller.stream("a/web/victim", "a/web/victim").await;
    own.subscribe(&BTreeMap::new()).await;
    assert_eq!(own.names().await, ["own"]);
}

#[tokio::test]
async fn requests_without_a_valid_token_are_denied() {
    let controller = controller().await;
    let missing = controller.refusal(None, "a/web/p").await;
    assert_eq!(missing.code(), Code::Unauthenticated);
    assert!(missing.message().contains("--xds-token"));
    let expired = controller.refusal(Some("expired"), "a/web/p").await;
    assert_eq!(expired.code(), Code::Unauthenticated);
    let stranger = controller.refusal(Some("stranger"), "a/web/p").await;
    assert_eq!(stranger.code(), Code::PermissionDenied);
    let nameless = controller.refusal(Some("a/web"), "p").await;
    assert_eq!(nameless.code(), Code::InvalidArgument);
    assert!(nameless.message().contains("<namespace>/<gateway>/<proxy>"));
}

/// Otherwise a proxy could write into the statuses of objects that its Gateway does not use.
#[tokio::test]
async fn what_a_proxy_tells_of_resources_of_another_gateway_is_ignored() {
    let controller = Controller::start().await;
    let policies = |gateway: ObjectName, policy: &str| Publication {
        resources: vec![(policy_key(policy), Some(self::policy(policy)))],
        members: vec![(gateway, policy_key(policy), Member::Joined)],
    };
    controller.published.publish(policies(web(), "own"));
    controller.published.publish(policies(other(), "foreign"));
    let mut proxy = controller.proxy("p").await;
    let told = |policies: &[&str]| {
        let now = Instant::now();
        let symptoms = policies.iter().map(|policy| Symptom {
            key: policy_key(policy),
            fact: Fact::KeysNotFetched,
            since: now,
            text: "status 500".to_owned(),
        });
        Symptom::request(&symptoms.collect::<Vec<_>>(), now)
    };
    let is_told = |seen: &ServerEvent| *seen == ServerEvent::Symptoms;
    proxy.send(told(&["own", "foreign", "absent"])).await;
    controller.sees("p", is_told).await;
    let seen = |gateway: &ObjectName| {
        let summary = controller.server.ack_summary(gateway, Kind::Listener);
        let symptoms = summary.symptoms.into_iter();
        symptoms
            .map(|((key, _), seen)| (key, seen.proxies))
            .collect::<Vec<_>>()
    };
    assert_eq!(seen(&web()), [(policy_key("own"), 1)]);
    assert_eq!(seen(&other()), []);

    let mut second = controller.proxy("q").await;
    second.send(told(&["own"])).await;
    controller.sees("q", is_told).await;
    assert_eq!(seen(&web()), [(policy_key("own"), 2)]);
    // The list replaces the one before.
    second.send(told(&[])).await;
    controller.sees("q", is_told).await;
    proxy.send(told(&[])).await;
    controller.sees("p", is_told).await;
    assert_eq!(seen(&web()), []);
}

fn policy_key(name: &str) -> ResourceKey {
    ResourceKey {
        kind: Kind::Policy,
        key: format!("TrafficPolicy/a/{name}/Gateway/a/web").into(),
    }
}

fn policy(name: &str) -> Arc<Encoded> {
    let target = "Gateway/a/web";
    Arc::new(Encoded::new(&Resource::from(Policy {
        key: PolicyKey::new("TrafficPolicy", &ObjectName::new("a", name), target),
        target: PolicyTarget::Gateway(web()),
        spec: PolicySpec::default(),
    })))
}
