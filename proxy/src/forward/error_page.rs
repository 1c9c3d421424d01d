//! Pages of policies in the place of the contents of backends' errors.

use std::borrow::Cow;

use http::StatusCode;

use crate::channel::Channel;
use crate::channel::relay::Side;
use crate::failure::{Failure, FailureKind};
use crate::http::authority::MAX_HOST_BYTES;
use crate::http::grpc;
use crate::http::h1::RequestKind;
use crate::http::h1::encode::field;
use crate::http::head::Framing;
use crate::http::known::KnownHeader;
use crate::limits::ANSWER_PIECE_BYTES;
use crate::policy::answer::{ChosenPage, Facts, PageSource, describes_content};
use crate::policy::normalise::normalise_host;
use crate::shard::Shard;
use crate::shard::deadline::Expiry;

use super::download::{Download, ResponseEnd, ResponseSide};

impl<'a> Download<'a, '_> {
    /// The page for the error whose head has `length` bytes. Calls of gRPC have none.
    pub(super) fn page_instead(
        &self,
        length: usize,
        side: &ResponseSide<'_, '_>,
    ) -> Option<ChosenPage<'a>> {
        let pages = self.attempt.matched.rule.error_pages()?;
        let head = self.buffer.filled().get(..length)?;
        let fields = &side.response.fields;
        let is_grpc = |value: &[u8]| grpc::is_grpc(value);
        let content_type = fields.value(KnownHeader::ContentType, head);
        if self.attempt.is_grpc || content_type.is_some_and(is_grpc) {
            return None;
        }
        let accept = side.received.values(b"accept");
        pages.choose(side.response.status, PageSource::Backend, &accept)
    }

    /// Sends a page in the place of the content of the response whose head has `length` bytes: status and all
    /// fields stay but those of that content.
    pub(super) async fn respond_with_page(
        &mut self,
        length: usize,
        side: &mut ResponseSide<'_, '_>,
        page: ChosenPage<'a>,
        (shard, uploaded): (&Shard, &impl Fn() -> bool),
    ) -> Result<ResponseEnd, Failure> {
        let status = side.response.status;
        shard.counters.error_pages.count(PageSource::Backend);
        if let Some(trace) = &side.record.trace {
            trace.error_page(page.policy, status, PageSource::Backend);
        }
        let body = filled(page, side);
        let framing = self.connection.stream.body_framing(side.response.framing);
        side.lines.extend_from_slice(&page.content.type_line);
        if page.varies {
            field(side.lines, b"Vary", b"Accept");
        }
        let bytes = body.len() as u64;
        let is_head = side.request_kind == RequestKind::Head;
        side.response.content_length = Some(bytes);
        side.response.framing = if is_head {
            Framing::Empty
        } else {
            Framing::Length(bytes)
        };
        let head = self.buffer.filled().get(..length).unwrap_or_default();
        self.attempt.encode_head(head, side, describes_content);
        self.buffer.consume(length);
        side.record.status = status;
        side.record.answered = true;
        let content = if is_head { &[][..] } else { &body };
        side.record.bytes_out = 0;
        send(&side.client, side.out, content, &mut side.record.bytes_out)
            .await
            .map_err(|_| {
                if side.client.deadline.expired() {
                    FailureKind::ClientStalled
                } else {
                    FailureKind::ClientGone
                }
            })?;
        let is_read = self.has_received_rest(framing, side);
        let is_uploaded = uploaded();
        Ok(side.end(framing, is_uploaded, is_read && is_uploaded, shard))
    }

    /// Takes the old content out of the buffer, as far as it has arrived with the head. Whether it was all of it:
    /// otherwise the connection to the backend closes.
    fn has_received_rest(&mut self, framing: Framing, side: &mut ResponseSide<'_, '_>) -> bool {
        let decoder = &mut *side.decoder;
        decoder.reset(framing);
        while !decoder.is_done()
            && let Ok(decoded) = decoder.decode(self.buffer.filled_mut())
            && decoded.consumed > 0
        {
            self.buffer.consume(decoded.consumed);
        }
        decoder.is_done()
    }
}

/// The body of a page with the facts of the request.
fn filled<'p>(page: ChosenPage<'p>, side: &ResponseSide<'_, '_>) -> Cow<'p, [u8]> {
    let mut buffer = [0; MAX_HOST_BYTES];
    let status = StatusCode::from_u16(side.response.status);
    page.content.body.fill(Facts {
        request_id: side.record.id.as_ref().map_or("", |id| id.as_str()),
        status: status.unwrap_or(StatusCode::BAD_GATEWAY),
        host: normalise_host(side.received.authority(), &mut buffer),
    })
}

/// Sends a body after the head that was encoded, in pieces. Counts its bytes.
async fn send(
    client: &Side<'_>,
    out: &mut Vec<u8>,
    mut rest: &[u8],
    sent: &mut u64,
) -> std::io::Result<()> {
    let mut is_first = true;
    while is_first || !rest.is_empty() {
        let piece;
        (piece, rest) = rest.split_at(rest.len().min(ANSWER_PIECE_BYTES));
        client.arm(Expiry::Disconnect);
        match client.stream {
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
    client.deadline.disarm();
    Ok(())
}
