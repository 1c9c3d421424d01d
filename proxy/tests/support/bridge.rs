//! Bridges between the HTTP/1 of the tests and HTTP/2 on the gateway's side, so that a test is
//! written once for every pair of protocols. Data is forwarded immediately, piece by piece, in both
//! directions. The HTTP/2 implementation is another one than the gateway's.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tokio::runtime::Runtime;

use super::conversation::{Conversation, MessageReader, MessageSender, PeerGone, Piece};
use super::{Framing, Message};

/// Bytes in flight on a connection: a stalled stream must not block the others.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// An address that accepts HTTP/1 and forwards it to `gateway` as HTTP/2 with prior knowledge.
pub(crate) fn into_h2(gateway: SocketAddr) -> SocketAddr {
    listen(move |client| {
        runtime().block_on(async {
            let socket = tokio::net::TcpStream::connect(gateway).await;
            let socket = socket.expect("the gateway accepts");
            socket.set_nodelay(true).expect("a socket of ours");
            let (send, connection) = h2::client::Builder::new()
                .initial_connection_window_size(CONNECTION_WINDOW)
                .handshake(socket)
                .await
                .expect("the gateway speaks HTTP/2");
            let connection = tokio::spawn(connection);
            let mut spoken = Conversation::over(client, Message::request_framing);
            match while_there_are_requests(&mut spoken, send).await {
                Ok(()) => drop(spoken),
                Err(PeerGone) => spoken.resets(),
            }
            let _ = connection.await;
        });
    })
}

/// An address that accepts HTTP/2 with prior knowledge and forwards it to `origin` as HTTP/1, each
/// stream on its own connection.
pub(crate) fn out_of_h2(origin: SocketAddr) -> SocketAddr {
    listen(move |socket| {
        runtime().block_on(async {
            socket.set_nonblocking(true).expect("a socket of ours");
            socket.set_nodelay(true).expect("a socket of ours");
            let socket = tokio::net::TcpStream::from_std(socket).expect("a socket of ours");
            let mut builder = h2::server::Builder::new();
            builder.initial_connection_window_size(CONNECTION_WINDOW);
            let Ok(mut connection) = builder.handshake(socket).await else {
                return;
            };
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(pass_on(origin, request, respond));
            }
        });
    })
}

fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

impl From<h2::Error> for PeerGone {
    fn from(_: h2::Error) -> Self {
        Self
    }
}

async fn while_there_are_requests(
    client: &mut Conversation,
    mut send: SendRequest<Bytes>,
) -> Result<(), PeerGone> {
    while let Some(piece) = client.reader.next().await? {
        let Piece::Head(request, framing) = piece else {
            return Err(PeerGone);
        };
        send = send.ready().await?;
        let ends = framing == Framing::Nothing;
        let (response, body) = send.send_request(request_of(&request), ends)?;
        exchange(client, request.method(), response, body).await?;
    }
    Ok(())
}

/// Sends the body and forwards the response, whichever ends first.
async fn exchange(
    client: &mut Conversation,
    method: &str,
    response: ResponseFuture,
    mut body: SendStream<Bytes>,
) -> Result<(), PeerGone> {
    let Conversation { reader, writer, .. } = client;
    let mut answer = pin!(pass_answer(writer, method, response));
    {
        let mut upload = pin!(upload(reader, &mut body));
        tokio::select! {
            sent = &mut upload => sent?,
            answered = &mut answer => {
                answered?;
                return upload.await;
            }
        }
    }
    tokio::select! {
        answered = answer => answered,
        gone = reader.leaves() => Err(gone),
    }
}

async fn upload(reader: &mut MessageReader, body: &mut SendStream<Bytes>) -> Result<(), PeerGone> {
    match pass_body(reader, body).await {
        // The response may come before the request has been read completely.
        Err(PeerGone) => reader.ends_the_body().await,
        Ok(()) => Ok(()),
    }
}

async fn pass_answer(
    client: &MessageSender,
    method: &str,
    mut response: ResponseFuture,
) -> Result<(), PeerGone> {
    while let Some(interim) = poll_fn(|context| response.poll_informational(context)).await {
        let interim = interim?;
        let head = head_of(interim.status().as_u16(), interim.headers(), "");
        client.all_of(head).await?;
    }
    let (head, body) = response.await?.into_parts();
    let framing = match (method, head.status.as_u16()) {
        ("HEAD", _) | (_, 204 | 304) => "",
        _ if head.headers.contains_key("content-length") => "",
        _ => "transfer-encoding: chunked\r\n",
    };
    let text = head_of(head.status.as_u16(), &head.headers, framing);
    client.all_of(text).await?;
    write_body(client, body, !framing.is_empty()).await
}

fn request_of(message: &Message) -> Request<()> {
    let host = message.value("host").unwrap_or("nobody.test");
    let mut request = Request::new(());
    *request.method_mut() = message.method().parse().expect("a method");
    let uri = format!("http://{host}{}", message.target());
    *request.uri_mut() = uri.parse().expect("a target");
    *request.headers_mut() = map_of(&message.fields);
    request
}

/// The fields allowed in HTTP/2.
fn map_of(fields: &[(String, String)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let name = name.to_ascii_lowercase();
        if !NOT_IN_H2.contains(&name.as_str()) {
            let bytes: Vec<u8> = value.chars().map(|c| c as u8).collect();
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            map.append(name, HeaderValue::from_bytes(&bytes).expect("a value"));
        }
    }
    map
}

