//! The body of a response: complete, or streamed in chunks.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use thiserror::Error;
use tokio::sync::mpsc;

/// The body of a response.
#[derive(Debug)]
pub(crate) enum Body {
    /// Complete; None once it has been sent.
    Whole(Option<Bytes>),
    /// Produced while it is sent.
    Chunks(mpsc::Receiver<Chunk>),
}

/// A part of a streamed body.
#[derive(Debug)]
pub(crate) enum Chunk {
    Bytes(Bytes),
    /// The body is complete.
    End,
}

/// The producer failed before the end of the body. The connection is closed, so that the client does
/// not take the response for complete.
#[derive(Debug, Error)]
#[error("the response was aborted")]
pub(crate) struct Aborted;

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Aborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        let chunks = match &mut *self {
            Self::Whole(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                return Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))));
            }
            Self::Chunks(chunks) => chunks,
        };
        Poll::Ready(match ready!(chunks.poll_recv(context)) {
            Some(Chunk::Bytes(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Chunk::End) => {
                *self = Self::Whole(None);
                None
            }
            // The producer failed or panicked.
            None => Some(Err(Aborted)),
        })
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(length as u64)
            }
            Self::Chunks(_) => SizeHint::default(),
        }
    }
}
