//! The impact of a hostile peer is bounded, and no other proxy is affected.

use std::collections::BTreeMap;

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use xds::delta::{Member, Publication};
use xds::discovery::{Any, DeltaDiscoveryRequest, Refusal, Status};
use xds::model::Kind;
use xds_grpc::server::{Limits, Transport};

use crate::support::{
    Authority, Controller, SOON, ServerEvent, Stream, TIMEOUT, key, service, web, within,
};

/// Services that make a batch of several parts.
fn large() -> Publication {
    let mut publication = Publication::default();
    for content in 0..8 {
        let service = service(&content.to_string(), content, 1 << 20);
        let key = service.key.clone();
        publication
            .members
            .push((web(), key.clone(), Member::Joined));
        publication.resources.push((key, Some(service)));
    }
    publication
}

/// A proxy that needs only one small resource, so that it responds immediately.
async fn neighbour(controller: &Controller) -> Stream {
    let mut proxy = controller.stream("a/web", "a/web/neighbour").await;
    let named = DeltaDiscoveryRequest {
        resource_names_subscribe: vec!["Service/a/x".to_owned()],
        ..DeltaDiscoveryRequest::default()
    };
    proxy.request(Kind::Service, named).await;
    assert_eq!(proxy.names().await, ["x"]);
    proxy
}

/// Whether a change still reaches a proxy.
async fn is_served(controller: &Controller, proxy: &mut Stream) {
    controller.publish(&[("x", Some(77))]);
    assert_eq!(proxy.names().await, ["x"]);
}

#[tokio::test]
async fn a_proxy_that_does_not_read_is_disconnected() {
    let controller = Controller::limited(Limits {
        unresponsive: 10 * SOON,
        ..Limits::default()
    })
    .await;
    controller.publish(&[("x", Some(1))]);
    controller.published.publish(large());
    let mut neighbour = neighbour(&controller).await;
    let endpoint = controller.endpoint().initial_stream_window_size(65_535);
    let endpoint = endpoint.initial_connection_window_size(65_535);
    let channel = within(endpoint.connect()).await.expect("it listens");
    let stuck = Stream::open(channel, Some("a/web"), "a/web/stuck").await;
    let mut stuck = stuck.expect("it is served");
    stuck.subscribe(&BTreeMap::new()).await;
    controller
        .sees("stuck", |seen| matches!(seen, ServerEvent::Sent(_)))
        .await;
    is_served(&controller, &mut neighbour).await;
    let reason = controller.sees_end("stuck").await;
    assert!(reason.contains("neither read nor acknowledged"), "{reason}");
    controller.publish(&[("x", Some(78))]);
    assert_eq!(neighbour.names().await, ["x"]);
}

#[tokio::test]
async fn an_unresponsive_proxy_is_disconnected() {
    let controller = Controller::limited(Limits {
        unresponsive: SOON,
        ..Limits::default()
    })
    .await;
    controller.publish(&[("x", Some(1))]);
    let mut silent = controller.proxy("silent").await;
    silent.batch().await;
    let reason = controller.sees_end("silent").await;
    assert!(reason.contains("neither read nor acknowledged"), "{reason}");
    assert_ne!(silent.end().await.code(), Code::Ok);
    assert_eq!(
        controller
            .server
            .ack_summary(&web(), Kind::Service)
            .connected,
        0
    );
}

#[tokio::test]
async fn a_stream_without_a_request_ends() {
    let controller = Controller::limited(Limits {
        unresponsive: SOON,
        ..Limits::default()
    })
    .await;
    let mut stream = controller.stream("a/web", "a/web/p").await;
    assert_eq!(stream.end().await.code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_flood_of_nacks_ends_only_its_stream() {
    let controller = Controller::limited(Limits {
        requests: 100,
        ..Limits::default()
    })
    .await;
    controller.publish(&[("x", Some(1))]);
    let mut neighbour = neighbour(&controller).await;
    let mut flood = controller.proxy("flood").await;
    for at in 0..2_000 {
        let nack = DeltaDiscoveryRequest {
            response_nonce: at.to_string(),
            error_detail: Some(Status {
                code: 3,
                message: "no".repeat(1_000),
                details: Vec::new(),
            }),
            ..DeltaDiscoveryRequest::default()
        };
        flood.request(Kind::Service, nack).await;
    }
    assert_eq!(flood.end().await.code(), Code::ResourceExhausted);
    is_served(&controller, &mut neighbour).await;
}

#[tokio::test]
async fn a_nack_repeating_a_resource_counts_once() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1)), ("y", Some(1))]);
    let mut proxy = controller.proxy("p").await;
    let batch = proxy.batch().await;
    let full = batch.iter().find(|response| !response.resources.is_empty());
    let names = ["Service/a/x", "Service/b/secret"];
    let details = names.into_iter().cycle().take(100_000).map(|name| Any {
        type_url: "type.googleapis.com/envoy.service.discovery.v3.Refusal".to_owned(),
        value: Refusal {
            name: name.to_owned(),
            text: "no".to_owned(),
        }
        .encode_to_vec()
        .into(),
    });
    let status = Status {
        details: details.collect(),
        ..Status::default()
    };
    proxy.answer(full.expect("services"), Some(status)).await;
    let seen = controller
        .sees("p", |seen| matches!(seen, ServerEvent::Refused(_)))
        .await;
    let expected = xds::delta::Refusal {
        key: key("x"),
        text: "no".to_owned(),
    };
    assert_eq!(seen, ServerEvent::Refused(vec![expected]));
}

