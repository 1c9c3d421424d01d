//! Each protocol from a client through a gateway pod to a backend pod.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures_lite::future::poll_fn;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UdpSocket;

use super::manifests::{
    EchoProtocol, GatewayPod, config_map, echo, gateway, listener, on_node, route, service,
};
use super::scope::{Scope, Stream, address};

/// Port 80 of a gateway is routed to an echo backend of this kind.
struct Path {
    speech: EchoProtocol,
    protocol: &'static str,
    route: &'static str,
    port: Value,
}

impl Path {
    async fn open(&self, scope: &Scope) -> Result<Pod> {
        self.open_between(scope, None).await
    }

    /// The gateway on the first node, the backend on the second.
    pub(super) async fn open_between(
        &self,
        scope: &Scope,
        nodes: Option<[&str; 2]>,
    ) -> Result<Pod> {
        let mut backend = echo(&scope.images, "echo", self.speech);
        let mut front = GatewayPod::named(&scope.images, "gateway").object();
        if let Some([first, second]) = nodes {
            front = on_node(front, first);
            backend = on_node(backend, second);
        }
        scope.apply(&[backend]).await?;
        let backend = scope.ready("echo").await?;
        let mut objects = vec![
            gateway(&[listener(80, self.protocol)]),
            route(self.route, 80, "echo"),
        ];
        objects.extend(service("echo", &backend, &self.port)?);
        scope.apply(&[config_map(&objects), front]).await?;
        scope.ready("gateway").await
    }
}

pub(super) async fn h2c_reaches_a_backend(scope: &Scope) -> Result<()> {
    let path = Path {
        speech: EchoProtocol::Http,
        protocol: "HTTP",
        route: "HTTPRoute",
        port: json!({"port": 3001, "appProtocol": "kubernetes.io/h2c"}),
    };
    let pod = path.open(scope).await?;
    let request = http::Request::get("http://shop.example.com/cart").body(())?;
    let answer = request_over_http2(scope.connect(&pod, 80).await?, request, Bytes::new()).await?;
    let body: Value = serde_json::from_slice(&answer.body)?;
    ensure!(
        body["proto"] == "HTTP/2.0",
        "the backend got the request over {}",
        body["proto"]
    );
    Ok(())
}

pub(super) async fn grpc_reaches_a_backend(scope: &Scope) -> Result<()> {
    let path = Path {
        speech: EchoProtocol::Grpc,
        protocol: "HTTP",
        route: "GRPCRoute",
        port: json!({"port": 3000, "appProtocol": "kubernetes.io/h2c"}),
    };
    let pod = path.open(scope).await?;
    let method =
        "http://shop.example.com/gateway_api_conformance.echo_basic.grpcecho.GrpcEcho/Echo";
    let request = http::Request::post(method)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    // A gRPC message without a field: not compressed, of length 0.
    let message = Bytes::from_static(&[0; 5]);
    let answer = request_over_http2(scope.connect(&pod, 80).await?, request, message).await?;
    ensure!(
        answer.grpc_status == Some("0".to_owned()),
        "grpc-status {:?}",
        answer.grpc_status
    );
    ensure!(
        answer.body.len() > 5,
        "the answer has no message: {:?}",
        answer.body
    );
    Ok(())
}

/// The response to a request over HTTP/2.
struct Http2Response {
    body: Vec<u8>,
    grpc_status: Option<String>,
}

async fn request_over_http2(
    stream: Box<dyn Stream>,
    request: http::Request<()>,
    body: Bytes,
) -> Result<Http2Response> {
    let (client, connection) = h2::client::handshake(stream).await?;
    tokio::spawn(async move {
        // An error shows in the request that it breaks.
        let _ = connection.await;
    });
    let mut client = client.ready().await?;
    let (answer, mut sender) = client.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        sender.send_data(body, true)?;
    }
    let (head, mut receiver) = answer.await?.into_parts();
    ensure!(head.status == http::StatusCode::OK, "{}", head.status);
    let mut bytes = Vec::new();
    while let Some(piece) = receiver.data().await {
        let piece = piece?;
        receiver.flow_control().release_capacity(piece.len())?;
        bytes.extend_from_slice(&piece);
    }
    let trailers = poll_fn(|context| receiver.poll_trailers(context))
        .await?
        .unwrap_or_default();
    let status = trailers
        .get("grpc-status")
        .and_then(|value| value.to_str().ok());
    Ok(Http2Response {
        body: bytes,
        grpc_status: status.map(str::to_owned),
    })
}

