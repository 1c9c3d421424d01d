//! Responses of the API server: whole objects, errors, and the events of watches.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, StatusCode};
use hyper::body::{Body, Frame};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Sleep;

/// An event of a watch.
pub(crate) fn line(kind: &str, object: &Value) -> Bytes {
    // In the order of API servers.
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}

pub(crate) fn whole(value: &Value) -> Response<ResponseBody> {
    Response::new(ResponseBody::Whole(Some(value.to_string().into())))
}

/// An error, as a `Status` object.
pub(crate) fn refuse(code: u16, message: &str) -> Response<ResponseBody> {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        _ => "InternalError",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message});
    let mut response = whole(&status);
    *response.status_mut() = StatusCode::from_u16(code).expect("a status code");
    response
}

pub(crate) enum ResponseBody {
    Whole(Option<Bytes>),
    /// Lines of a watch, until the timeout requested by the client.
    Lines(mpsc::UnboundedReceiver<Bytes>, Pin<Box<Sleep>>),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut *self {
            Self::Whole(body) => body.take(),
            Self::Lines(lines, end) => match lines.poll_recv(context) {
                Poll::Ready(line) => line,
                Poll::Pending => {
                    ready!(end.as_mut().poll(context));
                    None
                }
            },
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }
}
