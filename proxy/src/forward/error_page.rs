//! Pages of policies in the place of the contents of backends' errors.

use http::StatusCode;
use xds::model::Content;

use crate::exchange::Matched;
use crate::exchange::local_body::{LocalBody, Page, Presence};
use crate::exchange::page_fetch::{PageFetch, UploadState};
use crate::failure::{Failure, FailureKind};
use crate::http::authority::MAX_HOST_BYTES;
use crate::http::grpc;
use crate::http::h1::RequestKind;
use crate::http::h1::encode::field;
use crate::http::head::Framing;
use crate::http::known::KnownHeader;
use crate::http::lines::pairs;
use crate::limits::{PAGE_DRAIN_BYTES, PAGE_DRAIN_TIMEOUT};
use crate::memory::Kept;
use crate::policy::answer::{
    ChosenPage, Facts, PageContent, PageServer, PageSource, Template, describes_content,
};
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
        if side.response.status < 400 {
            return None;
        }
        let pages = &self.attempt.matched.rule.error_pages()?.pages;
        let head = self.buffer.filled().get(..length)?;
        let fields = &side.response.fields;
        let is_grpc = |value: &[u8]| grpc::is_grpc(value);
        let content_type = fields.value(KnownHeader::ContentType, head);
        if self.attempt.is_grpc || content_type.is_some_and(is_grpc) {
            return None;
        }
        let accept = side.received.values(b"accept");
        pages.choose(side.response.status, PageSource::Backend, accept)
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
        // That of the head: the endpoint is not waited for meanwhile.
        self.connection.deadline.disarm();
        let status = side.response.status;
        let upload = if uploaded() {
            UploadState::Over
        } else {
            UploadState::Running
        };
        let page = self.content_of(page, side, upload).await?;
        let framing = side.response.framing;
        self.write_content_lines(&page.lines, side);
        let bytes = page.body.len() as u64;
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
        let presence = if is_head {
            Presence::Stated
        } else {
            Presence::Sent
        };
        side.record.bytes_out = 0;
        let sent = page
            .body
            .send(&side.client, side.out, presence, &mut side.record.bytes_out)
            .await;
        side.client.deadline.disarm();
        sent.map_err(|_| {
            if side.client.deadline.expired() {
                FailureKind::ClientStalled
            } else {
                FailureKind::ClientGone
            }
        })?;
        let is_uploaded = uploaded();
        let is_read = is_uploaded && self.drain(framing, side).await;
        Ok(side.end(framing, is_uploaded, is_read, shard))
    }

    /// The content of a page: of a server that fails, a text.
    async fn content_of(
        &self,
        page: ChosenPage<'a>,
        side: &ResponseSide<'_, '_>,
        upload: UploadState,
    ) -> Result<Page<'a>, Failure> {
        let status = StatusCode::from_u16(side.response.status).unwrap_or(StatusCode::BAD_GATEWAY);
        let pages_sent = &side.proxy.shard.counters.error_pages;
        match page.content {
            PageContent::Body { content, varies } => {
                pages_sent.count(PageSource::Backend);
                if let Some(trace) = &side.record.trace {
                    trace.error_page(page.policy, status.as_u16(), PageSource::Backend);
                }
                let mut lines = content.type_line.to_vec();
                if varies {
                    field(&mut lines, b"Vary", b"Accept");
                }
                let body = filled(&content.body, status, side);
                Ok(Page { lines, body })
            }
            PageContent::Server(server) => {
                let from = (page.policy, server);
                let served = self.served_page(from, status, side, upload).await?;
                if served.is_some() {
                    pages_sent.count(PageSource::Backend);
                }
                Ok(served.unwrap_or_else(|| built_in(status, &side.proxy.shard)))
            }
        }
    }

    /// The page of a server; `None` if that fails.
    async fn served_page(
        &self,
        (policy, server): (&str, &PageServer),
        status: StatusCode,
        side: &ResponseSide<'_, '_>,
        upload: UploadState,
    ) -> Result<Option<Page<'a>>, Failure> {
        let Matched { rule, target, .. } = self.attempt.matched;
        let Some(pages) = rule.error_pages() else {
            return Ok(None);
        };
        let fetch = PageFetch {
            proxy: side.proxy,
            holds: side.holds,
            received: side.received,
            client: side.client,
            upload,
            record: side.record,
            target: Some(target),
        };
        let fetched = fetch.fetch(pages, server, status).await?;
        if let Some(trace) = &side.record.trace {
            let failed = fetched.as_ref().err().map(|it| it.why);
            let error = (status.as_u16(), PageSource::Backend);
            trace.served_page(policy, error, server, failed);
        }
        Ok(fetched.ok())
    }

    /// Writes the lines of a page's content: filters come after it, and servers that edited the old response before.
    fn write_content_lines(&self, lines: &[u8], side: &mut ResponseSide<'_, '_>) {
        side.take_granted(self.buffer.filled());
        side.changed.revoke(describes_content);
        let edits = self.attempt.response_edits();
        for (name, value) in pairs(lines) {
            if edits.is_none_or(|edits| !edits.drops(name)) {
                field(side.lines, name, value);
            }
        }
    }

    /// Reads the rest of the old content, if it is short and on its way, so that the connection to the endpoint can
    /// be used again. Whether it was all of it: otherwise that connection closes. A stream of HTTP/2 is given up.
    async fn drain(&mut self, framing: Framing, side: &mut ResponseSide<'_, '_>) -> bool {
        let (stream, deadline) = (&self.connection.stream, &self.connection.deadline);
        if stream.as_h2().is_some() || framing == Framing::UntilClose || !side.response.keep_alive {
            return false;
        }
        let decoder = &mut *side.decoder;
        decoder.reset(framing);
        deadline.arm(Some(PAGE_DRAIN_TIMEOUT), Expiry::Disconnect);
        let mut left = PAGE_DRAIN_BYTES;
        let is_read = loop {
            let Ok(decoded) = decoder.decode(self.buffer.filled_mut()) else {
                break false;
            };
            self.buffer.consume(decoded.consumed);
            if decoded.done {
                break true;
            }
            left = left.saturating_sub(decoded.consumed as u64);
            if decoder.announced() > left || left == 0 {
                break false;
            }
            self.buffer.make_room();
            if !matches!(stream.read(self.buffer).await, Ok(read) if read > 0) {
                break false;
            }
        };
        deadline.disarm();
        is_read && !deadline.expired()
    }
}

/// The page of a server that has none.
fn built_in(status: StatusCode, shard: &Shard) -> Page<'static> {
    let mut lines = Vec::new();
    field(
        &mut lines,
        b"Content-Type",
        Content::DEFAULT_TYPE.as_bytes(),
    );
    let reason = status.canonical_reason().unwrap_or("error");
    let mut text = Kept::new(&shard.buffers);
    text.append(format!("{} {reason}\n", status.as_str()).as_bytes());
    Page {
        lines,
        body: LocalBody::Kept(text),
    }
}

/// A body with the facts of the request.
fn filled<'p>(
    body: &'p Template,
    status: StatusCode,
    side: &ResponseSide<'_, '_>,
) -> LocalBody<'p> {
    let mut buffer = [0; MAX_HOST_BYTES];
    LocalBody::Filled(body.fill(Facts {
        request_id: side.record.id.as_ref().map_or("", |id| id.as_str()),
        status,
        host: normalise_host(side.received.authority(), &mut buffer),
    }))
}
