//! A tonic server: methods for each kind of streaming, and a record of cancelled calls.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use bytes::{Buf as _, BufMut as _, Bytes};
use tokio::sync::oneshot;
use tokio_stream::{Stream, StreamExt as _};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http;
use tonic::metadata::MetadataMap;
use tonic::server::Grpc;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Code, Request, Response, Status, Streaming};
use tower::service_fn;

use crate::grpc::{MESSAGE_BYTES, numbered};
use crate::support::TIMEOUT;
use crate::support::pki::Credential;

/// Messages as raw bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// A running server; stops when dropped.
pub(crate) struct GrpcServer {
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
    cancelled: Arc<Cancelled>,
    thread: Option<(oneshot::Sender<()>, std::thread::JoinHandle<()>)>,
}

/// Number of calls cancelled while they were served.
#[derive(Default)]
struct Cancelled {
    count: Mutex<usize>,
    changed: Condvar,
}

/// Counts a cancelled call when it is dropped.
struct UntilCancelled(Arc<Cancelled>);

impl Drop for UntilCancelled {
    fn drop(&mut self) {
        *self.0.count.lock().expect("no holder panics") += 1;
        self.0.changed.notify_all();
    }
}

impl GrpcServer {
    /// Starts it, in plain text or with this certificate.
    pub(crate) fn start(shows: Option<&Credential>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        listener.set_nonblocking(true).expect("a socket of ours");
        let cancelled = Arc::new(Cancelled::default());
        let calls = Arc::new(AtomicUsize::new(0));
        let (counted, watched) = (Arc::clone(&calls), Arc::clone(&cancelled));
        let mut server = Server::builder();
        if let Some(shows) = shows {
            let identity = Identity::from_pem(shows.pem(), shows.key_pem());
            let tls = ServerTlsConfig::new().identity(identity);
            server = server.tls_config(tls).expect("a valid configuration");
        }
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a socket of ours");
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                let service = service_fn(move |call| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    serve(call, Arc::clone(&watched))
                });
                tokio::select! {
                    ended = server.serve_with_incoming(service, incoming) => ended.expect("no failure"),
                    _ = stopped => {}
                }
            });
        });
        Self {
            address,
            calls,
            cancelled,
            thread: Some((stop, thread)),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of calls received.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Stops immediately and closes all its connections.
    pub(crate) fn stop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
    }

    /// Waits until this many calls were cancelled.
    #[track_caller]
    pub(crate) fn waits_for_cancellation(&self, calls: usize) {
        let Cancelled { count, changed } = &*self.cancelled;
        let count = count.lock().expect("no holder panics");
        let waited = changed.wait_timeout_while(count, TIMEOUT, |count| *count < calls);
        let (count, _) = waited.expect("no holder panics");
        assert_eq!(*count, calls, "calls that were given up");
    }
}

impl Drop for GrpcServer {
    fn drop(&mut self) {
        self.stop();
    }
}

type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

async fn serve(
    call: http::Request<Body>,
    cancelled: Arc<Cancelled>,
) -> Result<http::Response<Body>, Infallible> {
    let mut grpc = Grpc::new(Raw).max_decoding_message_size(MESSAGE_BYTES);
    let method = call
        .uri()
        .path()
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    Ok(match method.as_str() {
        "Unary" => grpc.unary(service_fn(same), call).await,
        "Fail" => grpc.unary(service_fn(fail), call).await,
        "Wait" => {
            let guard = UntilCancelled(cancelled);
            grpc.unary(service_fn(move |_| wait(&guard)), call).await
        }
        "Down" => {
            grpc.server_streaming(service_fn(|it| ready(down(&it, None))), call)
                .await
        }
        "DownAndFail" => {
            let end = || Some(Status::data_loss("that was all"));
            grpc.server_streaming(service_fn(move |it| ready(down(&it, end()))), call)
                .await
        }
        "SayAndWait" => {
            let say = service_fn(move |it| {
                ready(Ok(send_and_wait(
                    it,
                    UntilCancelled(Arc::clone(&cancelled)),
                )))
            });
            grpc.server_streaming(say, call).await
        }
        "Up" => grpc.client_streaming(service_fn(up), call).await,
        "Both" => grpc.streaming(service_fn(both), call).await,
        _ => Status::unimplemented("no such method").into_http(),
    })
}

/// Echoes the message and its metadata.
async fn same(request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
    let (metadata, _, message) = request.into_parts();
    let mut response = Response::new(message);
    *response.metadata_mut() = metadata;
    Ok(response)
}

async fn fail(_: Request<Bytes>) -> Result<Response<Bytes>, Status> {
    let mut metadata = MetadataMap::new();
    metadata.insert("x-why", "because".parse().expect("text"));
    Err(Status::with_details_and_metadata(
        Code::FailedPrecondition,
        "not so: 100 % \u{fc}ber",
        Bytes::from_static(b"details"),
        metadata,
    ))
}

fn wait(_: &UntilCancelled) -> impl Future<Output = Result<Response<Bytes>, Status>> + use<> {
    pending()
}

/// As many messages as the request says, and the final status.
fn down(request: &Request<Bytes>, end: Option<Status>) -> Result<Response<Messages>, Status> {
    let count = std::str::from_utf8(request.get_ref())
        .ok()
        .and_then(|text| text.parse().ok());
    let count = count.ok_or_else(|| Status::invalid_argument("how many?"))?;
    let messages = (0..count).map(numbered).map(Ok).chain(end.map(Err));
    Ok(Response::new(Box::pin(tokio_stream::iter(messages))))
}

/// The message, and then nothing until the call is cancelled.
fn send_and_wait(request: Request<Bytes>, guard: UntilCancelled) -> Response<Messages> {
    let silence = tokio_stream::pending().map(move |never: Result<Bytes, Status>| {
        let _ = &guard;
        never
    });
    let messages = tokio_stream::once(Ok(request.into_inner())).chain(silence);
    Response::new(Box::pin(messages))
}

/// All messages as one.
async fn up(request: Request<Streaming<Bytes>>) -> Result<Response<Bytes>, Status> {
    let mut messages = request.into_inner();
    let mut all = Vec::new();
    while let Some(message) = messages.message().await? {
        all.extend_from_slice(&message);
    }
    Ok(Response::new(all.into()))
}

/// Echoes each message as it arrives.
async fn both(request: Request<Streaming<Bytes>>) -> Result<Response<Messages>, Status> {
    Ok(Response::new(Box::pin(request.into_inner())))
}