const NOT_IN_H2: [&str; 5] = [
    "host",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
];

fn head_of(status: u16, fields: &HeaderMap, framing: &str) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Bridged\r\n{framing}").into_bytes();
    write_fields(fields, &mut head);
    head
}

fn write_fields(fields: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in fields {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Forwards a body as it arrives, until it ends or the receiver is gone.
async fn pass_body(
    reader: &mut MessageReader,
    stream: &mut SendStream<Bytes>,
) -> Result<(), PeerGone> {
    loop {
        let piece = tokio::select! {
            piece = reader.next() => piece?,
            _reset = poll_fn(|context| stream.poll_reset(context)) => return Err(PeerGone),
        };
        match piece {
            Some(Piece::Part(part)) => send_part(stream, part.into()).await?,
            Some(Piece::End(trailers)) => {
                // A stream that was reset needs no end.
                let _ = send_end(stream, &trailers);
                return Ok(());
            }
            Some(Piece::Head(..)) | None => return Err(PeerGone),
        }
    }
}

async fn send_part(stream: &mut SendStream<Bytes>, mut part: Bytes) -> Result<(), PeerGone> {
    while !part.is_empty() {
        stream.reserve_capacity(part.len());
        let room = match stream.capacity() {
            0 => {
                let room = poll_fn(|context| stream.poll_capacity(context)).await;
                room.ok_or(PeerGone)??
            }
            room => room,
        };
        stream.send_data(part.split_to(room.min(part.len())), false)?;
    }
    Ok(())
}

fn send_end(stream: &mut SendStream<Bytes>, trailers: &[(String, String)]) -> Result<(), PeerGone> {
    if trailers.is_empty() {
        stream.send_data(Bytes::new(), true)?;
    } else {
        stream.send_trailers(map_of(trailers))?;
    }
    Ok(())
}

/// Writes a body as it comes, in chunks where `chunked`.
async fn write_body(
    writer: &MessageSender,
    mut body: RecvStream,
    chunked: bool,
) -> Result<(), PeerGone> {
    while let Some(data) = body.data().await {
        let data = data?;
        if !data.is_empty() {
            let mut bytes = Vec::new();
            if chunked {
                bytes.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
            }
            bytes.extend_from_slice(&data);
            if chunked {
                bytes.extend_from_slice(b"\r\n");
            }
            writer.all_of(bytes).await?;
        }
        let _ = body.flow_control().release_capacity(data.len());
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    if chunked {
        let mut end = b"0\r\n".to_vec();
        write_fields(&trailers, &mut end);
        writer.all_of(end).await?;
    }
    Ok(())
}

/// Forwards one stream to the origin and back.
async fn pass_on(
    origin: SocketAddr,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    if to_the_origin(origin, request, &mut respond).await.is_err() {
        respond.send_reset(h2::Reason::INTERNAL_ERROR);
    }
}

async fn to_the_origin(
    origin: SocketAddr,
    request: Request<RecvStream>,
    respond: &mut SendResponse<Bytes>,
) -> Result<(), PeerGone> {
    let socket = TcpStream::connect(origin).map_err(|_| PeerGone)?;
    let method = request.method().to_string();
    let mut origin = Conversation::over(socket, move |head| head.response_framing(&method));
    let mut request = pin!(write_request(&origin.writer, request));
    let mut response = pin!(pass_response(&mut origin.reader, respond));
    tokio::select! {
        // An origin that reads no more of it may have responded.
        _sent = &mut request => response.await,
        answered = &mut response => {
            answered?;
            // Both ends decide whether the rest of it is needed.
            let _ = request.await;
            Ok(())
        }
    }
}

async fn write_request(
    origin: &MessageSender,
    request: Request<RecvStream>,
) -> Result<(), PeerGone> {
    let (head, body) = request.into_parts();
    let target = head
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str());
    let host = head
        .uri
        .authority()
        .map_or("", |authority| authority.as_str());
    let method = &head.method;
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n").into_bytes();
    let chunked = !body.is_end_stream() && !head.headers.contains_key("content-length");
    if chunked {
        text.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    write_fields(&head.headers, &mut text);
    origin.all_of(text).await?;
    write_body(origin, body, chunked).await
}

async fn pass_response(
    reader: &mut MessageReader,
    respond: &mut SendResponse<Bytes>,
) -> Result<(), PeerGone> {
    loop {
        let piece = tokio::select! {
            piece = reader.next() => piece?,
            _reset = poll_fn(|context| respond.poll_reset(context)) => return Err(PeerGone),
        };
        let Some(Piece::Head(message, framing)) = piece else {
            return Err(PeerGone);
        };
        let mut response = Response::new(());
        *response.status_mut() = message.status().try_into().map_err(|_| PeerGone)?;
        *response.headers_mut() = map_of(&message.fields);
        if response.status().is_informational() {
            respond.send_informational(response)?;
            reader.ends_the_body().await?;
            continue;
        }
        let ends = framing == Framing::Nothing;
        let mut stream = respond.send_response(response, ends)?;
        if ends {
            return Ok(());
        }
        return pass_body(reader, &mut stream).await;
    }
}
