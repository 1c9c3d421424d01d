//! The body of an answer: whole, or in pieces as they are made.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use thiserror::Error;
use tokio::sync::mpsc;

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Body {
    /// All of it, until it was sent.
    Whole(Option<Bytes>),
    /// Made meanwhile.
    Pieces(mpsc::Receiver<Piece>),
}

/// A part of a body that is made while it is sent.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Some bytes.
    Bytes(Bytes),
    /// There are no more.
    End,
}

/// A body that broke off: the connection ends, so that nobody takes it for whole.
#[derive(Debug, Error)]
#[error("the answer broke off")]
pub(crate) struct BrokeOff;

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = BrokeOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        let pieces = match &mut *self {
            Self::Whole(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                return Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))));
            }
            Self::Pieces(pieces) => pieces,
        };
        Poll::Ready(match ready!(pieces.poll_recv(context)) {
            Some(Piece::Bytes(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Piece::End) => {
                *self = Self::Whole(None);
                None
            }
            // Its maker is gone without an end: it failed, or panicked.
            None => Some(Err(BrokeOff)),
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
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}