pub(super) async fn websocket_reaches_a_backend(scope: &Scope) -> Result<()> {
    let path = Path {
        speech: EchoProtocol::Http,
        protocol: "HTTP",
        route: "HTTPRoute",
        port: json!({"port": 3000}),
    };
    let pod = path.open(scope).await?;
    let mut stream = BufReader::new(scope.connect(&pod, 80).await?);
    stream
        .write_all(
            b"GET /ws HTTP/1.1\r\nHost: shop.example.com\r\nOrigin: http://shop.example.com\r\n\
              Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
              Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==\r\n\r\n",
        )
        .await?;
    let status = read_line(&mut stream).await?;
    ensure!(status.starts_with("HTTP/1.1 101 "), "got {status}");
    while !read_line(&mut stream).await?.trim().is_empty() {}
    // A text frame, masked with zeros, which comes back without a mask.
    stream.write_all(b"\x81\x85\0\0\0\0hello").await?;
    let mut frame = [0; 7];
    stream.read_exact(&mut frame).await?;
    ensure!(&frame == b"\x81\x05hello", "got {frame:?}");
    Ok(())
}

pub(super) async fn tcp_reaches_a_backend(scope: &Scope) -> Result<()> {
    let path = Path {
        speech: EchoProtocol::Tcp,
        protocol: "TCP",
        route: "TCPRoute",
        port: json!({"port": 3000}),
    };
    let pod = path.open(scope).await?;
    let mut stream = BufReader::new(scope.connect(&pod, 80).await?);
    stream.write_all(b"PING\n").await?;
    // The backend sends a greeting first.
    while read_line(&mut stream).await?.trim() != "PONG" {}
    Ok(())
}

async fn read_line(stream: &mut BufReader<Box<dyn Stream>>) -> Result<String> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).await?;
    ensure!(read > 0, "the connection was closed");
    Ok(line)
}

pub(super) async fn udp_reaches_a_backend(scope: &Scope) -> Result<()> {
    let pod = udp_path().open(scope).await?;
    let socket = udp_client(&pod).await?;
    scope
        .until("an answer over UDP", async || {
            Ok(exchange(&socket, "hello").await?.then_some(()))
        })
        .await
}

/// From a client over UDP through a gateway on the first node to a backend on the second.
pub(super) async fn udp_across_nodes(scope: &Scope) -> Result<UdpSocket> {
    let pod = udp_path()
        .open_between(scope, Some(["node-0", "node-1"]))
        .await?;
    udp_client(&pod).await
}

fn udp_path() -> Path {
    Path {
        speech: EchoProtocol::Udp,
        protocol: "UDP",
        route: "UDPRoute",
        port: json!({"port": 8080, "protocol": "UDP"}),
    }
}

async fn udp_client(pod: &Pod) -> Result<UdpSocket> {
    let socket = UdpSocket::bind("0.0.0.0:0").await?;
    socket
        .connect(SocketAddr::new(address(pod)?.parse()?, 80))
        .await?;
    Ok(socket)
}

/// Sends a datagram, and returns whether it came back in time.
pub(super) async fn exchange(socket: &UdpSocket, text: &str) -> Result<bool> {
    socket.send(text.as_bytes()).await.context("cannot send")?;
    let mut buffer = [0; 2048];
    loop {
        let read = tokio::time::timeout(Duration::from_millis(500), socket.recv(&mut buffer)).await;
        let Ok(Ok(length)) = read else {
            return Ok(false);
        };
        let answer: Value = serde_json::from_slice(buffer.get(..length).unwrap_or_default())?;
        // The response to an earlier datagram may arrive late.
        if answer["request"] == text {
            return Ok(true);
        }
    }
}
