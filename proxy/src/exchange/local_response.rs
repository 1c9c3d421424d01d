//! Responses of the gateway itself, including the one for a removed bind.

use std::io;
use std::time::SystemTime;

use http::StatusCode;

use crate::channel::Channel;
use crate::failure::FailureKind;
use crate::http::h1::RequestKind;
use crate::http::h1::encode::{LocalResponse, Persist, field};
use crate::http::head::Version;
use crate::limits::Limits;
use crate::shard::Shard;
use crate::shard::deadline::Expiry;

use super::{Client, NextStep};

/// Responds to a request for a removed bind, to which no policy applies any more.
pub(crate) async fn reject_for_removed_bind(shard: &Shard, client: &Client) -> NextStep {
    let kind = FailureKind::NoListener;
    shard.counters.refused.count(kind);
    tracing::debug!(client = %client.hop.address(), "refused a request: its bind was removed");
    let (mut lines, mut out) = (Vec::new(), Vec::new());
    write_date(&mut lines);
    let response = LocalResponse {
        status: StatusCode::NOT_FOUND,
        request_kind: RequestKind::Other,
        client: Version::Http11,
        persist: Persist::Close,
        append: &lines,
        body: kind.text().as_bytes(),
    };
    let timeout = Limits::default().write_idle_timeout;
    client.deadline.arm(timeout, Expiry::Disconnect);
    match send(client, &response, &mut out).await {
        Ok(()) => NextStep::Linger,
        Err(_) => NextStep::Close,
    }
}

/// Sends a response in the client's protocol, using the memory of `out`.
pub(crate) async fn send(
    client: &Client,
    response: &LocalResponse<'_>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    match &client.stream {
        Channel::Socket(socket) => {
            out.clear();
            response.encode(out);
            socket.write_vec(out).await
        }
        Channel::H2(stream) => {
            let body = stream.put_local_response(response);
            stream.send(body, Some(b"")).await
        }
    }
}

/// Appends the Date of a locally generated response (RFC 9110 section 6.6.1).
pub(crate) fn write_date(lines: &mut Vec<u8>) {
    let date = httpdate::HttpDate::from(SystemTime::now());
    field(lines, b"Date", date.to_string().as_bytes());
}
