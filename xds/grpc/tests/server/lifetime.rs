//! How streams and connections end.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::BufMut;
use prost::Message;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tonic::Code;
use xds::discovery::{DeltaDiscoveryRequest, Node};
use xds::model::Kind;
use xds_grpc::METHOD;
use xds_grpc::server::Limits;

use crate::support::{Controller, SOON, ServerEvent, versions, within};

#[tokio::test]
async fn connections_end_at_their_maximum_age_and_the_next_receives_only_changes() {
    let controller = Controller::limited(Limits {
        age: SOON,
        age_jitter: Duration::ZERO,
        ..Limits::default()
    })
    .await;
    controller.publish(&[("x", Some(1))]);
    let mut proxy = controller.proxy("p").await;
    let batch = proxy.batch().await;
    proxy.acknowledge(&batch).await;
    assert_eq!(proxy.end().await.code(), Code::Ok);
    let mut again = controller.stream("a/web", "a/web/p").await;
    again.subscribe(&versions(&batch)).await;
    assert!(again.names().await.is_empty());
}

/// As by a replica that no longer hears the API server, while another one does.
#[tokio::test]
async fn proxies_that_are_sent_away_end_after_their_batch() {
    let controller = Controller::limited(Limits {
        sent_away: SOON,
        ..Limits::default()
    })
    .await;
    controller.publish(&[("x", Some(1))]);
    let mut busy = controller.proxy("busy").await;
    let mut quiet = controller.proxy("quiet").await;
    quiet.names().await;
    let batch = busy.batch().await;
    controller.server.send_away(true);
    assert_eq!(quiet.end().await.code(), Code::Ok);
    busy.acknowledge(&batch).await;
    assert_eq!(busy.end().await.code(), Code::Ok);
    controller.server.send_away(false);
    let mut again = controller.proxy("again").await;
    assert_eq!(again.names().await, ["x"]);
}

#[tokio::test]
async fn a_closing_server_lets_streams_finish_their_batch() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1))]);
    let mut busy = controller.proxy("busy").await;
    let mut quiet = controller.proxy("quiet").await;
    quiet.names().await;
    let batch = busy.batch().await;
    controller.server.close();
    assert_eq!(quiet.end().await.code(), Code::Ok);
    busy.acknowledge(&batch).await;
    assert_eq!(busy.end().await.code(), Code::Ok);
    for _ in &batch {
        controller
            .sees("busy", |seen| *seen == ServerEvent::Accepted)
            .await;
    }
    within(controller.serving).await.expect("no panic");
    let refused = TcpStream::connect(controller.address).await;
    assert!(refused.is_err(), "nothing listens");
}

#[tokio::test]
async fn a_vanished_proxy_is_detected() {
    let controller = Controller::limited(Limits {
        keepalive: SOON,
        keepalive_timeout: SOON,
        ..Limits::default()
    })
    .await;
    let (freeze, frozen) = oneshot::channel();
    let socket = TcpStream::connect(controller.address)
        .await
        .expect("it listens");
    let (client, connection) = h2::client::handshake(socket).await.expect("HTTP/2");
    // The connection stays open, and pings are not acknowledged.
    tokio::spawn(async move {
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            _ = &mut connection => {}
            _ = frozen => std::future::pending().await,
        }
    });
    let request = http::Request::post(format!("http://{}{METHOD}", controller.address))
        .header("authorization", "Bearer a/web")
        .header("content-type", "application/grpc");
    let request = request.body(()).expect("a request");
    let mut client = within(client.ready()).await.expect("a stream");
    let (_response, mut body) = client.send_request(request, false).expect("it is sent");
    let message = DeltaDiscoveryRequest {
        node: Some(Node {
            id: "a/web/gone".to_owned(),
            ..Node::default()
        }),
        type_url: Kind::Service.type_url().to_owned(),
        ..DeltaDiscoveryRequest::default()
    };
    let mut framed = vec![0];
    framed.put_u32(u32::try_from(message.encoded_len()).expect("it is short"));
    framed.put_slice(&message.encode_to_vec());
    body.send_data(framed.into(), false).expect("it is sent");
    controller
        .sees("gone", |seen| *seen == ServerEvent::Connected)
        .await;
    freeze.send(()).expect("the connection is there");
    controller.sees_end("gone").await;
}

#[tokio::test]
async fn a_client_that_ends_its_requests_ends_the_stream() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1))]);
    let mut proxy = controller.proxy("p").await;
    proxy.names().await;
    drop(proxy);
    assert_eq!(controller.sees_end("p").await, "the proxy closed it");
    let mut next = controller.stream("a/web", "a/web/q").await;
    next.subscribe(&BTreeMap::new()).await;
    assert_eq!(next.names().await, ["x"]);
    assert_eq!(controller.server.connected().len(), 1);
}
