//! Our HTTP/2 origin, in the clear: responds to `GET /bytes/N` with N bytes, and echoes the messages of any gRPC
//! method, each as it comes.
//!
//! glommio has no HTTP/2; Tokio carries the `h2` crate here.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Result, bail};
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::LocalOptions;

use super::http1;

/// Serves until the process is killed. `ready` is called with the address once it listens.
pub(crate) fn serve(listen: SocketAddr, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    runtime.block_on(async move {
        let listener = TcpListener::bind(listen).await?;
        ready(listener.local_addr()?);
        let (counter, bodies) = (Rc::new(Cell::new(0)), Rc::<Bodies>::default());
        loop {
            let (stream, _) = listener.accept().await?;
            let (counter, bodies) = (Rc::clone(&counter), Rc::clone(&bodies));
            tokio::task::spawn_local(async move {
                drop(connection(stream, counter, bodies).await);
            });
        }
    })
}

async fn connection(stream: TcpStream, counted: Rc<Cell<u64>>, bodies: Rc<Bodies>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut connection = h2::server::Builder::new()
        .max_concurrent_streams(STREAMS)
        .handshake(stream)
        .await?;
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = accepted?;
        let (counted, bodies) = (Rc::clone(&counted), Rc::clone(&bodies));
        tokio::task::spawn_local(async move {
            drop(answer(request, respond, &counted, &bodies).await);
        });
    }
    Ok(())
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    counted: &Cell<u64>,
    bodies: &Bodies,
) -> Result<()> {
    if request.method() == Method::GET {
        let body = match request.uri().path().strip_prefix("/bytes/") {
            Some(size) => {
                counted.set(counted.get() + 1);
                bodies.of_size(size.parse()?)
            }
            None => format!("{{\"requests\":{}}}", counted.get()).into(),
        };
        respond
            .send_response(Response::new(()), false)?
            .send_data(body, true)?;
        return Ok(());
    }
    let head = Response::builder()
        .header("content-type", "application/grpc")
        .body(())?;
    let mut sending = respond.send_response(head, false)?;
    echo(request.into_body(), &mut sending, counted).await?;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    Ok(sending.send_trailers(trailers)?)
}

/// The body of the last size, which is copied for no response.
#[derive(Debug, Default)]
struct Bodies(RefCell<Bytes>);

impl Bodies {
    fn of_size(&self, size: usize) -> Bytes {
        let mut last = self.0.borrow_mut();
        if last.len() != size {
            *last = http1::body(size).into();
        }
        last.clone()
    }
}

async fn echo(
    mut body: RecvStream,
    sending: &mut SendStream<Bytes>,
    counted: &Cell<u64>,
) -> Result<()> {
    let mut input = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        input.extend_from_slice(&part);
        while let Some(end) = message_end(&input)? {
            sending.send_data(input.split_to(end).freeze(), false)?;
            counted.set(counted.get() + 1);
        }
    }
    Ok(())
}

/// Where the first message of `input` ends; none while it is not whole.
fn message_end(input: &[u8]) -> Result<Option<usize>> {
    let Some([compressed, length @ ..]) = input.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    if *compressed != 0 {
        bail!("compressed messages are not echoed");
    }
    let end = PREFIX + u32::from_be_bytes(*length) as usize;
    Ok((input.len() >= end).then_some(end))
}

/// `payload` with gRPC's prefix.
pub(crate) fn message(payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX + payload.len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    bytes.extend_from_slice(payload);
    bytes.freeze()
}

/// A flag and a length.
const PREFIX: usize = 5;
const STREAMS: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_complete_at_its_last_byte() {
        let bytes = message(b"abc");
        for cut in 0..bytes.len() {
            assert_eq!(message_end(&bytes[..cut]).expect("fine"), None);
        }
        assert_eq!(message_end(&bytes).expect("fine"), Some(8));
    }
}
