//! Calls to a server of the `h2` crate, over real sockets, on both drivers.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use xds::model::{Health, Hostname};

use super::{Call, CallError, CallMessages, More, unary};
use crate::config::{
    Address, Cluster, Endpoint, EndpointIdentity, EndpointRef, EndpointSet, Protection, Protocol,
    RetryLimit,
};
use crate::failure::FailureKind;
use crate::http::grpc_message::{self, MessageError};
use crate::limits::{EJECTION, RETRY_BUDGET, WHEEL_TICK};
use crate::machine::driver::{Driver, DriverChoice};
use crate::names::Interned;
use crate::shard::turn::Turns;
use crate::shard::{Shard, ShardOptions};
use crate::tls::UpstreamTls;
use crate::tls::pki::authority;
use crate::upstream::Upstreams;

/// Timeout of operations that take milliseconds.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of a call that gets no response.
const SHORT_TIMEOUT: Duration = Duration::from_millis(200);

/// A server that runs in its own thread until dropped.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Receives the reasons of cancelled calls.
    given_up: mpsc::Receiver<h2::Reason>,
    _stop: tokio::sync::oneshot::Sender<()>,
}

fn server(tls: Option<Arc<ServerConfig>>) -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.set_nonblocking(true).expect("our socket");
    let address = listener.local_addr().expect("it is bound");
    let connections = Arc::new(AtomicUsize::new(0));
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let (gives_up, given_up) = mpsc::channel();
    let counter = Arc::clone(&connections);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a runtime");
            let accepting = async {
                loop {
                    let (socket, _) = listener.accept().await.expect("our socket");
                    counter.fetch_add(1, Ordering::Relaxed);
                    let gives_up = gives_up.clone();
                    let tls = tls.clone();
                    tokio::task::spawn_local(async move {
                        match tls {
                            None => serve(socket, gives_up).await,
                            Some(tls) => {
                                let socket = TlsAcceptor::from(tls).accept(socket).await;
                                serve(
                                    socket.expect("a client that trusts the certificate"),
                                    gives_up,
                                )
                                .await;
                            }
                        }
                    });
                }
            };
            tokio::select! {
                () = accepting => {}
                _ = stopped => {}
            }
        });
    });
    Server {
        address,
        connections,
        given_up,
        _stop: stop,
    }
}

async fn serve(
    socket: impl AsyncRead + AsyncWrite + Unpin + 'static,
    gives_up: mpsc::Sender<h2::Reason>,
) {
    let mut connection = h2::server::handshake(socket).await.expect("HTTP/2");
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::task::spawn_local(answer(request, respond, gives_up.clone()));
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    gives_up: mpsc::Sender<h2::Reason>,
) {
    let path = request.uri().path().to_owned();
    assert_eq!(request.headers()["te"], "trailers");
    let promised = request.headers().get("grpc-timeout").is_some();
    let body = request.into_body();
    let head = || {
        let response = Response::builder().header("content-type", "application/grpc");
        response.body(()).expect("a response")
    };
    match &*path {
        "/t/Echo" => echo(body, respond.send_response(head(), false).expect("open")).await,
        "/t/Promise" => {
            let mut sending = respond.send_response(head(), false).expect("open");
            let text = promised.to_string();
            sending.send_data(message(&text), false).expect("open");
            sending.send_trailers(status("0")).expect("open");
        }
        "/t/Refuse" => {
            let mut refusal = head();
            refusal
                .headers_mut()
                .insert("grpc-status", "7".parse().expect("a value"));
            respond.send_response(refusal, true).expect("open");
        }
        "/t/FailLate" => {
            let mut sending = respond.send_response(head(), false).expect("open");
            sending.send_data(message("one"), false).expect("open");
            sending.send_trailers(status("14")).expect("open");
        }
        "/t/Compress" => {
            let mut sending = respond.send_response(head(), false).expect("open");
            let bytes = Bytes::from_static(&[1, 0, 0, 0, 0]);
            sending.send_data(bytes, false).expect("open");
            sending.send_trailers(status("0")).expect("open");
        }
        "/t/Html" => {
            let response = Response::builder()
                .status(500)
                .body(())
                .expect("a response");
            respond.send_response(response, true).expect("open");
        }
        _ => {
            let reason = std::future::poll_fn(|context| respond.poll_reset(context)).await;
            let _ = gives_up.send(reason.expect("the connection lives"));
        }
    }
}

