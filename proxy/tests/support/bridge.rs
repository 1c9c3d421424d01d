//! Bridges between the HTTP/1 of this language and HTTP/2 on the gateway's side, so that a test
//! says once what holds for every pair of protocols. The HTTP/2 is another implementation's.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tokio::runtime::{Handle, Runtime};

use super::{Broken, Framing, Message, Wire};

/// An address that takes HTTP/1 and passes it on to `gateway` as HTTP/2 with prior knowledge.
pub(crate) fn into_h2(gateway: SocketAddr) -> SocketAddr {
    listen(move |client| {
        let (runtime, handle) = runtime();
        let connected = runtime.block_on(async {
            let socket = tokio::net::TcpStream::connect(gateway).await;
            h2::client::handshake(socket.expect("the gateway accepts")).await
        });
        let (send, connection) = connected.expect("the gateway speaks HTTP/2");
        std::thread::spawn(move || drop(runtime.block_on(connection)));
        let mut wire = Wire::new(client);
        if while_there_are_requests(&mut wire, &handle, &send).is_err() {
            wire.arm_reset();
        }
    })
}

/// An address that takes HTTP/2 with prior knowledge and passes it on to `origin` as HTTP/1, each
/// stream on a connection of its own.
pub(crate) fn out_of_h2(origin: SocketAddr) -> SocketAddr {
    listen(move |socket| {
        let (runtime, handle) = runtime();
        runtime.block_on(async {
            socket.set_nonblocking(true).expect("a socket of ours");
            let socket = tokio::net::TcpStream::from_std(socket).expect("a socket of ours");
            let Ok(mut connection) = h2::server::handshake(socket).await else {
                return;
            };
            while let Some(Ok((request, respond))) = connection.accept().await {
                let handle = handle.clone();
                std::thread::spawn(move || pass_on(&handle, origin, request, respond));
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

fn runtime() -> (Runtime, Handle) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let handle = runtime.handle().clone();
    (runtime, handle)
}

/// The other side broke off.
struct Gone;

impl From<Broken> for Gone {
    fn from(_: Broken) -> Self {
        Self
    }
}

impl From<h2::Error> for Gone {
    fn from(_: h2::Error) -> Self {
        Self
    }
}

fn while_there_are_requests(
    wire: &mut Wire,
    handle: &Handle,
    send: &h2::client::SendRequest<Bytes>,
) -> Result<(), Gone> {
    while let Some(mut request) = wire.head()? {
        let framing = request.request_framing()?;
        wire.body(&mut request, framing)?;
        let mut send = handle.block_on(send.clone().ready())?;
        let ends = framing == Framing::Nothing;
        let (mut response, mut body) = send.send_request(request_of(&request), ends)?;
        if !ends {
            // Who is not heard to the end may have been answered.
            let _ = send_body(handle, &mut body, &request.body, &request.trailers);
        }
        let next = poll_fn(|context| response.poll_informational(context));
        if let Some(interim) = handle.block_on(next) {
            let interim = interim?;
            wire.write(&head_of(interim.status().as_u16(), interim.headers(), ""))?;
        }
        let (head, mut body) = handle.block_on(response)?.into_parts();
        let framing = match (request.method(), head.status.as_u16()) {
            ("HEAD", _) | (_, 204 | 304) => "",
            _ if head.headers.contains_key("content-length") => "",
            _ => "transfer-encoding: chunked\r\n",
        };
        wire.write(&head_of(head.status.as_u16(), &head.headers, framing))?;
        receive_body(wire, handle, &mut body, !framing.is_empty())?;
    }
    Ok(())
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

/// The fields that HTTP/2 has.
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

fn send_body(
    handle: &Handle,
    stream: &mut SendStream<Bytes>,
    mut body: &[u8],
    trailers: &[(String, String)],
) -> Result<(), Gone> {
    while !body.is_empty() {
        stream.reserve_capacity(body.len().min(16 * 1024));
        let room = handle.block_on(poll_fn(|context| stream.poll_capacity(context)));
        let room = room.ok_or(Gone)??;
        let (chunk, rest) = body.split_at(room.min(body.len()));
        stream.send_data(Bytes::copy_from_slice(chunk), false)?;
        body = rest;
    }
    if trailers.is_empty() {
        stream.send_data(Bytes::new(), true)?;
    } else {
        stream.send_trailers(map_of(trailers))?;
    }
    Ok(())
}

/// Writes a body as it comes, in chunks where `chunked`.
fn receive_body(
    wire: &mut Wire,
    handle: &Handle,
    body: &mut RecvStream,
    chunked: bool,
) -> Result<(), Gone> {
    while let Some(data) = handle.block_on(body.data()) {
        let data = data?;
        let _ = body.flow_control().release_capacity(data.len());
        if data.is_empty() {
            continue;
        }
        if chunked {
            wire.write(format!("{:x}\r\n", data.len()).as_bytes())?;
        }
        wire.write(&data)?;
        if chunked {
            wire.write(b"\r\n")?;
        }
    }
    let trailers = handle.block_on(body.trailers())?.unwrap_or_default();
    if chunked {
        let mut end = b"0\r\n".to_vec();
        write_fields(&trailers, &mut end);
        wire.write(&end)?;
    }
    Ok(())
}

/// Takes one stream to the origin and back.
fn pass_on(
    handle: &Handle,
    origin: SocketAddr,
    request: Request<RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) {
    if exchange(handle, origin, request, &mut respond).is_err() {
        respond.send_reset(h2::Reason::INTERNAL_ERROR);
    }
}

fn exchange(
    handle: &Handle,
    origin: SocketAddr,
    request: Request<RecvStream>,
    respond: &mut h2::server::SendResponse<Bytes>,
) -> Result<(), Gone> {
    let stream = TcpStream::connect(origin).map_err(|_| Gone)?;
    let mut wire = Wire::new(stream);
    let (head, mut body) = request.into_parts();
    let method = head.method.to_string();
    let target = head
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str());
    let host = head
        .uri
        .authority()
        .map_or("", |authority| authority.as_str());
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n").into_bytes();
    let chunked = !body.is_end_stream() && !head.headers.contains_key("content-length");
    if chunked {
        text.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    write_fields(&head.headers, &mut text);
    wire.write(&text)?;
    receive_body(&mut wire, handle, &mut body, chunked)?;
    loop {
        let mut message = wire.head()?.ok_or(Gone)?;
        let mut response = Response::new(());
        *response.status_mut() = message.status().try_into().map_err(|_| Gone)?;
        *response.headers_mut() = map_of(&message.fields);
        if response.status().is_informational() {
            respond.send_informational(response)?;
            continue;
        }
        let framing = message.response_framing(&method)?;
        if framing == Framing::Nothing {
            respond.send_response(response, true)?;
            return Ok(());
        }
        let mut stream = respond.send_response(response, false)?;
        wire.body(&mut message, framing)?;
        return send_body(handle, &mut stream, &message.body, &message.trailers);
    }
}