#[tokio::test]
async fn a_flood_of_subscriptions_ends_only_its_stream() {
    let controller = Controller::limited(Limits {
        kept_bytes: 100_000,
        ..Limits::default()
    })
    .await;
    controller.publish(&[("x", Some(1))]);
    let mut neighbour = neighbour(&controller).await;
    let mut flood = controller.stream("a/web", "a/web/flood").await;
    for request in 0..50 {
        let names = (0..100).map(|name| format!("Service/{request}/{name:0100}"));
        let subscribe = DeltaDiscoveryRequest {
            resource_names_subscribe: names.collect(),
            ..DeltaDiscoveryRequest::default()
        };
        flood.request(Kind::Service, subscribe).await;
    }
    assert_eq!(flood.end().await.code(), Code::ResourceExhausted);
    let is_it = |seen: &ServerEvent| *seen == ServerEvent::TooLarge;
    controller.sees("a/web", is_it).await;
    is_served(&controller, &mut neighbour).await;
}

#[tokio::test]
async fn a_request_of_64_megabytes_is_rejected() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1))]);
    let mut neighbour = neighbour(&controller).await;
    let mut huge = controller.stream("a/web", "a/web/huge").await;
    let request = DeltaDiscoveryRequest {
        resource_names_subscribe: vec!["x".repeat(64 << 20)],
        ..DeltaDiscoveryRequest::default()
    };
    huge.request(Kind::Service, request).await;
    assert_eq!(huge.end().await.code(), Code::OutOfRange);
    // Nothing is known of the proxy but its Gateway.
    let is_it = |seen: &ServerEvent| *seen == ServerEvent::TooLarge;
    controller.sees("a/web", is_it).await;
    is_served(&controller, &mut neighbour).await;
}

#[tokio::test]
async fn header_size_is_limited() {
    let controller = Controller::start().await;
    let token = "x".repeat(1 << 20);
    let refusal = controller.refusal(Some(&token), "a/web/p").await;
    assert_ne!(refusal.code(), Code::Ok);
    controller.publish(&[("x", Some(1))]);
    neighbour(&controller).await;
}

#[tokio::test]
async fn streams_per_proxy_are_limited() {
    let controller = Controller::limited(Limits {
        streams: 2,
        ..Limits::default()
    })
    .await;
    controller.publish(&[("x", Some(1))]);
    let (mut one, mut two) = (controller.proxy("p").await, controller.proxy("p").await);
    one.names().await;
    two.names().await;
    let third = controller.refusal(Some("a/web"), "a/web/p").await;
    assert_eq!(third.code(), Code::ResourceExhausted);
    drop(one);
    controller.sees_end("p").await;
    assert_eq!(controller.proxy("p").await.names().await, ["x"]);
}

#[tokio::test]
async fn calls_per_connection_are_limited() {
    let controller = Controller::start().await;
    let channel = controller.channel().await;
    for _ in 0..1_000 {
        let stream = Stream::open(channel.clone(), Some("a/web"), "a/web/p").await;
        if let Err(status) = stream {
            assert_eq!(status.code(), Code::ResourceExhausted);
            return;
        }
    }
    panic!("calls are not bounded");
}

#[tokio::test]
async fn a_slow_authorization_times_out() {
    let controller = Controller::limited(Limits {
        authorization: SOON,
        ..Limits::default()
    })
    .await;
    let refusal = controller.refusal(Some("silent"), "a/web/p").await;
    assert_eq!(refusal.code(), Code::Unavailable);
    assert!(
        refusal.message().contains("API server"),
        "{}",
        refusal.message()
    );
}

/// The bytes that the server sends on a connection that begins like this, until it closes it.
async fn answer(controller: &Controller, begin: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(controller.address)
        .await
        .expect("it listens");
    // It may be closed before all is written.
    let _ = socket.write_all(begin).await;
    let mut answer = Vec::new();
    let _ = within(socket.read_to_end(&mut answer)).await;
    answer
}

#[tokio::test]
async fn connections_that_send_garbage_are_closed() {
    let configs = Authority::new().configs();
    for transport in [
        Transport::Plaintext,
        Transport::Tls(configs.subscribe()),
        Transport::Either(configs.subscribe()),
    ] {
        // It is closed because of the bytes it sends, not because of a timeout.
        let limits = Limits {
            handshake: 2 * TIMEOUT,
            idle: 2 * TIMEOUT,
            ..Limits::default()
        };
        let controller = Controller::with(limits, transport).await;
        answer(&controller, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        answer(&controller, &[0xff; 100]).await;
        answer(
            &controller,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        )
        .await;
        answer(&controller, b"\x16\x03\x01\x00\x04garbage").await;
    }
}

#[tokio::test]
async fn half_open_connections_are_closed() {
    let configs = Authority::new().configs();
    for transport in [
        Transport::Plaintext,
        Transport::Tls(configs.subscribe()),
        Transport::Either(configs.subscribe()),
    ] {
        let limits = Limits {
            handshake: SOON,
            idle: SOON,
            ..Limits::default()
        };
        let controller = Controller::with(limits, transport).await;
        answer(&controller, b"").await;
        answer(&controller, b"\x16").await;
        answer(&controller, b"PRI * HTTP/2.0\r\n").await;
        answer(&controller, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    }
}
