//! A proxy receives only resources of its own Gateway, whatever its node ID and its token.

use std::collections::BTreeMap;

use tonic::Code;
use xds::discovery::DeltaDiscoveryRequest;
use xds::model::Kind;

use crate::support::{Controller, other, publication};

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
