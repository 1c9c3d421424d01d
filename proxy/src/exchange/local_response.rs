//! Responses of the gateway itself, including the one for a removed bind.

use std::io::{self, Write as _};
use std::time::{Duration, SystemTime};

use http::StatusCode;

use crate::channel::Channel;
use crate::channel::relay::Side;
use crate::failure::FailureKind;
use crate::http::h1::RequestKind;
use crate::http::h1::encode::{LocalResponse, Persist};
use crate::http::head::Version;
use crate::limits::Limits;
use crate::shard::Shard;

use super::local_body::{LocalBody, Presence};
use super::{Client, NextStep};

/// Responds to a request for a removed bind, to which no policy applies any more.
pub(crate) async fn reject_for_removed_bind(shard: &Shard, client: &Client) -> NextStep {
    let kind = FailureKind::NoListener;
    shard.counters.refused.count(kind);
    tracing::debug!(client = %client.hop.address(), "refused a request: its bind was removed");
    let (mut lines, mut out) = (Vec::new(), Vec::new());
    write_date(&mut lines);
    let body = LocalBody::Bytes(kind.text().as_bytes());
    let response = LocalResponse {
        status: StatusCode::NOT_FOUND,
        request_kind: RequestKind::Other,
        client: Version::Http11,
        persist: Persist::Close,
        append: &lines,
        length: body.len(),
    };
    let timeout = Limits::default().write_idle_timeout;
    match send(client, &response, &body, &mut out, (timeout, &mut 0)).await {
        Ok(()) => NextStep::Linger,
        Err(_) => NextStep::Close,
    }
}

/// Sends a response in the client's protocol, using the memory of `out`: a long one in pieces, each of which the
/// client has to take within `timeout`. Counts the bytes of its body.
pub(crate) async fn send(
    client: &Client,
    response: &LocalResponse<'_>,
    body: &LocalBody<'_>,
    out: &mut Vec<u8>,
    (timeout, sent): (Option<Duration>, &mut u64),
) -> io::Result<()> {
    match &client.stream {
        Channel::Socket(_) => {
            out.clear();
            response.encode_head(out);
        }
        Channel::H2(stream) => stream.put_local_response(response),
    }
    let presence = if response.sends_body() {
        Presence::Sent
    } else {
        Presence::Stated
    };
    let side = Side {
        idle: timeout,
        ..Side::of(&client.stream, &client.deadline)
    };
    body.send(&side, out, presence, sent).await
}

/// Appends the Date of a locally generated response (RFC 9110 section 6.6.1).
pub(crate) fn write_date(lines: &mut Vec<u8>) {
    let date = httpdate::HttpDate::from(SystemTime::now());
    // Writing to a vector cannot fail.
    let _ = write!(lines, "Date: {date}\r\n");
}