async fn echo(mut body: RecvStream, mut sending: h2::SendStream<Bytes>) {
    while let Some(bytes) = body.data().await {
        let mut bytes = bytes.expect("a client that continues");
        let _ = body.flow_control().release_capacity(bytes.len());
        while !bytes.is_empty() {
            sending.reserve_capacity(bytes.len());
            let room = std::future::poll_fn(|context| sending.poll_capacity(context)).await;
            let room = room.expect("open").expect("open");
            let piece = bytes.split_to(room.min(bytes.len()));
            sending.send_data(piece, false).expect("open");
        }
    }
    sending.send_trailers(status("0")).expect("open");
}

fn message(text: &str) -> Bytes {
    let mut out = Vec::new();
    grpc_message::write(&text.to_owned(), &mut out);
    out.into()
}

fn status(code: &'static str) -> HeaderMap {
    let status = code.parse().expect("a value");
    HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), status)])
}

pub(in crate::upstream) fn cluster(addresses: &[SocketAddr], protection: Protection) -> Cluster {
    let id = |index| Interned {
        index,
        generation: 0,
    };
    let endpoint = |(index, address): (usize, &SocketAddr)| Endpoint {
        id: id(u32::try_from(index).expect("few")),
        address: Address::Tcp(*address),
        identity: EndpointIdentity::new("calls", &address.to_string()),
        name: address.to_string().into(),
        weight: NonZeroU32::MIN,
        health: Health::Ready,
        zone: None,
        probe: None,
    };
    let endpoints: Vec<Endpoint> = addresses.iter().enumerate().map(endpoint).collect();
    let member = |endpoint: &Endpoint| {
        let member = EndpointRef {
            id: endpoint.id,
            weight: endpoint.weight,
        };
        (member, endpoint.health, endpoint.identity)
    };
    let members: Vec<_> = endpoints.iter().map(member).collect();
    Cluster {
        id: id(0),
        name: "calls".into(),
        protection,
        protocol: Protocol::Http2,
        set: EndpointSet::new(id(0), EJECTION, &members),
        hashed: None,
        endpoints: endpoints.into(),
        connections_per_shard: NonZeroU32::new(8).expect("some"),
        endpoint_connections: None,
        endpoint_pending_per_shard: NonZeroU32::MIN,
        pending_per_shard: NonZeroU32::new(8).expect("some"),
        proxy_protocol: None,
        retry_limit: RetryLimit::InFlight(RETRY_BUDGET),
        picker: None,
        health_check: None,
    }
}

/// Runs a test on a shard of its own, on each driver that there is.
fn on_both_drivers<F: Future<Output = ()>>(test: impl Fn(Rc<Upstreams>) -> F) {
    for choice in [DriverChoice::IoUring, DriverChoice::Epoll] {
        let Ok((driver, _)) = Driver::build(choice, 64) else {
            eprintln!("skipped: no {choice:?} here");
            continue;
        };
        let waits = driver.waits();
        driver.block_on(async {
            let (turns, bell_receiver) = Turns::new(waits).expect("descriptors");
            let bell: UnixStream = bell_receiver.try_clone().expect("descriptors");
            let answering = monoio::spawn(Rc::clone(&turns).run(bell_receiver));
            let shard = Rc::new(Shard::new(ShardOptions::standalone(), waits, turns));
            let upstreams = Rc::new(Upstreams::new(Rc::clone(&shard)));
            let ticking = Rc::downgrade(&shard);
            monoio::spawn(async move {
                while let Some(shard) = ticking.upgrade() {
                    shard.advance(Instant::now());
                    drop(shard);
                    monoio::time::sleep(WHEEL_TICK).await;
                }
            });
            test(Rc::clone(&upstreams)).await;
            upstreams.sessions.clear();
            bell.shutdown(std::net::Shutdown::Both).expect("our socket");
            answering.await.expect("its end");
        });
    }
}

async fn call_once(
    upstreams: &Upstreams,
    cluster: &Cluster,
    method: &'static str,
) -> Result<String, CallError> {
    unary(
        upstreams,
        cluster,
        method,
        &"hello".to_owned(),
        TIMEOUT,
        None,
    )
    .await
}

