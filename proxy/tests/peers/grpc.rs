//! gRPC between tonic and tonic, through the gateway: calls of every kind, and how they end.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::grpc_server::{GrpcServer, Raw};
use crate::support::pki::{Authority, Credential, authority};
use crate::support::{Driver, Gateway, gateway, on_both_drivers};

on_both_drivers! {
    fn metadata_of_a_unary_call_is_forwarded_both_ways(driver) {
        for mut scene in scenes(driver) {
            let mut request = Request::new(Bytes::from_static(b"hello"));
            request.metadata_mut().insert("x-there", "a word".parse().expect("text"));
            request.metadata_mut().insert_bin("x-there-bin", tonic::metadata::BinaryMetadataValue::from_bytes(b"\0\xff"));
            let answer = scene.caller.unary("Unary", request).expect("an answer");
            assert_eq!(&answer.get_ref()[..], b"hello");
            let metadata = answer.metadata();
            assert_eq!(metadata.get("x-there").expect("sent back"), "a word");
            let binary = metadata.get_bin("x-there-bin").expect("sent back");
            assert_eq!(binary.to_bytes().expect("base64"), &b"\0\xff"[..]);
        }
    }

    fn a_failure_keeps_its_code_message_and_metadata(driver) {
        for mut scene in scenes(driver) {
            let status = scene.caller.unary("Fail", Request::new(Bytes::new())).expect_err("it fails");
            assert_eq!(status.code(), Code::FailedPrecondition);
            assert_eq!(status.message(), "not so: 100 % \u{fc}ber");
            assert_eq!(status.metadata().get("x-why").expect("metadata"), "because");
            assert_eq!(status.details(), b"details");
        }
    }

    fn an_unknown_method_is_unimplemented(driver) {
        for mut scene in scenes(driver) {
            let status = scene.caller.unary("Nothing", Request::new(Bytes::new())).expect_err("no such method");
            assert_eq!(status.code(), Code::Unimplemented);
        }
    }

    fn messages_of_several_megabytes_are_forwarded(driver) {
        for mut scene in scenes(driver) {
            let message = Bytes::from(crate::support::pattern(1_500_000));
            let answer = scene.caller.unary("Unary", Request::new(message.clone())).expect("an answer");
            crate::support::same_bytes(answer.get_ref(), &message);
        }
    }

    fn server_streaming_is_forwarded(driver) {
        for mut scene in scenes(driver) {
            let answers = scene.caller.run(async |client| {
                let request = Request::new(Bytes::from_static(b"500"));
                let answer = client.server_streaming(request, path("Down"), Raw).await?;
                all(answer.into_inner()).await
            });
            let expected: Vec<Bytes> = (0..500).map(numbered).collect();
            assert_eq!(answers.expect("all of them"), expected);
        }
    }

    fn client_streaming_is_forwarded(driver) {
        for mut scene in scenes(driver) {
            let answer = scene.caller.run(async |client| {
                let messages = tokio_stream::iter((0..500).map(numbered));
                client.client_streaming(Request::new(messages), path("Up"), Raw).await
            });
            let expected: Vec<u8> = (0..500).flat_map(numbered).collect();
            assert_eq!(&answer.expect("an answer").get_ref()[..], expected);
        }
    }

    fn bidirectional_streaming_is_not_buffered(driver) {
        for mut scene in scenes(driver) {
            let result = scene.caller.run(async |client| {
                let (sender, messages) = mpsc::channel(1);
                let request = Request::new(ReceiverStream::new(messages));
                let mut answers = client.streaming(request, path("Both"), Raw).await?.into_inner();
                for number in 0..50 {
                    // Each message is sent after the previous one was echoed, so neither side is
                    // ahead.
                    sender.send(numbered(number)).await.expect("it listens");
                    assert_eq!(answers.message().await?, Some(numbered(number)));
                }
                drop(sender);
                answers.message().await
            });
            assert_eq!(result.expect("an end in order"), None);
        }
    }

    fn an_error_status_after_messages_is_forwarded(driver) {
        for mut scene in scenes(driver) {
            let result = scene.caller.run(async |client| {
                let request = Request::new(Bytes::from_static(b"3"));
                let answer = client.server_streaming(request, path("DownAndFail"), Raw).await?;
                let mut answers = answer.into_inner();
                for number in 0..3 {
                    assert_eq!(answers.message().await?, Some(numbered(number)));
                }
                answers.message().await
            });
            let status = result.expect_err("it fails");
            assert_eq!((status.code(), status.message()), (Code::DataLoss, "that was all"));
        }
    }

    fn a_deadline_ends_the_call_on_both_sides(driver) {
        for mut scene in scenes(driver) {
            let mut request = Request::new(Bytes::new());
            request.set_timeout(Duration::from_millis(300));
            let status = scene.caller.unary("Wait", request).expect_err("nobody answers");
            // Client, gateway and server all enforce the deadline, and each reports it in its own
            // words.
            let codes = [Code::DeadlineExceeded, Code::Cancelled];
            assert!(codes.contains(&status.code()), "{status:?}");
            scene.server.waits_for_cancellation(1);
        }
    }

    fn a_call_cancelled_by_its_client_is_cancelled_at_the_server(driver) {
        for mut scene in scenes(driver) {
            scene.caller.run(async |client| {
                let request = Request::new(Bytes::from_static(b"wait"));
                let answer = client.server_streaming(request, path("SayAndWait"), Raw).await?;
                let mut answers = answer.into_inner();
                assert_eq!(answers.message().await?, Some(Bytes::from_static(b"wait")));
                drop(answers);
                // Another call shows that only this one has ended.
                ready(client).await?;
                client.unary(Request::new(Bytes::new()), path("Unary"), Raw).await
            }).expect("an answer");
            scene.server.waits_for_cancellation(1);
        }
    }

    fn a_hundred_calls_share_a_channel(driver) {
        for mut scene in scenes(driver) {
            scene.caller.run(async |client| {
                let mut calls = tokio::task::JoinSet::new();
                for number in 0..100 {
                    let mut client = client.clone();
                    calls.spawn(async move {
                        ready(&mut client).await?;
                        let request = Request::new(numbered(number));
                        let answer = client.unary(request, path("Unary"), Raw).await;
                        answer.map(|answer| assert_eq!(answer.into_inner(), numbered(number)))
                    });
                }
                while let Some(ended) = calls.join_next().await {
                    ended.expect("no panic")?;
                }
                Ok(())
            }).expect("all are answered");
        }
    }

    fn a_closed_server_is_unavailable(driver) {
        for mut scene in scenes(driver) {
            scene.caller.unary("Unary", Request::new(Bytes::new())).expect("an answer");
            scene.server.stop();
            let status = scene.caller.unary("Unary", Request::new(Bytes::new())).expect_err("it is gone");
            assert_eq!(status.code(), Code::Unavailable);
        }
    }
}

