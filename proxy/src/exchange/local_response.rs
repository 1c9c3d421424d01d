//! Responses of the gateway itself, including the one for a removed bind.

use std::io::{self, Write as _};
use std::time::{Duration, SystemTime};

use http::StatusCode;

use crate::channel::Channel;
use crate::failure::FailureKind;
use crate::http::h1::RequestKind;
use crate::http::h1::encode::{LocalResponse, Persist};
use crate::http::head::Version;
use crate::limits::{ANSWER_PIECE_BYTES, Limits};
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
    match send(client, &response, &mut out, (timeout, &mut 0)).await {
        Ok(()) => NextStep::Linger,
        Err(_) => NextStep::Close,
    }
}

/// Sends a response in the client's protocol, using the memory of `out`: a long one in pieces, each of which the
/// client has to take within `timeout`. Counts the bytes of its body.
pub(crate) async fn send(
    client: &Client,
    response: &LocalResponse<'_>,
    out: &mut Vec<u8>,
    (timeout, sent): (Option<Duration>, &mut u64),
) -> io::Result<()> {
    let mut rest = match &client.stream {
        Channel::Socket(_) => {
            out.clear();
            response.encode_head(out);
            response.content()
        }
        Channel::H2(stream) => stream.put_local_response(response),
    };
    let mut is_first = true;
    while is_first || !rest.is_empty() {
        let piece;
        (piece, rest) = rest.split_at(rest.len().min(ANSWER_PIECE_BYTES));
        client.deadline.arm(timeout, Expiry::Disconnect);
        match &client.stream {
            Channel::Socket(socket) => {
                if !is_first {
                    out.clear();
                }
                out.extend_from_slice(piece);
                socket.write_vec(out).await?;
            }
            Channel::H2(stream) => {
                let end = rest.is_empty().then_some(&b""[..]);
                stream.send(piece, end).await?;
            }
        }
        *sent = sent.saturating_add(piece.len() as u64);
        is_first = false;
    }
    Ok(())
}

/// Appends the Date of a locally generated response (RFC 9110 section 6.6.1).
pub(crate) fn write_date(lines: &mut Vec<u8>) {
    let date = httpdate::HttpDate::from(SystemTime::now());
    // Writing to a vector cannot fail.
    let _ = write!(lines, "Date: {date}\r\n");
}