#[test]
fn calls_are_answered_and_share_a_connection() {
    on_both_drivers(|upstreams| async move {
        let server = server(None);
        let cluster = cluster(&[server.address], Protection::Plain);
        for _ in 0..3 {
            assert_eq!(
                call_once(&upstreams, &cluster, "/t/Echo").await.as_deref(),
                Ok("hello")
            );
        }
        assert_eq!(
            call_once(&upstreams, &cluster, "/t/Promise")
                .await
                .as_deref(),
            Ok("true")
        );
        assert_eq!(server.connections.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_server_with_an_unverified_certificate_can_be_called() {
    on_both_drivers(|upstreams| async move {
        let pair = authority("nobody").server(&["elsewhere.test"]);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring speaks them")
            .with_no_client_auth()
            .with_single_cert(vec![pair.der()], pair.key())
            .expect("a key that fits");
        config.alpn_protocols = vec![b"h2".to_vec()];
        let server = server(Some(Arc::new(config)));
        let name = Hostname::parse("picker.default.svc").expect("a name");
        let tls = UpstreamTls::unverified(&name, None, NonZeroU32::MIN).expect("valid settings");
        let cluster = cluster(&[server.address], Protection::Tls(Arc::new(tls)));
        assert_eq!(
            call_once(&upstreams, &cluster, "/t/Echo").await.as_deref(),
            Ok("hello")
        );
    });
}

/// Sends messages while it receives their echoes, more than the windows of both sides hold.
async fn stream_through(call: &Call<'_>, answers: &mut CallMessages, texts: &[String]) {
    let sending = async {
        for (number, text) in texts.iter().enumerate() {
            let more = if number + 1 < texts.len() {
                More::Follow
            } else {
                More::No
            };
            call.send(text, more).await.expect("a server that reads");
        }
    };
    let receiving = async {
        let mut found: Vec<String> = Vec::new();
        while let Some(text) = answers.next(call).await.expect("a server that echoes") {
            found.push(text);
        }
        found
    };
    let ((), found) = tokio::join!(sending, receiving);
    assert!(
        found == texts,
        "{} of {} were echoed",
        found.len(),
        texts.len()
    );
}

#[test]
fn messages_are_streamed_in_both_directions() {
    on_both_drivers(|upstreams| async move {
        let server = server(None);
        let cluster = cluster(&[server.address], Protection::Plain);
        let call = Call::open(&upstreams, (&cluster, None), "/t/Echo", TIMEOUT, None).await;
        let (call, mut answers) = call.expect("it listens");
        let sizes = [1, 100, 70_000, 30_000].iter().cycle().take(40);
        let texts: Vec<String> = sizes.map(|size| "x".repeat(*size)).collect();
        call.wait_at_most(Some(TIMEOUT));
        stream_through(&call, &mut answers, &texts).await;
        assert_eq!(call.endpoint().name.as_ref(), server.address.to_string());
    });
}

#[test]
fn the_result_of_a_call_is_reported() {
    on_both_drivers(|upstreams| async move {
        let server = server(None);
        let cluster = cluster(&[server.address], Protection::Plain);
        for (method, expected) in [
            ("/t/Refuse", CallError::Status(7)),
            ("/t/FailLate", CallError::Status(14)),
            ("/t/Compress", CallError::Message(MessageError::Compressed)),
            ("/t/Html", CallError::NoGrpc("HTTP status other than 200")),
        ] {
            let answer = call_once(&upstreams, &cluster, method).await;
            assert_eq!(answer, Err(expected), "{method}");
        }
        assert_eq!(
            call_once(&upstreams, &cluster, "/t/Echo").await.as_deref(),
            Ok("hello")
        );
    });
}

#[test]
fn a_call_that_takes_too_long_is_canceled() {
    on_both_drivers(|upstreams| async move {
        let server = server(None);
        let cluster = cluster(&[server.address], Protection::Plain);
        let question = "hello".to_owned();
        let answer: Result<String, _> = unary(
            &upstreams,
            &cluster,
            "/t/Silence",
            &question,
            SHORT_TIMEOUT,
            None,
        )
        .await;
        assert_eq!(answer, Err(CallError::TooLate));
        let late = Instant::now() + TIMEOUT;
        let reason = loop {
            if let Ok(reason) = server.given_up.try_recv() {
                break reason;
            }
            assert!(Instant::now() < late, "the server never heard of it");
            monoio::time::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!(reason, h2::Reason::CANCEL);
        assert_eq!(
            call_once(&upstreams, &cluster, "/t/Echo").await.as_deref(),
            Ok("hello")
        );
    });
}

#[test]
fn another_endpoint_is_used_if_a_connection_is_refused() {
    on_both_drivers(|upstreams| async move {
        let server = server(None);
        let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let nobody = gone.local_addr().expect("it is bound");
        drop(gone);
        let some = cluster(&[nobody, server.address], Protection::Plain);
        for _ in 0..8 {
            assert_eq!(
                call_once(&upstreams, &some, "/t/Echo").await.as_deref(),
                Ok("hello")
            );
        }
        let none = cluster(&[], Protection::Plain);
        let answer = call_once(&upstreams, &none, "/t/Echo").await;
        assert_eq!(
            answer,
            Err(CallError::Unreached(FailureKind::NoEndpoint.into()))
        );
    });
}
