//! The body of a response: gRPC messages shared between connections, then a status.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame};
use tokio::sync::mpsc;
use tonic::Status;
use xds::delta::Outgoing;

/// An item that a stream passes to its connection.
#[derive(Debug)]
pub(super) enum Response {
    Message(Message),
    End(Status),
}

/// One gRPC message: first the bytes of this connection, then the shared bytes, which are not
/// copied.
pub(super) type Message = Chain<Bytes, Bytes>;

/// Frames a message; `None` if it exceeds what a gRPC length can express.
pub(super) fn message(outgoing: Outgoing) -> Option<Message> {
    let Outgoing { body, tail, .. } = outgoing;
    let length = u32::try_from(body.len().saturating_add(tail.len())).ok()?;
    let mut head = BytesMut::with_capacity(PREFIX_BYTES.saturating_add(tail.len()));
    head.put_u8(NOT_COMPRESSED);
    head.put_u32(length);
    // Fields of a protobuf message may come in any order.
    head.put(tail);
    Some(head.freeze().chain(body))
}

/// The body that a connection sends. It ends when its sender is dropped. The default is empty: a
/// response whose status is in its header fields.
#[derive(Debug, Default)]
pub(super) struct Responses(Option<mpsc::Receiver<Response>>);

/// A body and its sender. It holds one response, so that the sender notices when the connection
/// does not send.
pub(super) fn channel() -> (mpsc::Sender<Response>, Responses) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, Responses(Some(receiver)))
}

impl Body for Responses {
    type Data = Message;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Message>, Infallible>>> {
        let Some(receiver) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let status = match ready!(receiver.poll_recv(context)) {
            Some(Response::Message(message)) => {
                return Poll::Ready(Some(Ok(Frame::data(message))));
            }
            Some(Response::End(status)) => status,
            None => Status::unavailable("the controller is shutting down; reconnect"),
        };
        self.0 = None;
        Poll::Ready(Some(Ok(Frame::trailers(trailers(&status)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if status.add_header(&mut trailers).is_err() {
        // The text is not valid in a header field.
        trailers.insert(
            Status::GRPC_STATUS,
            http::HeaderValue::from(status.code() as i32),
        );
    }
    trailers
}

/// A gRPC message starts with a flag and a length of four bytes.
const PREFIX_BYTES: usize = 5;

const NOT_COMPRESSED: u8 = 0;