/// A client, the gateway, and a server.
struct Scene {
    server: GrpcServer,
    caller: Caller,
    _gateway: Gateway,
}

/// Once in plain text and once over TLS on both sides.
fn scenes(driver: Driver) -> impl Iterator<Item = Scene> {
    [scene_in_the_clear, scene_by_tls]
        .into_iter()
        .map(move |scene| scene(driver))
}

fn scene_in_the_clear(driver: Driver) -> Scene {
    let server = GrpcServer::start(None);
    let gateway = gateway(driver)
        .backend("server", &[server.address()])
        .speaks("server", "H2C")
        .rule("{backendRefs: [{@server}]}")
        .start();
    let address = gateway.address();
    Scene::new(server, gateway, &endpoint("http", address))
}

fn scene_by_tls(driver: Driver) -> Scene {
    let ca = authority("ca");
    let server = GrpcServer::start(Some(&ca.server(&["backend.test"])));
    let trust = "caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]";
    let gateway = gateway(driver)
        .https("https", None, &[&shown(&ca)])
        .authority("ca", &ca)
        .backend("server", &[server.address()])
        .speaks("server", "H2C")
        .backend_tls("server", &format!("hostname: backend.test, {trust}"))
        .rule_of("https", "{backendRefs: [{@server}]}")
        .start();
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(ca.pem()))
        .domain_name("a.test");
    let endpoint = endpoint("https", gateway.https_address()).tls_config(tls);
    Scene::new(server, gateway, &endpoint.expect("a valid configuration"))
}

fn shown(ca: &Authority) -> Credential {
    ca.server(&["a.test"])
}

/// Where a client connects to.
pub(crate) fn endpoint(scheme: &str, address: SocketAddr) -> Endpoint {
    Endpoint::try_from(format!("{scheme}://{address}")).expect("an address")
}

impl Scene {
    fn new(server: GrpcServer, gateway: Gateway, endpoint: &Endpoint) -> Self {
        Self {
            server,
            caller: Caller::of(endpoint),
            _gateway: gateway,
        }
    }
}

/// A client, with a runtime of its own.
pub(crate) struct Caller {
    client: Grpc<Channel>,
    runtime: Runtime,
}

impl Caller {
    /// Connects to an endpoint.
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let channel = runtime.block_on(endpoint.connect()).expect("a connection");
        let client = Grpc::new(channel).max_decoding_message_size(MESSAGE_BYTES);
        Self { client, runtime }
    }

    /// Runs a client function once the client is ready.
    fn run<T>(
        &mut self,
        does: impl AsyncFnOnce(&mut Grpc<Channel>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let client = &mut self.client;
        self.runtime.block_on(async {
            ready(client).await?;
            does(client).await
        })
    }

    /// Calls a method of the server's service.
    pub(crate) fn unary(
        &mut self,
        method: &str,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Status> {
        self.run(async |client| client.unary(request, path(method), Raw).await)
    }
}

/// A call may begin.
async fn ready(client: &mut Grpc<Channel>) -> Result<(), Status> {
    let ready = client.ready().await;
    ready.map_err(|error| Status::unavailable(error.to_string()))
}

fn path(method: &str) -> PathAndQuery {
    PathAndQuery::try_from(format!("/echo.Echo/{method}")).expect("a path")
}

/// The message of this number.
pub(crate) fn numbered(number: usize) -> Bytes {
    Bytes::from(format!("message {number}"))
}

async fn all(mut messages: Streaming<Bytes>) -> Result<Vec<Bytes>, Status> {
    let mut all = Vec::new();
    while let Some(message) = messages.next().await {
        all.push(message?);
    }
    Ok(all)
}

/// More than any message here.
pub(crate) const MESSAGE_BYTES: usize = 16 * 1024 * 1024;
