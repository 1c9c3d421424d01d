//! A server of gRPC calls: a thread with a runtime of its own, HTTP/2 connections, and messages in
//! their frames.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

#[expect(unreachable_pub, reason = "it is the proxy's own")]
#[path = "../../src/policy/mutation/messages.rs"]
pub(crate) mod mutation;

use mutation::HeaderValueOption;

/// A running server; stops when dropped.
pub(crate) struct CallServer {
    pub(crate) address: SocketAddr,
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// Starts a server; `serve` serves each connection, in a task of its own.
pub(crate) fn start<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> CallServer
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.set_nonblocking(true).expect("our socket");
    let address = listener.local_addr().expect("bound");
    let (stop, stopped) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            tokio::select! {
                () = accept_all(listener, serve) => {}
                _ = stopped => {}
            }
        });
    });
    CallServer {
        address,
        _stop: stop,
    }
}

async fn accept_all<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = tokio::net::TcpListener::from_std(listener).expect("a runtime");
    loop {
        let (socket, _) = listener.accept().await.expect("our socket");
        tokio::spawn(serve(socket));
    }
}

/// Serves the calls of a connection, each in a task of its own.
pub(crate) async fn serve_calls<F>(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    answer: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F,
) where
    F: Future<Output = Result<(), h2::Error>> + Send + 'static,
{
    let Ok(mut connection) = h2::server::handshake(socket).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let answered = answer(request, respond);
        // A truncated call is the gateway's concern.
        tokio::spawn(async { drop(answered.await) });
    }
}

/// Sends the head of a response.
pub(crate) fn begin(respond: &mut SendResponse<Bytes>) -> Result<SendStream<Bytes>, h2::Error> {
    let head = Response::builder().header("content-type", "application/grpc");
    respond.send_response(head.body(()).expect("a response"), false)
}

/// Removes the first message from the received bytes, if it is complete.
pub(crate) fn take<M: Message + Default>(bytes: &mut Vec<u8>) -> Option<M> {
    let length = u32::from_be_bytes(bytes.get(1..5)?.try_into().expect("four bytes")) as usize;
    let message = bytes.get(5..5 + length)?;
    let message = M::decode(message).expect("a message of this kind");
    bytes.drain(..5 + length);
    Some(message)
}

/// A message in its frame.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).expect("a small message");
    [&[0][..], &length.to_be_bytes(), &message].concat().into()
}

/// Ends a call with a status of gRPC.
pub(crate) fn end(sending: &mut SendStream<Bytes>, status: &'static str) -> Result<(), h2::Error> {
    let name = HeaderName::from_static("grpc-status");
    let status = HeaderValue::from_static(status);
    sending.send_trailers(HeaderMap::from_iter([(name, status)]))
}

/// Sets a header field.
pub(crate) fn set(name: &str, value: &str) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(mutation::HeaderValue {
            key: name.to_owned(),
            value: String::new(),
            raw_value: value.as_bytes().to_vec(),
        }),
        append: None,
        append_action: 0,
    }
}
